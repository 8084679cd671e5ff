"""RoundLog: what was seen of one round from outside, as values. The account is made from it alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nanobee.testing.chaos.modes import Mode
from nanobee.testing.chaos.plan import KillKind


@dataclass(frozen=True, slots=True)
class Said:
    """A message of a person."""

    mark: int
    chat: int
    text: str
    message_id: int
    update_id: int
    is_accepted: bool = False
    """The gateway has moved its offset past it, or holds it in its bus."""

    @property
    def is_control(self) -> bool:
        """A command: it overtakes, and a notice replies to it."""
        return self.text.startswith("/")


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message of the bot, as it stands in the chat at the end."""

    chat: int
    message_id: int
    text: str
    reply_to: int | None
    life: int
    """In which life of the gateway it came."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One death of the gateway, and what the bus holds on disk of the sends that were under way."""

    life: int
    """The life that it ended."""
    kind: KillKind
    what: str
    at_seconds: float
    sending: frozenset[tuple[int, str]] = frozenset()
    """Chat and text of each outbox row that may have been on its way."""
    streams: frozenset[tuple[int, int]] = frozenset()
    """Chat and message id of each streamed message that the bus knows."""

    def __str__(self) -> str:
        return f"life {self.life}, {self.what}"


@dataclass(frozen=True, slots=True)
class BusRow:
    """How an inbound row stands in the bus at the end."""

    state: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class OutRow:
    """How an outbound row stands in the bus at the end."""

    chat: int
    text: str
    kind: str
    state: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RoundLog:
    """Everything about one round."""

    number: int
    mode: Mode
    said: tuple[Said, ...] = ()
    unsaid: tuple[int, ...] = ()
    """Marks that nobody said, because what they waited for never came."""
    delivered: tuple[Delivered, ...] = ()
    """In the order of their ids."""
    kills: tuple[Kill, ...] = ()
    rows: Mapping[int, BusRow] = field(default_factory=dict)
    """Inbound rows by message id."""
    sends: tuple[OutRow, ...] = ()
    edits: Mapping[int, int] = field(default_factory=dict)
    """How often each message's edit stands in its chat's file."""
    illegal: tuple[str, ...] = ()
    """What requests to the model broke of the rules of histories."""
    seconds: float = 0.0
