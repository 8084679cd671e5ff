"""Delivery: one ordered task a chat that hands outbound parts to the chat's channel.

A task lives while its address has something to send or to show. A chat or platform that hangs
delays only itself.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import anyio
from anyio.abc import TaskGroup

from nanobee.bus.bus import Bus, NewSend
from nanobee.bus.cancellation import LeakedCancellationError, contain
from nanobee.bus.checkpoints import checkpoint
from nanobee.bus.live import LiveSlots
from nanobee.channel import AnyChannel
from nanobee.errors import BusError, ChannelError, NotSentError, RefusedError, UnknownOutcomeError
from nanobee.messages import Address, LivePart, OutboundPart

logger = logging.getLogger(__name__)

MAX_CHATS_AT_ONCE = 64
"""Chats of one channel that are worked on at once; the others wait for a place."""
FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 300.0
FAULT_PAUSE_SECONDS = 30.0
"""How long a chat waits after its channel failed in a way that the contract does not know."""
BUS_PAUSE_SECONDS = 1.0
"""How long a delivery waits when the bus cannot be written."""


TellOwner = Callable[[OutboundPart, str], Sequence[NewSend]]
"""Words for the owner, of a part that was given up and the reason."""


def tell_nobody(part: OutboundPart, reason: str) -> Sequence[NewSend]:
    """For gateways without an owner."""
    return ()


@dataclass(slots=True)
class _Chats:
    """One channel's chats that are being worked on, and those that wait for a place."""

    working: set[Address] = field(default_factory=set)
    backlog: dict[Address, None] = field(default_factory=dict)


