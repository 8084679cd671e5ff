"""Resolver: completes stored events through their channels, beside everything else."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime

import anyio
from anyio.abc import TaskGroup

from nanobee.bus.bus import Bus, InboxRow
from nanobee.channel import AnyChannel
from nanobee.errors import BusError, ChannelError
from nanobee.messages import Address, InboundMessage

logger = logging.getLogger(__name__)

PAUSES_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Waits between the tries; after the last one the message goes on with what is known of it."""
MAX_AT_ONCE = 16
"""Messages being completed at once, over all channels."""
UNREADABLE = "[a message that could not be read from its platform]"


class Resolver:
    """Only the head of its own session waits for a row that is being resolved."""

    def __init__(self, channels: Mapping[str, AnyChannel]) -> None:
        self._channels = channels
        self._limit = anyio.CapacityLimiter(MAX_AT_ONCE)
        self._under_way: set[int] = set()
        self._bus: Bus | None = None
        self._tasks: TaskGroup | None = None

    def start(self, bus: Bus, tasks: TaskGroup) -> None:
        """Resolve from now on; every task belongs to `tasks`."""
        self._bus, self._tasks = bus, tasks

    def row_arriving(self, row: InboxRow) -> None:
        """Complete the row, once."""
        if self._bus is not None and self._tasks is not None and row.id not in self._under_way:
            self._under_way.add(row.id)
            self._tasks.start_soon(self._resolve, self._bus, row, name="resolve")

    async def _resolve(self, bus: Bus, row: InboxRow) -> None:
        try:
            async with self._limit:
                message = await self._complete(row)
            await bus.resolve(row, message)
        except BusError as error:
            logger.error("%s: row %d stays arriving until the next start: %s", row.session_key, row.id, error)
        finally:
            self._under_way.discard(row.id)

    async def _complete(self, row: InboxRow) -> InboundMessage:
        address = Address.from_session_key(row.session_key)
        channel = self._channels.get(address.channel)
        for pause in (*PAUSES_SECONDS, None):
            if channel is None:
                break
            try:
                return await channel.resolve(row.raw)
            except ChannelError as error:
                logger.warning("%s: row %d is not complete yet: %s", row.session_key, row.id, error)
                if pause is not None:
                    await anyio.sleep(pause)
            except Exception:
                # One odd event must not end the resolving of all others.
                logger.exception("%s: channel %s cannot read row %d", row.session_key, address.channel, row.id)
                break
        return InboundMessage(address, sender_id="", text=UNREADABLE, received_at=datetime.now(UTC))
