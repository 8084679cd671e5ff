"""Resolver: completes stored events through their channels, beside everything else."""

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
"""Messages being completed at once, over all channels."""
UNREADABLE = "[a message that could not be read from its platform]"


class Resolver:
    """Only the head of its own session waits for a row that is being resolved."""

    def __init__(self, channels: Mapping[str, AnyChannel]) -> None:
        self._channels = channels
        self._under_way: set[int] = set()
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
                for row in await self._next(bus):
                    self._under_way.add(row.id)
                    tasks.start_soon(self._resolve, bus, row, name="resolve")

    async def _next(self, bus: Bus) -> Sequence[InboxRow]:
        free = MAX_AT_ONCE - len(self._under_way)
        if free <= 0:
            return ()
        try:
            rows = await bus.arriving(MAX_AT_ONCE)
        except BusError as error:
            logger.error("arriving messages wait: %s", error)
            await anyio.sleep(BUS_PAUSE_SECONDS)
            self._may_have_more.set()
            return ()
        return [row for row in rows if row.id not in self._under_way][:free]

    async def _resolve(self, bus: Bus, row: InboxRow) -> None:
        try:
            await bus.resolve(row, await self._complete(row))
        except BusError as error:
            logger.error("%s: row %d waits: %s", row.session_key, row.id, error)
            await anyio.sleep(BUS_PAUSE_SECONDS)
        finally:
            self._under_way.discard(row.id)
            self._may_have_more.set()

    async def _complete(self, row: InboxRow) -> InboundMessage:
        address = Address.from_session_key(row.session_key)
        channel = self._channels.get(address.channel)
        for pause in (*PAUSES_SECONDS, None):
            if channel is None:
                break
            try:
                return await contain(channel.resolve(row.raw))
            except ChannelError as error:
                logger.warning("%s: row %d is not complete yet: %s", row.session_key, row.id, error)
                if pause is not None:
                    await anyio.sleep(pause)
            except Exception:
                # One odd event must not end the resolving of all others.
                logger.exception("%s: channel %s cannot read row %d", row.session_key, address.channel, row.id)
                break
        return InboundMessage(address, sender_id="", text=UNREADABLE, received_at=datetime.now(UTC))
