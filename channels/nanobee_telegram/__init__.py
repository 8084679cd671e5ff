"""The Telegram channel: one bot, by long polling.

Importing it costs nothing: python-telegram-bot comes with the first use of a channel object.
"""

from nanobee_telegram.channel import TelegramChannel
from nanobee_telegram.settings import TelegramSettings

__all__ = ["TelegramChannel", "TelegramSettings"]