class Delivery:
    """Sends what the outbox holds and shows what the live slots hold."""

    def __init__(self, channels: Mapping[str, AnyChannel], tell_owner: TellOwner = tell_nobody) -> None:
        self._tell_owner = tell_owner
        frames = {name: channel.frame_seconds for name, channel in channels.items() if channel.can_stream}
        self.live = LiveSlots(frames, self._schedule)
        self._channels = channels
        self._chats = {name: _Chats() for name in channels}
        self._due: set[Address] = set()
        self._streams: dict[Address, tuple[str, tuple[str, ...]]] = {}
        self._idle = anyio.Event()
        self._bus: Bus | None = None
        self._tasks: TaskGroup | None = None

    def start(self, bus: Bus, tasks: TaskGroup) -> None:
        """Deliver from now on; every task belongs to `tasks`."""
        self._bus, self._tasks = bus, tasks
        for channel in self._channels.values():
            channel.on_reachable = self.wake

    def stop(self) -> None:
        """Begin nothing more; called before the tasks are cancelled."""
        self._tasks = None

    def wake(self, address: Address) -> None:
        """The outbox may hold something for `address`."""
        if address.channel not in self._channels:
            logger.info("a message for %s waits: no channel of that name is configured", address.session_key)
            return
        self._due.add(address)
        self._schedule(address)

    def _schedule(self, address: Address) -> None:
        """Have the chat worked on: at once, or when one of its channel's places is free."""
        chats = self._chats[address.channel]
        if self._bus is None or self._tasks is None or address in chats.working:
            return
        if len(chats.working) >= MAX_CHATS_AT_ONCE:
            chats.backlog[address] = None
            return
        chats.working.add(address)
        self._tasks.start_soon(self._serve, self._bus, chats, address, name=f"deliver on {address.channel}")

    async def _serve(self, bus: Bus, chats: _Chats, first: Address) -> None:
        """Work on one chat, then on those that wait for the place."""
        address: Address | None = first
        channel = self._channels[first.channel]
        while address is not None:
            try:
                while address in self._due or self.live.has(address):
                    await self._work(bus, channel, address)
            except Exception:
                # A channel's fault in one chat must not end the delivery of all others.
                logger.exception("%s: channel %s failed; the chat waits", address.session_key, channel.name)
                self._due.discard(address)
                self.live.close(address)
                asyncio.get_running_loop().call_later(FAULT_PAUSE_SECONDS, self.wake, address)
            finally:
                chats.working.discard(address)
            address = next(iter(chats.backlog), None)
            if address is not None:
                del chats.backlog[address]
                chats.working.add(address)
        if self._is_idle:
            self._idle.set()

    @property
    def _is_idle(self) -> bool:
        return not self._due and not any(chats.working for chats in self._chats.values())

    async def drain(self, seconds: float) -> None:
        """Wait until nothing is being sent and nothing is due, `seconds` at most; postponed parts do not count."""
        with anyio.move_on_after(seconds, shield=True):
            while not self._is_idle:
                self._idle = anyio.Event()
                await self._idle.wait()

    async def _work(self, bus: Bus, channel: AnyChannel, address: Address) -> None:
        """Send everything that can be sent, then show the newest live text."""
        while address in self._due:
            self._due.discard(address)
            try:
                if not channel.is_reachable(address):
                    await bus.hold_back(address)
                    continue
                outgoing = await bus.outgoing(address)
                if outgoing.part is not None:
                    self._due.add(address)
                    self.live.close(address)
                    await self._send(bus, channel, outgoing.part, outgoing.may_have_arrived)
                elif outgoing.next_at is not None:
                    self._wake_at(address, outgoing.next_at)
            except BusError as error:
                logger.error("%s: %s", address.session_key, error)
                self._due.add(address)
                await anyio.sleep(BUS_PAUSE_SECONDS)
        await self._show(bus, channel, address)

    def _wake_at(self, address: Address, at: datetime) -> None:
        """Come back to a postponed part, without holding a place until then."""
        pause = max(0.0, (at - datetime.now(UTC)).total_seconds())
        asyncio.get_running_loop().call_later(pause, self.wake, address)

    async def _send(self, bus: Bus, channel: AnyChannel, part: OutboundPart, may_double: bool) -> None:
        where = part.address.session_key
        if may_double:
            logger.warning("%s: part %d is sent again; its last try may have arrived", where, part.id)
        try:
            is_mute = not part.text and not part.attachments and not channel.takes_empty_answers
            platform_ids = () if is_mute else await contain(channel.send(part))
        except RefusedError as error:
            await self._bury(bus, part, str(error))
        except (UnknownOutcomeError, LeakedCancellationError) as error:
            if may_double:
                await self._bury(bus, part, str(error))
            else:
                await bus.postpone(part, str(error), FIRST_PAUSE_SECONDS, is_unknown=True)
        except NotSentError as error:
            if channel.is_reachable(part.address):
                await self._postpone(bus, part, str(error), error.retry_after_seconds, may_double)
            else:
                await bus.hold_back(part.address)
        except ChannelError as error:
            await self._postpone(bus, part, str(error), None, may_double)
        except Exception as error:
            # One odd message or one fault of a channel must not end the delivery of all others.
            logger.exception("%s: channel %s failed on part %d", where, channel.name, part.id)
            await self._bury(bus, part, f"the channel failed: {type(error).__name__}")
        else:
            checkpoint("send.done")
            self._streams.pop(part.address, None)
            with anyio.CancelScope(shield=True):
                await bus.sent(part, platform_ids)

    async def _postpone(
        self, bus: Bus, part: OutboundPart, reason: str, retry_after_seconds: float | None, may_double: bool
    ) -> None:
        pause = min(FIRST_PAUSE_SECONDS * 2 ** min(part.attempt - 1, 16), MAX_PAUSE_SECONDS)
        if retry_after_seconds is not None:
            pause = max(retry_after_seconds, FIRST_PAUSE_SECONDS)
        logger.warning("%s: part %d waits %.0f s: %s", part.address.session_key, part.id, pause, reason)
        if not await bus.postpone(part, reason, pause, is_unknown=may_double):
            await self._bury(bus, part, reason)

    async def _bury(self, bus: Bus, part: OutboundPart, reason: str) -> None:
        logger.error("%s: part %d is given up: %s", part.address.session_key, part.id, reason)
        await bus.bury(part, reason, self._tell_owner(part, reason))

    async def _show(self, bus: Bus, channel: AnyChannel, address: Address) -> None:
        live = self.live.take(address) if self.live.has(address) else None
        if live is None or not channel.can_stream or not channel.is_reachable(address):
            return
        try:
            handle = await self._handle(bus, live.part)
            platform_ids = await contain(channel.stream(replace(live.part, handle=handle), live.text))
            if platform_ids and platform_ids != handle:
                checkpoint("stream.shown")
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
