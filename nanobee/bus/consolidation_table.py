"""Consolidation table: how far each session is in memory, and the accepted answers that are being applied.

A range of session lines goes through it once: the model's answer is accepted, then applied to the
memory's files, then the pointer moves. What died in between is applied again from the stored answer.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from nanobee.bus.lines import Line, LineKind
from nanobee.bus.rows import one
from nanobee.bus.writer import Transaction


@dataclass(frozen=True, slots=True)
class Bookmark:
    """How far a session is in memory."""

    through: int | None
    """The last line that is; None where the bus does not know, and the session's file may."""
    wanted: int
    """Up to here everything is to go into memory, however little it is: the last `reset`."""
    answer: str | None
    """A model's answer that was accepted and may not be applied yet, as JSON."""
    last: int
    """The session's last line at this moment."""
    open_turns: frozenset[str] = frozenset()
    """Turns that still write, at this moment."""


def read(tx: Transaction, session_key: str) -> Bookmark:
    """Where a session stands."""
    tx.changed = False
    found = one(tx.db, "select through, wanted, answer from consolidation where session = ?", session_key)
    through, wanted, answer = found if found is not None else (None, 0, None)
    session = one(tx.db, "select next_seq - 1 from session where key = ?", session_key)
    turns = tx.db.execute(
        "select distinct turn from inbox where session = ? and turn is not null"
        " and state in ('ready', 'running', 'suspended')",
        (session_key,),
    )
    last = 0 if session is None else session[0]
    return Bookmark(through, wanted, answer, last, frozenset(turn for (turn,) in turns))


def unfinished(tx: Transaction) -> list[str]:
    """The sessions with an answer that is not applied, or with a conversation that has ended and is not in memory."""
    tx.changed = False
    found = tx.db.execute(
        "select session from consolidation where answer is not null or wanted > coalesce(through, 0) order by session"
    )
    return [session_key for (session_key,) in found]


def want(tx: Transaction, session_key: str, lines: Iterable[Line]) -> None:
    """After a `reset`: all that came before it is to go into memory, however little it is."""
    resets = [line.seq for line in lines if line.kind == LineKind.RESET]
    if resets:
        tx.db.execute(
            "insert into consolidation(session, wanted) values (?, ?)"
            " on conflict(session) do update set wanted = excluded.wanted",
            (session_key, resets[-1]),
        )


def accept(tx: Transaction, session_key: str, after: int, answer: str) -> bool:
    """Store the answer for the range that begins behind `after`; False where that range has gone already."""
    found = one(tx.db, "select through, answer from consolidation where session = ?", session_key)
    if found is not None and (found[1] is not None or (found[0] or 0) != after):
        tx.changed = False
        return False
    tx.db.execute(
        "insert into consolidation(session, through, answer) values (?, ?, ?)"
        " on conflict(session) do update set through = excluded.through, answer = excluded.answer",
        (session_key, after, answer),
    )
    return True


def move(tx: Transaction, session_key: str, through: int) -> None:
    """Everything up to `through` is in memory."""
    tx.db.execute(
        "insert into consolidation(session, through) values (?, ?)"
        " on conflict(session) do update set through = excluded.through, answer = null",
        (session_key, through),
    )


def count_call(tx: Transaction, day: str, max_calls: int) -> bool:
    """Count one model call of that day; False where it would be one too many."""
    found = one(tx.db, "select calls from consolidation_calls where day = ?", day)
    if (found[0] if found is not None else 0) >= max_calls:
        tx.changed = False
        return False
    tx.db.execute("delete from consolidation_calls where day <> ?", (day,))
    tx.db.execute(
        "insert into consolidation_calls(day, calls) values (?, 1) on conflict(day) do update set calls = calls + 1",
        (day,),
    )
    return True
