"""Delivery: one ordered task a chat that hands outbound parts to the chat's channel.

A task lives while its address has something to send or to show. A chat or platform that hangs
delays only itself.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import anyio
from anyio.abc import TaskGroup

from nanobee.bus.bus import Bus, Outgoing
from nanobee.bus.live import LiveSlots
from nanobee.channel import AnyChannel
from nanobee.errors import BusError, ChannelError, NotSentError, RefusedError, UnknownOutcomeError
from nanobee.messages import Address, LivePart, OutboundPart

logger = logging.getLogger(__name__)

MAX_CHATS_AT_ONCE = 64
"""Deliveries under way on one channel."""
FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 300.0
MAX_ATTEMPTS = 100
"""With growing pauses this is about eight hours; then the part is dead, visible and resubmittable."""
BUS_PAUSE_SECONDS = 1.0
"""How long a delivery waits when the bus cannot be written."""


class Delivery:
    """Sends what the outbox holds and shows what the live slots hold."""

    def __init__(self, channels: Mapping[str, AnyChannel]) -> None:
        streaming = frozenset(name for name, channel in channels.items() if channel.can_stream)
        self.live = LiveSlots(streaming, self._wake_task)
        self._channels = channels
        self._due: set[Address] = set()
        self._streams: dict[Address, tuple[str, tuple[str, ...]]] = {}
        self._busy: set[Address] = set()
        self._idle = anyio.Event()
        self._limits = {name: anyio.CapacityLimiter(MAX_CHATS_AT_ONCE) for name in channels}
        self._wakers: dict[Address, anyio.Event] = {}
        self._bus: Bus | None = None
        self._tasks: TaskGroup | None = None

    def start(self, bus: Bus, tasks: TaskGroup) -> None:
        """Deliver from now on; every task belongs to `tasks`."""
        self._bus, self._tasks = bus, tasks

    def wake(self, address: Address) -> None:
        """The outbox may hold something for `address`."""
        self._due.add(address)
        self._wake_task(address)

    def _wake_task(self, address: Address) -> None:
        waker = self._wakers.get(address)
        if waker is not None:
            waker.set()
        elif self._bus is not None and self._tasks is not None:
            self._wakers[address] = anyio.Event()
            self._wakers[address].set()
            self._tasks.start_soon(self._deliver_to, self._bus, address, name=f"deliver to {address.channel}")

    async def _deliver_to(self, bus: Bus, address: Address) -> None:
        channel = self._channels.get(address.channel)
        if channel is None:
            logger.info("a message for %s waits: no channel of that name is configured", address.session_key)
            del self._wakers[address]
            self._due.discard(address)
            return
        try:
            while self._wakers[address].is_set():
                self._wakers[address] = anyio.Event()
                async with self._limits[address.channel]:
                    self._busy.add(address)
                    outgoing = await self._work(bus, channel, address)
                    self._busy.discard(address)
                self._tell_if_idle()
                if outgoing.next_at is not None:
                    pause = (outgoing.next_at - datetime.now(UTC)).total_seconds()
                    with anyio.move_on_after(max(0.0, pause)):
                        await self._wakers[address].wait()
                    self.wake(address)
        finally:
            self._busy.discard(address)
            del self._wakers[address]

    def _tell_if_idle(self) -> None:
        if not self._busy and not self._due:
            self._idle.set()

    async def drain(self, seconds: float) -> None:
        """Wait until nothing is being sent and nothing is due, `seconds` at most; postponed parts do not count."""
        with anyio.move_on_after(seconds, shield=True):
            while self._busy or self._due:
                self._idle = anyio.Event()
                await self._idle.wait()

    async def _work(self, bus: Bus, channel: AnyChannel, address: Address) -> Outgoing:
        """Send everything that can be sent, show the newest live text; return what stopped it."""
        outgoing = Outgoing(None)
        while address in self._due:
            self._due.discard(address)
            try:
                outgoing = await bus.outgoing(address)
                if outgoing.part is not None:
                    self._due.add(address)
                    self.live.close(address)
                    await self._send(bus, channel, outgoing.part, outgoing.may_have_arrived)
            except BusError as error:
                logger.error("%s: %s", address.session_key, error)
                self._due.add(address)
                await anyio.sleep(BUS_PAUSE_SECONDS)
        await self._show(bus, channel, address)
        return outgoing

    async def _send(self, bus: Bus, channel: AnyChannel, part: OutboundPart, may_double: bool) -> None:
        where = part.address.session_key
        if may_double:
            logger.warning("%s: part %d is sent again; its last try may have arrived", where, part.id)
        try:
            platform_ids = await channel.send(part)
        except RefusedError as error:
            await self._bury(bus, part, str(error))
        except UnknownOutcomeError as error:
            if may_double:
                await self._bury(bus, part, str(error))
            else:
                await bus.postpone(part, str(error), FIRST_PAUSE_SECONDS, is_unknown=True)
        except NotSentError as error:
            await self._postpone(bus, part, str(error), error.retry_after_seconds)
        except ChannelError as error:
            await self._postpone(bus, part, str(error), None)
        except Exception as error:
            # One odd message or one fault of a channel must not end the delivery of all others.
            logger.exception("%s: channel %s failed on part %d", where, channel.name, part.id)
            await self._bury(bus, part, f"the channel failed: {type(error).__name__}")
        else:
            self._streams.pop(part.address, None)
            with anyio.CancelScope(shield=True):
                await bus.sent(part, platform_ids)

    @staticmethod
    async def _postpone(bus: Bus, part: OutboundPart, reason: str, retry_after_seconds: float | None) -> None:
        if part.attempt >= MAX_ATTEMPTS:
            await Delivery._bury(bus, part, reason)
            return
        pause = min(FIRST_PAUSE_SECONDS * 2 ** min(part.attempt - 1, 16), MAX_PAUSE_SECONDS)
        if retry_after_seconds is not None:
            pause = max(retry_after_seconds, FIRST_PAUSE_SECONDS)
        logger.warning("%s: part %d waits %.0f s: %s", part.address.session_key, part.id, pause, reason)
        await bus.postpone(part, reason, pause, is_unknown=False)

    @staticmethod
    async def _bury(bus: Bus, part: OutboundPart, reason: str) -> None:
        logger.error("%s: part %d is given up: %s", part.address.session_key, part.id, reason)
        await bus.bury(part, reason)

    async def _show(self, bus: Bus, channel: AnyChannel, address: Address) -> None:
        live = self.live.take(address)
        if live is None or not channel.can_stream:
            return
        try:
            handle = await self._handle(bus, live.part)
            platform_ids = await channel.stream(replace(live.part, handle=handle), live.text)
            if platform_ids and platform_ids != handle:
                with anyio.CancelScope(shield=True):
                    await bus.record_stream(address, live.part.turn, platform_ids)
                self._streams[address] = (live.part.turn, platform_ids)
        except (ChannelError, BusError) as error:
            logger.info("%s: a live text was not shown: %s", address.session_key, error)
        except Exception:
            # A stream is best effort; the final text still comes.
            logger.exception("%s: channel %s failed to show a live text", address.session_key, channel.name)

    async def _handle(self, bus: Bus, part: LivePart) -> tuple[str, ...]:
        """The platform message that this stream grows; a turn resumed after a crash finds it in the bus."""
        turn, handle = self._streams.get(part.address, (None, ()))
        if turn != part.turn:
            handle = await bus.stream_handle(part.turn)
            self._streams[part.address] = (part.turn, handle)
        return handle
