"""The terminal channel: one person at a keyboard, or one message from a script.

Importing it costs nothing: prompt-toolkit and rich come with the first interactive screen.
"""

from nanobee_terminal.channel import TerminalChannel
from nanobee_terminal.settings import TerminalSettings

__all__ = ["TerminalChannel", "TerminalSettings"]
