"""Bus: the durable inbox, outbox and journal, and the transitions between their states.

Every transition is one transaction. A transition either returns after its commit (it is
waited for), or as soon as it was executed (claim, sent): then a later commit, or a replay at
the next start, makes it true.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from nanobee.bus.lines import Line, NewLine
from nanobee.bus.suspension import Answered, NewSuspension, Suspension
from nanobee.channel import Arrival, Lane, Receipt
from nanobee.config import BusyMode
from nanobee.messages import Address, InboundMessage, JsonObject, OutboundMessage, OutboundPart, PartKind


class InboxState(StrEnum):
    """Where an inbound row stands."""

    ARRIVING = "arriving"
    READY = "ready"
    RUNNING = "running"
    SUSPENDED = "suspended"
    PARKED = "parked"
    DONE = "done"
    STOPPED = "stopped"
    DEAD = "dead"


class OutboxState(StrEnum):
    """Where an outbound part stands."""

    READY = "ready"
    SENDING = "sending"
    SENT = "sent"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class NewRow:
    """An arrival as it is stored."""

    arrival: Arrival
    dedupe: str
    """`channel:account:event key`, unique over all rows that are kept."""


@dataclass(frozen=True, slots=True)
class InboxRow:
    """One stored inbound message."""

    id: int
    session_key: str
    lane: Lane
    state: InboxState
    raw: JsonObject
    message: InboundMessage | None
    """None while it is arriving."""
    is_command: bool = False
    """Its text begins with a slash command: it is answered without the model."""
    attempts: int = 0
    """How often it was claimed."""


@dataclass(frozen=True, slots=True)
class Arriving:
    """A channel's rows that can be resolved now, and when the next of the others can."""

    rows: tuple[InboxRow, ...]
    next_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TurnRef:
    """The right to write for one turn; a stale epoch is refused."""

    session_key: str
    turn: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Claim:
    """One turn of one session, with the rows that it answers."""

    ref: TurnRef
    rows: tuple[InboxRow, ...]
    lines: tuple[Line, ...]
    """Written by the claim: turn started and the user messages. Empty for a resumed turn."""
    is_resumed: bool
    """The turn was begun before; its lines stand in the session already."""
    busy: BusyMode = BusyMode.QUEUE
    """What becomes of messages that come while it runs."""
    model: str | None = None
    """The model that a person chose for the session."""
    shows_reasoning: bool = False

    @property
    def address(self) -> Address:
        """The chat that the turn answers."""
        return message_of(self.rows[-1]).address


def message_of(row: InboxRow) -> InboundMessage:
    """The message of a row that is past `arriving`."""
    if row.message is None:
        raise ValueError(f"inbox row {row.id} is still arriving")
    return row.message


@dataclass(frozen=True, slots=True)
class NewSend:
    """An outbound message that a transition puts into the outbox.

    `key` makes its rows' idempotency keys: the same (turn or control row, key) is inserted once.
    """

    message: OutboundMessage
    kind: PartKind
    key: str
    texts: tuple[str, ...]
    """The message's text, cut into the parts that its channel takes."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """What `/stop` ended."""

    turn: str | None
    """The turn that ran, None where nothing did."""
    parked: int
    """Queued rows that wait for `/resume`."""
    cancelled_questions: int = 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """A session's open rows, control rows not counted."""

    is_running: bool
    queued: int
    parked: int
    undelivered: int = 0
    """Parts that were given up."""
    questions: tuple[Suspension, ...] = ()
    """Open ones, oldest first."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What one address has to send now."""

    part: OutboundPart | None
    """None where nothing can be sent now."""
    may_have_arrived: bool = False
    """Its last try ended without word: sending it again may double it."""
    next_at: datetime | None = None
    """When a postponed part may be tried again, where nothing can be sent before."""


MakeNotice = Callable[[Stopped], NewSend]
"""Words the answer to `/stop` from what it ended."""


class Notices(Protocol):
    """Words what the sender of a message is told that could not be treated as usual."""

    def crashed(self, row: InboxRow) -> NewSend:
        """It ended the process again and again, and is put aside."""
        ...

    def busy(self, row: InboxRow, waiting: int) -> NewSend:
        """It is kept, and so many wait before it."""
        ...

    def not_accepted(self, row: InboxRow) -> NewSend:
        """Too many wait: it was not stored."""
        ...


class Listener(Protocol):
    """Told on the event loop after each commit, whatever became of the task that asked for it."""

    def session_ready(self, session_key: str) -> None:
        """The session may have something to claim."""
        ...

    def control_ready(self) -> None:
        """A control row waits."""
        ...

    def row_arriving(self) -> None:
        """A row waits for its channel's resolver."""
        ...

    def outbox_ready(self, address: Address) -> None:
        """The address may have something to deliver."""
        ...


