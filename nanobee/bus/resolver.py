"""Resolver: completes stored events through their channels, beside everything else."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import anyio

from nanobee.bus.bus import Bus, InboxRow
from nanobee.bus.cancellation import contain
from nanobee.channel import AnyChannel
from nanobee.errors import BusError, ChannelError
from nanobee.messages import Address, InboundMessage

logger = logging.getLogger(__name__)

PAUSES_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Waits between the tries; after the last one the message goes on with what is known of it."""
BUS_PAUSE_SECONDS = 1.0
"""How long a row waits when the bus cannot be written."""
MAX_AT_ONCE = 16
"""Messages of one channel that are completed at once."""
UNREADABLE = "[a message that could not be read from its platform]"


class Resolver:
    """Only the head of its own session waits for a row that is being resolved.

    Each channel has its own places, and a row whose platform does not answer holds none while
    it waits for its next try.
    """

    def __init__(self, channels: Mapping[str, AnyChannel]) -> None:
        self._channels = channels
        self._under_way: dict[str, set[int]] = {name: set() for name in channels}
        self._may_have_more = anyio.Event()

    def row_arriving(self) -> None:
        """A row waits to be completed."""
        self._may_have_more.set()

    async def run(self, bus: Bus) -> None:
        """Complete what arrives, a bounded number of rows at once, until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                await self._may_have_more.wait()
                self._may_have_more = anyio.Event()
                for name in self._channels:
                    for row in await self._next(bus, name):
                        self._under_way[name].add(row.id)
                        tasks.start_soon(self._resolve, bus, name, row, name="resolve")

    async def _next(self, bus: Bus, name: str) -> Sequence[InboxRow]:
        under_way = self._under_way[name]
        if len(under_way) >= MAX_AT_ONCE:
            return ()
        try:
            arriving = await bus.arriving(name, MAX_AT_ONCE)
        except BusError as error:
            logger.error("arriving messages wait: %s", error)
            self._look_again(BUS_PAUSE_SECONDS)
            return ()
        if arriving.next_at is not None:
            self._look_again((arriving.next_at - datetime.now(UTC)).total_seconds())
        return [row for row in arriving.rows if row.id not in under_way][: MAX_AT_ONCE - len(under_way)]

    def _look_again(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(max(0.0, seconds), self.row_arriving)

    async def _resolve(self, bus: Bus, name: str, row: InboxRow) -> None:
        try:
            message = await self._complete(self._channels[name], row)
            if message is not None:
                await bus.resolve(row, message)
            else:
                await bus.resolve_later(row, PAUSES_SECONDS[row.attempts])
        except BusError as error:
            logger.error("%s: row %d waits: %s", row.session_key, row.id, error)
            await anyio.sleep(BUS_PAUSE_SECONDS)
        finally:
            self._under_way[name].discard(row.id)
            self._may_have_more.set()

    async def _complete(self, channel: AnyChannel, row: InboxRow) -> InboundMessage | None:
        """The message; None where it may be had later."""
        try:
            return await contain(channel.resolve(row.raw))
        except ChannelError as error:
            logger.warning("%s: row %d is not complete yet: %s", row.session_key, row.id, error)
            if row.attempts < len(PAUSES_SECONDS):
                return None
        except Exception:
            # One odd event must not end the resolving of all others.
            logger.exception("%s: channel %s cannot read row %d", row.session_key, channel.name, row.id)
        address = Address.from_session_key(row.session_key)
        return InboundMessage(address, sender_id="", text=UNREADABLE, received_at=datetime.now(UTC))
