"""What the terminal channel reads from its section of the configuration."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from nanobee.config import ChannelSettings
from nanobee.phrases import Language

SENDER_ID = "local"
"""Who sits at the terminal: always the owner."""


class TerminalSettings(ChannelSettings):
    """The section of a terminal; `nanobee cli` writes it from its options."""

    kind: str = "terminal"
    allow_from: tuple[str, ...] = (SENDER_ID,)
    message: str | None = None
    """Say this, print the answer, and be done. None reads the keyboard, or a pipe to its end."""
    session: str = Field(default="main", min_length=1)
    """The chat id: one conversation under one name, picked up again by the next start."""
    language: Language = "en"
    color: Literal["auto", "never"] = "auto"
    """`auto` follows the terminal and NO_COLOR."""
    history_path: Path | None = None
    """Where typed lines are kept for the arrow keys. None keeps them while the chat is open."""
