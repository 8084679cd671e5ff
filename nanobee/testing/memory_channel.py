"""MemoryChannel: a chat platform in memory, for tests of everything between two channels.

channel = MemoryChannel("memory", MemorySettings())
...                                                  # its `run` is started as any channel's
await channel.say("hello")                           # returns once it is stored
parts = await channel.wait_sent(1)                   # what came back
channel.block("7")                                   # sends to chat 7 hang until `unblock`
channel.fail("7", NotSentError("no network"))        # the next send to it fails
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import anyio

from nanobee.channel import EVERYBODY, Arrival, Channel, ChannelState, ChannelStatus, Inbox, Receipt, lane_of
from nanobee.config import ChannelSettings
from nanobee.errors import BusError, DeliveryError
from nanobee.messages import Address, InboundMessage, LivePart, OutboundPart, PartKind
from nanobee.testing.watch import WAIT_SECONDS, Watch

RETRY_SECONDS = 0.05
"""The pause after an inbox that could not store."""


class MemorySettings(ChannelSettings):
    """The keys of a channel of kind `memory`; unlike a real one's, it is open to everybody by default."""

    kind: Literal["memory"] = "memory"
    allow_from: tuple[str, ...] = (EVERYBODY,)
    max_chars: int = 4096
    """What one part takes."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One call of `stream`."""

    part: LivePart
    text: str


@dataclass
class _ScriptedFault:
    chat_id: str
    error: DeliveryError
    times: int
    is_delivered: bool


