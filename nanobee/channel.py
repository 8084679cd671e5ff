"""Channel: what an adapter to one chat platform implements, and what it is given.

A channel reads raw events, hands each to `Inbox.receive`, and only then acknowledges it to its
platform. It sends what it is told to send. It never calls the agent, and nothing else calls it.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from nanobee.config import ChannelSettings
from nanobee.errors import ChannelError
from nanobee.messages import Address, InboundMessage, JsonObject, LivePart, OutboundPart

EVERYBODY = "*"
_COMMAND = re.compile(r"\s*(/[a-zA-Z][a-zA-Z0-9_-]{0,31})(?:@\w+)?(?:\s|$)")
CONTROL_COMMANDS = frozenset({"/stop", "/status", "/help", "/answer", "/resume"})


class Lane(IntEnum):
    """Which queue an inbound row waits in; a lower lane overtakes."""

    CONTROL = 0
    """`/stop`, `/status`, presses, approvals: taken singly, without the session."""
    USER = 1
    BACKGROUND = 2
    """Heartbeat, cron, sub-agents."""


def command_of(text: str) -> str | None:
    """The command word of `text` in lower case (`/stop`), without `@botname`; None for plain text.

    A path (`/etc/hosts`) is plain text.
    """
    match = _COMMAND.match(text)
    return match[1].lower() if match else None


def lane_of(text: str) -> Lane:
    """The lane that a person's text belongs in."""
    return Lane.CONTROL if command_of(text) in CONTROL_COMMANDS else Lane.USER


def admits(allow_from: Sequence[str], sender_id: str) -> bool:
    """Whether `sender_id` may talk: exact ids only, and `["*"]` alone for everybody."""
    if tuple(allow_from) == (EVERYBODY,):
        return True
    return bool(sender_id) and sender_id != EVERYBODY and sender_id in allow_from


@dataclass(frozen=True, slots=True)
class Arrival:
    """One event, read from its raw form without I/O."""

    event_key: str
    """The channel's own key of the event; the same event delivered twice has the same key."""
    session_key: str
    sender_id: str
    lane: Lane
    raw: JsonObject
    """What `resolve` needs to make the message, stored as JSON."""
    source_id: str | None = None
    """The platform's message id."""
    group_key: str | None = None
    """Common to the events that make one message (an album)."""
    message: InboundMessage | None = None
    """The message, where the raw event holds all of it: the row is ready at once, `resolve` is not called."""


class Receipt(StrEnum):
    """What became of an arrival. In each case the channel may acknowledge the event."""

    STORED = "stored"
    """It is on disk."""
    DUPLICATE = "duplicate"
    """It was stored before."""
    REFUSED = "refused"
    """The sender may not talk: nothing was stored, and nothing must be answered."""
    FULL = "full"
    """Too many messages wait: it was not stored, and its chat is told so."""


class Inbox(Protocol):
    """Where a channel hands in what arrives."""

    async def receive(self, *arrivals: Arrival) -> list[Receipt]:
        """Store the arrivals in their order, in one transaction; return once they are on disk.

        Raises:
            BusError: nothing was stored; the channel must not acknowledge.
        """
        ...


class ChannelState(StrEnum):
    """Whether a channel hears its platform."""

    STARTING = "starting"
    UP = "up"
    DOWN = "down"
    """It tries to come back by itself."""
    FAILED = "failed"
    """It cannot come back without the owner (wrong token)."""


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """What `status()` tells."""

    state: ChannelState
    detail: str = ""
    """One line for people: why it is down, since when. No secret."""
    last_event_at: datetime | None = None
    """Aware UTC; when the platform last answered or sent something."""


SettingsT = TypeVar("SettingsT", bound=ChannelSettings)


class Channel(ABC, Generic[SettingsT]):
    """The connection to one chat platform under one name.

    Found by entry point in the group `nanobee.channels`, under its kind. The object is made
    outside any event loop and does no I/O before `run`.
    """

    settings_type: ClassVar[type[ChannelSettings]]
    """The settings model that validates this kind's section of the configuration."""
    can_stream: ClassVar[bool] = False
    """Whether `stream` shows an answer while it grows."""
    frame_seconds: ClassVar[float] = 0.05
    """The least time between two calls of `stream` for one chat, and before the first."""
    takes_empty_answers: ClassVar[bool] = False
    """Whether `send` wants an answer without text, which tells only that the turn is over."""

    def __init__(self, name: str, settings: SettingsT) -> None:
        self.name = name
        self.settings = settings
        self.on_reachable: Callable[[Address], None] = _tell_nobody
        """Call it with an address that can be reached again: what waits is sent. The gateway sets it."""

    @property
    def account(self) -> str:
        """Which account of the platform this is: part of the deduplication key. Known before `run`."""
        return ""

    @abstractmethod
    async def run(self, inbox: Inbox) -> None:
        """Live as long as the channel does: connect, receive, reconnect; end when cancelled.

        Returning means that the channel is done (a terminal whose user left).

        Raises:
            ChannelAuthError: the platform refuses our credentials.
        """

    @abstractmethod
    async def send(self, part: OutboundPart) -> tuple[str, ...]:
        """Hand over one part; return the platform's ids of what now stands in the chat.

        Called for one address at a time, also before `run` has connected.

        Raises:
            NotSentError: it surely did not arrive.
            UnknownOutcomeError: it may have arrived.
            RefusedError: the platform will never take it.
        """

    def is_reachable(self, address: Address) -> bool:
        """Whether `send` can reach the address at the moment (somebody's client is connected).

        Where not, its parts wait without a try until the channel calls `on_reachable`.
        """
        return True

    async def resolve(self, raw: JsonObject) -> InboundMessage:
        """Complete a stored event whose arrival had no `message`: downloads, quoted texts.

        Raises:
            ChannelError: the platform does not answer; it is tried again.
        """
        raise ChannelError(f"channel {self.name} has no resolver for its stored events")

    async def stream(self, part: LivePart, text: str) -> tuple[str, ...]:
        """Show the whole text so far of an answer under way. Best effort: a failure costs nothing.

        Returns the platform's ids of a message that stays in the chat and that the final part
        has to complete (`OutboundPart.handle`); empty where nothing stays.
        """
        return ()

    async def aclose(self) -> None:
        """Close what sends have opened. Called once, after `run` has ended and the last part was sent."""

    def split(self, text: str) -> Sequence[str]:
        """Cut a text into the parts that the platform takes; pure, and never empty."""
        return (text,)

    def status(self) -> ChannelStatus:
        """How the channel is, for `nanobee status`."""
        return ChannelStatus(ChannelState.UP)


def _tell_nobody(address: Address) -> None:
    """Until a gateway runs, nothing waits."""


AnyChannel = Channel[Any]
"""A channel whose own settings do not matter here."""