class Bus(Protocol):
    """What the agent, the inbox and the delivery ask of the durable bus."""

    async def receive(self, rows: Sequence[NewRow]) -> list[Receipt]:
        """Store the arrivals that are new and find room. Returns after the commit."""
        ...

    async def resolve(self, row: InboxRow, message: InboundMessage) -> None:
        """Complete an arriving row: it is ready."""
        ...

    async def arriving(self, channel: str, limit: int) -> Arriving:
        """The oldest of a channel's rows that wait for its resolver."""
        ...

    async def resolve_later(self, row: InboxRow, seconds: float) -> None:
        """The platform did not answer: the row is tried again, not before `seconds` have passed."""
        ...

    async def claim(self, session_key: str, *, busy: BusyMode = BusyMode.QUEUE) -> Claim | None:
        """Take the next turn of a session; None while it runs one or has nothing ready.

        `busy` is the mode of sessions that have chosen none. Where it is `collect` or
        `interrupt`, all messages that wait make one turn.
        """
        ...

    async def steer(self, ref: TurnRef) -> tuple[tuple[InboxRow, ...], tuple[Line, ...]]:
        """Take the messages that wait behind a running turn into it.

        Raises:
            StaleTurnError: the turn was stopped or taken over.
        """
        ...

    async def interrupt(self, session_key: str) -> str | None:
        """End a running turn for the messages that wait behind it; its own rows wait with them."""
        ...

    async def claim_control(self) -> InboxRow | None:
        """Take the oldest control row; None where none waits."""
        ...

    async def record(
        self,
        ref: TurnRef,
        lines: Sequence[NewLine],
        sends: Sequence[NewSend] = (),
        consumed: Sequence[str] = (),
    ) -> tuple[Line, ...]:
        """Append lines, with sends, in one transaction. Returns after the commit.

        `consumed` are the ids of suspensions whose answers stand in these lines.

        Raises:
            StaleTurnError: the turn was stopped or taken over.
        """
        ...

    async def suspend(
        self, ref: TurnRef, lines: Sequence[NewLine], sends: Sequence[NewSend], suspensions: Sequence[NewSuspension]
    ) -> tuple[Line, ...]:
        """Put the turn to sleep until its questions are answered. Returns after the commit.

        Raises:
            StaleTurnError: the turn was stopped or taken over.
        """
        ...

    async def answers(self, ref: TurnRef) -> tuple[Suspension, ...]:
        """The answers that a resumed turn has not seen yet, in the order of its calls."""
        ...

    async def answer(self, suspension_id: str, session_key: str, text: str) -> Answered:
        """Answer an open question of a session, once."""
        ...

    async def finish(
        self,
        ref: TurnRef,
        lines: Sequence[NewLine],
        sends: Sequence[NewSend] = (),
        requeue: InboundMessage | None = None,
    ) -> tuple[Line, ...]:
        """End the turn: its rows are done, the session is free. Returns after the commit.

        `requeue` is a message that is to be answered again, as if it had just come.

        Raises:
            StaleTurnError: the turn was stopped or taken over.
        """
        ...

    async def hand_back(self, ref: TurnRef) -> None:
        """Give a turn's rows back: it is claimed again as a resumed turn."""
        ...

    async def stop(self, row: InboxRow, session_key: str, make_notice: MakeNotice) -> Stopped:
        """End a session's turn, park its queue and answer the control row, in one transaction.

        Whichever of stop and finish commits first wins.
        """
        ...

    async def resume(self, session_key: str) -> int:
        """Make a session's parked rows ready again; return how many."""
        ...

    async def settings(self, session_key: str) -> dict[str, str]:
        """What a person chose for the session: `model`, `busy`."""
        ...

    async def waiting(self, session_key: str) -> Waiting:
        """What of a session is under way or waits."""
        ...

    async def answer_control(self, row: InboxRow, send: NewSend | None) -> None:
        """Close a control row, with its reply."""
        ...

    async def append(self, session_key: str, lines: Sequence[NewLine]) -> tuple[Line, ...]:
        """Append lines that belong to no turn."""
        ...

    async def journal(self, session_key: str) -> tuple[Line, ...]:
        """The session's lines that are not yet known to be in its file, in order."""
        ...

    async def outgoing(self, address: Address) -> Outgoing:
        """Mark the address's next part as sending and return it. Returns after the commit.

        Only one task asks for an address, and only when it has nothing under way.
        """
        ...

    async def sent(self, part: OutboundPart, platform_ids: Sequence[str]) -> None:
        """The platform has the part."""
        ...

    async def stream_handle(self, turn: str) -> tuple[str, ...]:
        """The platform ids of the message that the turn streams into, empty where there is none."""
        ...

    async def record_stream(self, address: Address, turn: str, platform_ids: Sequence[str]) -> None:
        """Remember that message: its turn's answer completes it, also after a restart. Returns after the commit."""
        ...

    async def postpone(self, part: OutboundPart, reason: str, seconds: float, *, is_unknown: bool) -> bool:
        """Try the part again, not before `seconds` have passed; False where it is too old for that."""
        ...

    async def hold_back(self, address: Address) -> None:
        """Nobody can be reached there: the part that was to be sent waits, and this was no try."""
        ...

    async def bury(self, part: OutboundPart, reason: str, notices: Sequence[NewSend] = ()) -> None:
        """Give the part up, its message's later parts too; `notices` tell the owner. It stays visible."""
        ...
