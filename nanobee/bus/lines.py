"""Line: one entry of a session's journal, and of the session file that is its projection."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum


class LineKind(StrEnum):
    """What a line records. Readers keep and skip kinds that they do not know."""

    MESSAGE = "message"
    TURN = "turn"
    TOOL_STARTED = "tool_started"
    RESET = "reset"
    """`/new`: nothing before it is context."""
    UNDONE = "undone"
    """`from`, `through`: these lines are not context any more."""
    COMPACTED = "compacted"
    """`through`, `summary`: the summary stands for the lines up to there."""
    SETTINGS = "settings"
    """What a person chose for this session: `model`, `busy`."""
    CONSOLIDATED = "consolidated"
    """`through`: the lines up to there are in memory."""
    FORGOTTEN = "forgotten"
    """`seqs`: these lines are not to be read any more, by nobody."""
    RECORD = "record"


class TurnState(StrEnum):
    """The `state` of a `turn` line."""

    STARTED = "started"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    SUSPENDED = "suspended"


@dataclass(frozen=True, slots=True)
class NewLine:
    """A line before the bus gives it its place in the session."""

    kind: str
    data: Mapping[str, object] = field(default_factory=dict)
    """The fields that belong to the kind; JSON values only."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line with its place: `seq` counts from 1 in the session, without reuse."""

    seq: int
    at: datetime
    """Aware UTC."""
    turn: str | None
    kind: str
    data: Mapping[str, object]

    def to_json(self) -> str:
        """One JSON object without a newline; lone surrogates become U+FFFD."""
        whole = {"seq": self.seq, "at": format_at(self.at), "turn": self.turn, "kind": self.kind, **self.data}
        text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text

    @classmethod
    def from_json(cls, text: str | bytes) -> "Line":
        """Read one line back.

        Raises:
            ValueError: it is not a JSON object with `seq`, `at`, `turn` and `kind` of the right types.
        """
        whole = json.loads(text)
        if not isinstance(whole, dict):
            raise ValueError("a session line is one JSON object")
        try:
            seq, at, turn, kind = (whole.pop(key) for key in ("seq", "at", "turn", "kind"))
        except KeyError as error:
            raise ValueError(f"a session line has no {error}") from None
        if type(seq) is not int or not isinstance(kind, str) or not isinstance(turn, str | None):
            raise ValueError("a session line's seq, turn or kind has the wrong type")
        return cls(seq, parse_at(at), turn, kind, whole)


def format_at(at: datetime) -> str:
    """UTC with milliseconds and `Z`."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_at(text: object) -> datetime:
    """The inverse of `format_at`.

    Raises:
        ValueError: not an ISO time with a zone.
    """
    if not isinstance(text, str):
        raise ValueError("a time is written as text")
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("a time needs its zone")
    return at.astimezone(UTC)
