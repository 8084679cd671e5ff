"""Account: what became of the messages of one round, or of many."""

from dataclasses import dataclass, field
from enum import StrEnum


class FaultKind(StrEnum):
    """How a promise was broken."""

    LOST = "lost"
    """Accepted, and neither answered nor visibly parked."""
    NOT_ACCEPTED = "not accepted"
    """Said, and never taken from the platform."""
    STUCK = "stuck"
    """A row of the bus that never ended."""
    DISORDER = "out of order"
    EFFECT_TWICE = "own effect twice"
    EFFECT_LOST = "own effect lost"
    TOOL_TWICE = "tool run twice"
    TOOL_LOST = "tool's effect lost"
    ANSWERED_TWICE = "answered twice"
    DOUBLE = "double without a kill"
    """A copy of a message whose send was not under way at any kill."""
    FRAGMENT = "fragment without a kill"
    """A streamed message that nobody completed, and that no kill explains."""
    WRONG_REPLY = "wrong reply"
    """A command that had its effect was told that it had none."""
    ILLEGAL = "illegal history"


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken promise."""

    kind: FaultKind
    round: int
    what: str

    def __str__(self) -> str:
        return f"round {self.round}: {self.kind}: {self.what}"


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A message that stands twice in a chat, and the kill that its first send was under way at."""

    round: int
    chat: int
    text: str
    kill: str
    is_fragment: bool = False
    """Not a copy, but the first frame of a streamed answer that was then sent anew."""

    def __str__(self) -> str:
        kind = "first frame of" if self.is_fragment else "again"
        return (
            f"round {self.round}, chat {self.chat}: {kind} {shorten(self.text)}, under way at the kill of {self.kill}"
        )


@dataclass(frozen=True, slots=True)
class Parked:
    """A message that waits for a person."""

    round: int
    mark: int
    reason: str

    def __str__(self) -> str:
        return f"round {self.round}: m{self.mark}z: {self.reason}"


@dataclass(slots=True)
class Account:
    """The sums."""

    received: int = 0
    """Accepted messages, commands too."""
    answered: int = 0
    """By the model, for a command by its reply, for a message that `/stop` ended by the notice of that."""
    stopped: int = 0
    """Of the received ones: their turn was ended by `/stop`."""
    told: list[str] = field(default_factory=list)
    """Messages that ended in a notice of failure instead of an answer."""
    parked: list[Parked] = field(default_factory=list)
    under_way: int = 0
    """Sends that may have been on their way at a kill."""
    duplicates: list[Duplicate] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def add(self, other: "Account") -> None:
        """Sum up."""
        self.received += other.received
        self.answered += other.answered
        self.stopped += other.stopped
        self.told += other.told
        self.parked += other.parked
        self.under_way += other.under_way
        self.duplicates += other.duplicates
        self.faults += other.faults

    def count(self, *kinds: FaultKind) -> int:
        """Faults of these kinds."""
        return sum(fault.kind in kinds for fault in self.faults)

    @property
    def answered_share(self) -> float:
        """Of the received messages."""
        return self.answered / self.received if self.received else 1.0


def shorten(text: str) -> str:
    """A text as it stands in a list."""
    return repr(text if len(text) <= 60 else text[:57] + "…")
