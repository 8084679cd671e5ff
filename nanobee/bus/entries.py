"""Entries: the bus's rows as people see them, in both directions."""

import json
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from nanobee.bus.bus import InboxState, OutboxState
from nanobee.bus.rows import at_from_epoch, message_from_json, one
from nanobee.channel import Lane

ENDED = frozenset({InboxState.DONE, InboxState.STOPPED, OutboxState.SENT, OutboxState.CANCELLED})
"""States in which nothing more happens to a row, and nothing is expected of a person."""
_ID = re.compile(r"(in|out)-([1-9][0-9]{0,17})")


class Direction(StrEnum):
    """Which table a row is in."""

    IN = "in"
    OUT = "out"


@dataclass(frozen=True, slots=True)
class EntryId:
    """How people name a row: `in-12`, `out-34`."""

    direction: Direction
    number: int

    def __str__(self) -> str:
        return f"{self.direction}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> "EntryId":
        """Read it back.

        Raises:
            ValueError: it is none.
        """
        match = _ID.fullmatch(text.strip().lower())
        if match is None:
            raise ValueError(f"{text!r} is no row: rows are named in-12 or out-34")
        return cls(Direction(match[1]), int(match[2]))


@dataclass(frozen=True, slots=True)
class Entry:
    """One row."""

    id: EntryId
    session_key: str
    state: str
    kind: str
    """In: `message` or `command`. Out: the kind of the part."""
    text: str
    """Empty while it is arriving."""
    created_at: datetime
    """Aware UTC, as the other times."""
    changed_at: datetime
    attempts: int
    reason: str | None
    not_before: datetime | None
    turn: str | None
    source_id: str | None
    """In: the platform's id of the message. Out: of the message that it replies to."""
    lane: str | None = None
    sender: str | None = None
    part: int = 0
    parts: int = 1
    platform_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows are listed."""

    states: frozenset[str] | None = None
    """None: all that have not ended."""
    session_key: str | None = None

    @property
    def wanted(self) -> list[str]:
        """The states, sorted."""
        return sorted({*InboxState, *OutboxState} - ENDED if self.states is None else self.states)


_INBOX = (
    "id, session, state, kind, lane, message, reason, attempts, turn, source_id, not_before, created_at, changed_at"
)
_OUTBOX = (
    "id, address, state, kind, part, parts, payload, reason, attempts, turn, reply_to, not_before, created_at,"
    " changed_at, platform_ids"
)


def list_entries(db: sqlite3.Connection, which: Filter, limit: int) -> tuple[list[Entry], int]:
    """The oldest rows that fit, inbound ones first, and how many more there are."""
    inbound, more_in = _select(db, _INBOX, "inbox", "session", which, limit)
    outbound, more_out = _select(db, _OUTBOX, "outbox", "address", which, limit)
    return [*map(_inbound, inbound), *map(_outbound, outbound)], more_in + more_out


def load_entry(db: sqlite3.Connection, entry_id: EntryId) -> Entry | None:
    """One row, whatever its state."""
    if entry_id.direction is Direction.IN:
        row = one(db, f"select {_INBOX} from inbox where id = ?", entry_id.number)
        return None if row is None else _inbound(row)
    row = one(db, f"select {_OUTBOX} from outbox where id = ?", entry_id.number)
    return None if row is None else _outbound(row)


def load_related(db: sqlite3.Connection, entry: Entry) -> list[Entry]:
    """The rows in the other direction that belong to the same turn, in order."""
    if entry.turn is None:
        return []
    if entry.id.direction is Direction.IN:
        found = db.execute(
            f"select {_OUTBOX} from outbox where turn = ? and kind <> 'stream' order by id", (entry.turn,)
        )
        return [_outbound(row) for row in found]
    found = db.execute(f"select {_INBOX} from inbox where turn = ? order by id", (entry.turn,))
    return [_inbound(row) for row in found]


def _select(
    db: sqlite3.Connection, columns: str, table: str, key: str, which: Filter, limit: int
) -> tuple[Sequence[tuple[Any, ...]], int]:
    states = which.wanted
    where = f"state in ({', '.join('?' * len(states))}) and kind <> 'stream'"
    values: list[object] = list(states)
    if which.session_key is not None:
        where += f" and {key} = ?"
        values.append(which.session_key)
    rows = db.execute(f"select {columns} from {table} where {where} order by id limit ?", (*values, limit)).fetchall()
    if len(rows) < limit:
        return rows, 0
    count = one(db, f"select count(*) from {table} where {where}", *values)
    assert count is not None
    return rows, int(count[0]) - len(rows)


def _inbound(row: tuple[Any, ...]) -> Entry:
    number, session, state, kind, lane, message, reason, attempts, turn, source_id, not_before, created, changed = row
    said = None if message is None else message_from_json(message)
    return Entry(
        id=EntryId(Direction.IN, number),
        session_key=session,
        state=state,
        kind=kind,
        text="" if said is None else said.text,
        created_at=_at(created),
        changed_at=_at(changed),
        attempts=attempts,
        reason=reason,
        not_before=at_from_epoch(not_before),
        turn=turn,
        source_id=source_id,
        lane=Lane(lane).name.lower(),
        sender=None if said is None else " ".join(filter(None, (said.sender_name, f"({said.sender_id})"))),
    )


def _outbound(row: tuple[Any, ...]) -> Entry:
    number, address, state, kind, part, parts, payload, reason, attempts, turn, reply_to, *rest = row
    not_before, created, changed, platform_ids = rest
    return Entry(
        id=EntryId(Direction.OUT, number),
        session_key=address,
        state=state,
        kind=kind,
        text=json.loads(payload).get("text", ""),
        created_at=_at(created),
        changed_at=_at(changed),
        attempts=attempts,
        reason=reason,
        not_before=at_from_epoch(not_before),
        turn=turn,
        source_id=reply_to,
        part=part,
        parts=parts,
        platform_ids=tuple(json.loads(platform_ids)) if platform_ids else (),
    )


def _at(seconds: float) -> datetime:
    at = at_from_epoch(seconds)
    assert at is not None
    return at
