"""Health: what a channel can tell about its connection, and the log lines when that changes."""

import logging
from datetime import UTC, datetime

from nanobee.channel import ChannelState, ChannelStatus

logger = logging.getLogger(__name__)


class Health:
    """Keeps the state of one connection. A trouble is logged once, however often it comes back."""

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._state = ChannelState.STARTING
        self._reason = ""
        self._since = datetime.now(UTC)
        self._last_answer_at: datetime | None = None

    def status(self) -> ChannelStatus:
        """The state, with the reason of a trouble and since when it lasts."""
        detail = f"{self._reason}, since {self._since:%Y-%m-%d %H:%M} UTC" if self._reason else ""
        return ChannelStatus(self._state, detail, self._last_answer_at)

    def start(self) -> None:
        """The channel begins to connect."""
        self._change(ChannelState.STARTING, "")

    def succeed(self) -> None:
        """Telegram answered as it should."""
        self._last_answer_at = datetime.now(UTC)
        if self._state is ChannelState.DOWN:
            logger.warning("channel %s is back; it was down: %s", self._channel, self._reason)
        self._change(ChannelState.UP, "")

    def trouble(self, reason: str) -> None:
        """Something failed that may pass by itself."""
        if self._reason != reason:
            logger.warning("channel %s is down: %s", self._channel, reason)
        self._change(ChannelState.DOWN, reason)

    def fail(self, reason: str) -> None:
        """The channel cannot go on without its owner."""
        self._change(ChannelState.FAILED, reason)

    def _change(self, state: ChannelState, reason: str) -> None:
        if self._state is not state:
            self._since = datetime.now(UTC)
        self._state, self._reason = state, reason
