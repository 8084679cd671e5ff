"""Reading: sessions looked at from outside, beside whoever writes them. Changes nothing.

What is committed and not yet in a session's file stands in the journal, which is read first: a
line leaves it only once it is in the file.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from nanobee.bus.lines import Line, LineKind, TurnState
from nanobee.bus.outside import reading
from nanobee.sessions.files import FOLDER, SessionFiles
from nanobee.sessions.tail import read_backwards

LAST_BLOCK_BYTES = 4 * 1024
"""Read at a time from the end of a file of which only the last line is wanted."""
MAX_LINES = 10_000
"""Looked at for the last turns of one session."""


@dataclass(frozen=True, slots=True)
class Summary:
    """One session in the list."""

    session_key: str
    lines: int
    """Ever written."""
    last_at: datetime
    """Aware UTC, of the last line."""


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """The lines of one turn, or lines that belong to none and stand between two turns."""

    turn: str | None
    lines: tuple[Line, ...]

    @property
    def started_at(self) -> datetime:
        """When it began."""
        return self.lines[0].at

    @property
    def state(self) -> str | None:
        """The newest `state` of the turn; None for lines of no turn."""
        states = [str(line.data.get("state")) for line in self.lines if line.kind == LineKind.TURN]
        return states[-1] if states else None

    @property
    def reason(self) -> str | None:
        """Why it failed or was stopped, where a reason was given."""
        reasons = [line.data["reason"] for line in self.lines if line.kind == LineKind.TURN and "reason" in line.data]
        return str(reasons[-1]) if reasons else None


def list_sessions(state: Path) -> list[Summary]:
    """All sessions, the last used first. Reads the end of each file only.

    Raises:
        BusError: the bus cannot be read.
    """
    last = _read_last_of_journal(state)
    for key in _keys(state):
        line = next(_read_file(state, key, LAST_BLOCK_BYTES), None)
        if line is not None and (key not in last or last[key].seq < line.seq):
            last[key] = line
    summaries = [Summary(key, line.seq, line.at) for key, line in last.items()]
    return sorted(summaries, key=lambda summary: (summary.last_at, summary.session_key), reverse=True)


def load_last_turns(state: Path, session_key: str, count: int) -> list[TurnRecord] | None:
    """The last turns of a session, in order; None where there is no such session.

    Raises:
        BusError: the bus cannot be read.
    """
    journal = _read_journal(state, session_key)
    lines: list[Line] = []
    begun: set[str] = set()
    for line in _merge_backwards(journal, _read_file(state, session_key)):
        if len(begun) == count and line.turn not in begun:
            break
        lines.append(line)
        if line.turn is not None and line.data.get("state") == TurnState.STARTED:
            begun.add(line.turn)
        if len(lines) >= MAX_LINES:
            break
    groups = group_turns(reversed(lines))
    starts = [place for place, group in enumerate(groups) if group.state is not None]
    return groups[starts[-count] if len(starts) >= count else 0 :] or None


def group_turns(lines: Iterable[Line]) -> list[TurnRecord]:
    """Lines by turn, in the order in which the turns began; lines of no turn stand by themselves."""
    groups: dict[str | int, list[Line]] = {}
    for line in lines:
        groups.setdefault(line.turn if line.turn is not None else line.seq, []).append(line)
    return [TurnRecord(group[0].turn, tuple(group)) for group in groups.values()]


def _merge_backwards(journal: list[Line], file: Iterator[Line]) -> Iterator[Line]:
    last = None
    for line in heapq.merge(reversed(journal), file, key=lambda line: -line.seq):
        if line.seq != last:  # a line may stand in both
            yield line
        last = line.seq


def _read_journal(state: Path, session_key: str) -> list[Line]:
    with reading(state) as db:
        if db is None:
            return []
        found = db.execute("select line from journal where session = ? order by seq", (session_key,)).fetchall()
    return [Line.from_json(line) for (line,) in found]


def _read_last_of_journal(state: Path) -> dict[str, Line]:
    with reading(state) as db:
        if db is None:
            return {}
        found = db.execute(
            "select journal.session, line from journal join (select session, max(seq) as last from journal"
            " group by session) as ends on ends.session = journal.session and ends.last = journal.seq"
        ).fetchall()
    return {key: Line.from_json(line) for key, line in found}


def _keys(state: Path) -> list[str]:
    return SessionFiles(state).keys() if (state / FOLDER).is_dir() else []


def _read_file(state: Path, session_key: str, block_bytes: int | None = None) -> Iterator[Line]:
    if not (state / FOLDER).is_dir():
        return
    path = SessionFiles(state).path(session_key)
    lines = read_backwards(path) if block_bytes is None else read_backwards(path, block_bytes)
    yield from (line for line in lines if isinstance(line, Line))
