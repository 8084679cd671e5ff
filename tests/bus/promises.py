"""Promises: what a bus has reported, held against what its file says, whatever happened in between."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nanobee.bus.bus import NewRow
from nanobee.bus.lines import Line
from nanobee.channel import Lane, Receipt
from nanobee.sessions.tail import BadLine, read_backwards
from tests.bus.mortal_bus import MortalBus

WAITING = ("arriving", "ready")
OPEN = (*WAITING, "running", "suspended", "parked")
ENDED = ("done", "stopped", "dead")
OPEN_PARTS = ("ready", "sending", "unknown")
FINAL_PARTS = ("sent", "cancelled", "dead")


@dataclass(frozen=True)
class Row:
    """One row of the inbox table."""

    id: int
    session: str
    seq: int
    lane: int
    kind: str
    state: str
    reason: str | None
    turn: str | None
    dedupe: str

    @property
    def place(self) -> tuple[bool, int, int]:
        """Its place in its session's queue: a turn that was begun goes first."""
        return self.turn is None, self.lane, self.seq


@dataclass(frozen=True)
class Part:
    """One row of the outbox table."""

    id: int
    address: str
    state: str
    reason: str | None
    key: str


def read_rows(db: sqlite3.Connection) -> list[Row]:
    """The inbox, in the order of arrival."""
    found = db.execute("select id, session, seq, lane, kind, state, reason, turn, dedupe from inbox order by id")
    return [Row(*row) for row in found]


def read_parts(db: sqlite3.Connection) -> list[Part]:
    """The outbox without streamed messages, in its order."""
    found = db.execute(
        "select id, address, state, reason, idempotency_key from outbox where kind <> 'stream' order by id"
    )
    return [Part(*row) for row in found]