class MemoryChannel(Channel[MemorySettings]):
    """Both ends of a channel: what `run` receives is what the test says, what `send` is given is kept.

    An event stays with the platform until its inbox has stored it, over restarts of `run` too.
    """

    settings_type = MemorySettings
    can_stream = True

    def __init__(
        self, name: str = "memory", settings: MemorySettings | None = None, *, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        super().__init__(name, settings or MemorySettings())
        self.sent: list[OutboundPart] = []
        """What stands in the chats, in its order."""
        self.attempts: list[OutboundPart] = []
        """Every call of `send`, failed ones too."""
        self.frames: list[Frame] = []
        """What `stream` showed."""
        self.receipts: dict[str, Receipt] = {}
        """What became of each event, by its key; an event without an entry is not acknowledged."""
        self._waiting: list[Arrival] = []
        self._faults: list[_ScriptedFault] = []
        self._blocks: dict[str, anyio.Event] = {}
        self._numbers = itertools.count(1)
        self._state = ChannelState.STARTING
        self._watch = Watch(wait_seconds)

    # The channel

    async def run(self, inbox: Inbox) -> None:
        self._state = ChannelState.UP
        try:
            while True:
                while not self._waiting:
                    await self._watch.next()
                await self._hand_in(inbox, tuple(self._waiting))
        finally:
            self._state = ChannelState.DOWN

    async def send(self, part: OutboundPart) -> tuple[str, ...]:
        self.attempts.append(part)
        self._watch.notify()
        while (block := self._blocks.get(part.address.chat_id)) is not None:
            await block.wait()
        fault = self._take_fault(part.address.chat_id)
        if fault is None or fault.is_delivered:
            self.sent.append(part)
            self._watch.notify()
        if fault is not None:
            raise fault.error
        return (f"m{next(self._numbers)}",)

    async def stream(self, part: LivePart, text: str) -> tuple[str, ...]:
        self.frames.append(Frame(part, text))
        self._watch.notify()
        return part.handle or (f"m{next(self._numbers)}",)

    def split(self, text: str) -> Sequence[str]:
        size = self.settings.max_chars
        return [text[start : start + size] for start in range(0, len(text), size)] or [text]

    def status(self) -> ChannelStatus:
        return ChannelStatus(self._state)

    async def _hand_in(self, inbox: Inbox, arrivals: Sequence[Arrival]) -> None:
        try:
            receipts = await inbox.receive(*arrivals)
        except BusError:
            await anyio.sleep(RETRY_SECONDS)
            return
        del self._waiting[: len(arrivals)]
        for arrival, receipt in zip(arrivals, receipts, strict=True):
            self.receipts[arrival.event_key] = receipt
        self._watch.notify()

    # People

    def post(
        self,
        text: str,
        *,
        chat_id: str = "1",
        sender: str = "1",
        thread: str | None = None,
        event_key: str | None = None,
        reply_to: str | None = None,
    ) -> str:
        """Say something without waiting; returns the event key, by which `receipts` knows it.

        The same `event_key` again is the same event, delivered twice.
        """
        number = str(next(self._numbers))
        address = Address(self.name, chat_id, thread)
        message = InboundMessage(
            address=address,
            sender_id=sender,
            text=text,
            received_at=datetime.now(UTC),
            source_id=number,
            reply_to=reply_to,
        )
        key = event_key or number
        self.receipts.pop(key, None)
        self._waiting.append(
            Arrival(
                event_key=key,
                session_key=address.session_key,
                sender_id=sender,
                lane=lane_of(text),
                raw={},
                source_id=number,
                message=message,
            )
        )
        self._watch.notify()
        return key

    async def say(
        self,
        text: str,
        *,
        chat_id: str = "1",
        sender: str = "1",
        thread: str | None = None,
        event_key: str | None = None,
    ) -> Receipt:
        """Say something, and wait until it is stored or refused."""
        key = self.post(text, chat_id=chat_id, sender=sender, thread=thread, event_key=event_key)
        await self._watch.until(lambda: key in self.receipts)
        return self.receipts[key]

    async def wait_receipts(self, count: int) -> None:
        """Wait until so many events are acknowledged."""
        await self._watch.until(lambda: len(self.receipts) >= count)

    async def wait_sent(
        self, count: int = 1, *, chat_id: str | None = None, kind: PartKind | None = None
    ) -> list[OutboundPart]:
        """Wait until at least `count` parts stand in the chat (of any chat, of any kind), and return them all."""
        await self._watch.until(lambda: len(self.sent_to(chat_id, kind)) >= count)
        return self.sent_to(chat_id, kind)

    async def wait_attempts(self, count: int = 1, *, chat_id: str | None = None) -> list[OutboundPart]:
        """Wait until `send` was called so often, and return the parts that it was given."""
        await self._watch.until(lambda: len(_of_chat(self.attempts, chat_id)) >= count)
        return _of_chat(self.attempts, chat_id)

    async def wait_frames(self, count: int = 1) -> list[Frame]:
        """Wait until `stream` was called so often, and return all that it showed."""
        await self._watch.until(lambda: len(self.frames) >= count)
        return self.frames

    def sent_to(self, chat_id: str | None = None, kind: PartKind | None = None) -> list[OutboundPart]:
        """The parts that stand in a chat, or in all."""
        return [part for part in _of_chat(self.sent, chat_id) if kind in (None, part.kind)]

    # Faults

    def fail(self, chat_id: str, error: DeliveryError, *, times: int = 1, is_delivered: bool = False) -> None:
        """Let the next sends to a chat fail; with `is_delivered` the part stands in the chat all the same."""
        self._faults.append(_ScriptedFault(chat_id, error, times, is_delivered))

    def block(self, chat_id: str) -> None:
        """Let sends to a chat hang until `unblock`."""
        self._blocks.setdefault(chat_id, anyio.Event())

    def unblock(self, chat_id: str) -> None:
        """Let sends to a chat go on."""
        if (block := self._blocks.pop(chat_id, None)) is not None:
            block.set()

    def _take_fault(self, chat_id: str) -> _ScriptedFault | None:
        for fault in self._faults:
            if fault.chat_id == chat_id and fault.times > 0:
                fault.times -= 1
                return fault
        return None


def _of_chat(parts: Sequence[OutboundPart], chat_id: str | None) -> list[OutboundPart]:
    return [part for part in parts if chat_id in (None, part.address.chat_id)]
