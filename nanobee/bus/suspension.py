"""Suspension: a question that waits for a person, and its answer."""

from dataclasses import dataclass

from nanobee.chat import ToolCall


@dataclass(frozen=True, slots=True)
class NewSuspension:
    """A question that a tool call of a turn asks; the call gets its result with the answer."""

    id: str
    """Short, for people to type; see `create_suspension_id`."""
    call: ToolCall
    question: str
    choices: tuple[str, ...] = ()
    """What may be answered; empty for any text."""


@dataclass(frozen=True, slots=True)
class Suspension:
    """A stored question."""

    id: str
    session_key: str
    turn: str
    call_id: str
    tool: str
    arguments: str
    question: str
    choices: tuple[str, ...]
    state: str
    """`open`, `answered` (its turn has not seen it yet), `done`, `cancelled`."""
    answer: str | None


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of an answer."""

    suspension: Suspension | None
    """None where the question is not open any more, or never was."""
    is_valid: bool = True
    """False where it is none of the choices: the question stays open."""
    open_questions: int = 0
    """Questions of the same turn that still wait; at 0 the turn goes on."""


def create_suspension_id() -> str:
    """Four letters and digits without look-alikes; the table refuses the rare repeat."""
    import secrets  # 10 ms that a start need not pay

    return "".join(secrets.choice("abcdefghkmnpqrstuvwxyz23456789") for _ in range(4))