@dataclass
class Promises:
    """What was reported as done by any life of the bus."""

    accepted: dict[str, str] = field(default_factory=dict)
    """The session of each event that was stored, by its key."""
    finishes: Counter[int] = field(default_factory=Counter)
    """How often an inbox row was part of a finished turn."""
    lines: dict[tuple[str, int], Line] = field(default_factory=dict)
    """Every session line that a waited-for transition returned."""
    sends: set[str] = field(default_factory=set)
    """The idempotency keys of parts that were put into the outbox."""
    emptied: set[str] = field(default_factory=set)
    """Sessions in which somebody said /stop or /new."""
    resumed: set[str] = field(default_factory=set)
    """Sessions with parked messages that were made ready again: the new turn is told of them anew."""
    _ended: dict[int, str] = field(default_factory=dict)
    _final: dict[int, str] = field(default_factory=dict)

    def receive(self, rows: Sequence[NewRow], receipts: Sequence[Receipt]) -> None:
        """Arrivals were answered with these receipts."""
        for row, receipt in zip(rows, receipts, strict=True):
            if receipt is Receipt.STORED:
                assert row.dedupe not in self.accepted, "an event was stored twice"
                self.accepted[row.dedupe] = row.arrival.session_key
            elif receipt is Receipt.DUPLICATE:
                assert row.dedupe in self.accepted, "an event was taken for one that nobody stored"

    def write(self, session_key: str, lines: Iterable[Line]) -> None:
        """A transition returned these lines."""
        for line in lines:
            assert (session_key, line.seq) not in self.lines, "a seq was given twice"
            self.lines[session_key, line.seq] = line

    def finish(self, row_ids: Iterable[int]) -> None:
        """A turn with these rows was finished."""
        for row_id in row_ids:
            self.finishes[row_id] += 1
            assert self.finishes[row_id] == 1, f"row {row_id} was finished twice"

    # Against the file

    def check(self, bus: MortalBus) -> None:
        """Hold everything against the files of a settled bus."""
        rows, parts = read_rows(bus.reader), read_parts(bus.reader)
        self._check_rows(rows)
        self._check_turns(rows)
        self._check_parts(parts)
        self._check_questions(bus.reader, rows)
        told = {0}
        for (session_key,) in bus.reader.execute("select key from session").fetchall():
            told |= self._check_lines(bus, session_key)
        self._check_told(bus.reader, rows, told)

    def _check_rows(self, rows: Sequence[Row]) -> None:
        by_key = {row.dedupe: row for row in rows}
        assert len(by_key) == len(rows)
        assert self.accepted.keys() <= by_key.keys(), "an accepted message is gone"
        assert by_key.keys() <= self.accepted.keys(), "a message stands there that nobody was told of"
        for row in rows:
            assert row.state in OPEN + ENDED
            assert row.state != "parked" or row.reason, f"{row} is parked without a reason"
            assert row.state != "stopped" or row.session in self.emptied, f"{row} was stopped by nobody"
            if row.lane != Lane.CONTROL:
                assert (row.state == "done") == (self.finishes[row.id] == 1), f"{row} and its finish disagree"
            before = self._ended.get(row.id)
            assert before in (None, row.state), f"{row} had ended as {before}"
            if row.state in ENDED:
                self._ended[row.id] = row.state

    def _check_turns(self, rows: Sequence[Row]) -> None:
        running: dict[str, set[str | None]] = {}
        for row in rows:
            if row.state == "running" and row.lane != Lane.CONTROL:
                running.setdefault(row.session, set()).add(row.turn)
        assert all(len(turns) == 1 and None not in turns for turns in running.values()), f"two turns at once: {running}"

    def _check_parts(self, parts: Sequence[Part]) -> None:
        keys = [part.key for part in parts]
        assert len(set(keys)) == len(keys)
        assert self.sends <= set(keys), "a part that was stored is gone"
        for part in parts:
            assert part.state in OPEN_PARTS + FINAL_PARTS
            assert part.state not in ("dead", "cancelled") or part.reason, f"{part} has no reason"
            before = self._final.get(part.id)
            assert before in (None, part.state), f"{part} had ended as {before}"
            if part.state in ("dead", "cancelled"):
                self._final[part.id] = part.state
        for address in {part.address for part in parts}:
            states = [part.state for part in parts if part.address == address and part.state in OPEN_PARTS]
            assert all(state == "ready" for state in states[1:]), f"{address}: a later part is under way: {states}"

    @staticmethod
    def _check_questions(db: sqlite3.Connection, rows: Sequence[Row]) -> None:
        asking = {turn for (turn,) in db.execute("select turn from suspension where state = 'open'")}
        asleep = {row.turn for row in rows if row.state == "suspended"}
        assert asleep == asking, "a turn sleeps without a question, or a question waits without a turn"

    @staticmethod
    def _check_told(db: sqlite3.Connection, rows: Sequence[Row], told: set[int]) -> None:
        asked = {turn for (turn,) in db.execute("select turn from suspension")}
        for row in rows:
            is_said = row.lane != Lane.CONTROL and row.kind == "message" and row.state == "done"
            assert not is_said or row.id in told or row.turn in asked, f"{row} is answered, and the model never saw it"

    def _check_lines(self, bus: MortalBus, session_key: str) -> set[int]:
        """Returns the inbox rows whose messages stand in the session."""
        found = bus.reader.execute("select seq, line from journal where session = ? order by seq", (session_key,))
        journal = {seq: Line.from_json(text) for seq, text in found}
        read = read_backwards(bus.files.path(session_key))
        in_file = [line for line in read if not isinstance(line, BadLine)][::-1]
        seqs = [line.seq for line in in_file]
        assert seqs == sorted(set(seqs)), f"{session_key}: the file's lines are out of order or doubled: {seqs}"
        whole = journal | {line.seq: line for line in in_file}
        [(next_seq,)] = bus.reader.execute("select next_seq from session where key = ?", (session_key,)).fetchall()
        assert sorted(whole) == list(range(1, next_seq)), f"{session_key}: a gap in the lines"
        for line in in_file:
            assert line == journal.get(line.seq, line), "file and journal tell different things"
        for (key, seq), line in self.lines.items():
            if key == session_key:
                assert whole[seq].to_json() == line.to_json(), "a line is not what its writer was told"
        found_rows = [row for line in whole.values() for row in line.data.get("inbox", [])]  # type: ignore[attr-defined]
        if session_key not in self.resumed:
            assert len(found_rows) == len(set(found_rows)), f"{session_key}: a message stands there twice"
        return set(found_rows)
