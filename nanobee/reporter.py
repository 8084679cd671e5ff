"""Reporter: keeps the state folder's status file true while a gateway runs."""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import anyio

from nanobee.channel import AnyChannel, ChannelState, ChannelStatus
from nanobee.errors import StateError
from nanobee.logs import RecentError
from nanobee.status import ChannelReport, GatewayStatus, write_status

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 5.0
"""How old what the file tells may be."""
RecentErrors = Callable[[], tuple[RecentError, ...]]


def no_errors() -> tuple[RecentError, ...]:
    """For callers that keep no errors."""
    return ()


@dataclass(frozen=True, slots=True)
class Reporter:
    """Writes the status at start, and again whenever something in it has changed."""

    state: Path
    model: str
    channels: Mapping[str, AnyChannel]
    recent_errors: RecentErrors = no_errors

    async def run(self) -> None:
        """Write until cancelled."""
        started_at = datetime.now(UTC)
        written: GatewayStatus | None = None
        while True:
            status = self._describe(started_at)
            if written is None or replace(status, updated_at=written.updated_at) != written:
                written = status
                try:
                    await anyio.to_thread.run_sync(write_status, self.state, status)
                except StateError as error:
                    logger.warning("%s", error)
            await anyio.sleep(PERIOD_SECONDS)

    def _describe(self, started_at: datetime) -> GatewayStatus:
        return GatewayStatus(
            pid=os.getpid(),
            started_at=started_at,
            updated_at=datetime.now(UTC),
            model=self.model,
            channels={name: self._report(channel) for name, channel in self.channels.items()},
            errors=self.recent_errors(),
        )

    @staticmethod
    def _report(channel: AnyChannel) -> ChannelReport:
        try:
            status = channel.status()
        except Exception:
            # A channel's fault in telling how it is must not end the reporting of all others.
            logger.exception("channel %s cannot tell its status", channel.name)
            status = ChannelStatus(ChannelState.DOWN, "its status cannot be read")
        return ChannelReport(channel.settings.kind, status.state, status.detail, status.last_event_at)
