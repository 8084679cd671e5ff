"""Claiming: which inbound rows a turn takes, and the lines with which it begins."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any
from uuid import uuid4

from nanobee.bus import suspension_table
from nanobee.bus.bus import Claim, InboxRow, TurnRef, message_of
from nanobee.bus.journaling import append_lines, read_settings
from nanobee.bus.lines import Line, LineKind, NewLine, TurnState
from nanobee.bus.rows import INBOX_COLUMNS, inbox_row, one
from nanobee.bus.writer import Transaction
from nanobee.channel import Lane
from nanobee.config import BusyMode

BUSY_MODES = frozenset(BusyMode)
MAX_COLLECTED = 100
"""Messages that one turn takes at most."""


def next_epoch(tx: Transaction, session_key: str) -> int:
    """Take the session away from whoever wrote to it."""
    tx.db.execute("update session set epoch = epoch + 1 where key = ?", (session_key,))
    found = one(tx.db, "select epoch from session where key = ?", session_key)
    assert found is not None
    return int(found[0])


def claim(tx: Transaction, session_key: str, busy: BusyMode, now: float) -> Claim | None:
    """Take the session's next turn, if it runs none and its head is ready.

    A head that answers an open question becomes part of the turn that asked, which is resumed.
    `busy` is the mode of sessions that have chosen none. In the modes `collect` and `interrupt`
    all messages that are ready, up to the first command, make one turn.
    """
    settings = read_settings(tx, session_key)
    if settings.get("busy") in BUSY_MODES:
        busy = BusyMode(settings["busy"])
    while True:
        head = _head(tx, session_key, now)
        if head is None:
            tx.changed = False
            return None
        row, old_turn, is_told = head
        if old_turn is None and not row.is_command and not is_told and suspension_table.take_answer(tx, row, now):
            continue
        claimed = _claim(tx, session_key, row, old_turn, busy in (BusyMode.COLLECT, BusyMode.INTERRUPT), now)
        return replace(
            claimed, busy=busy, model=settings.get("model") or None, shows_reasoning=settings.get("reasoning") == "on"
        )


def _head(tx: Transaction, session_key: str, now: float) -> tuple[InboxRow, str | None, bool] | None:
    found = one(
        tx.db,
        f"select {INBOX_COLUMNS}, turn, is_told, not_before from inbox where session = ? and lane > 0"
        " and state in ('arriving', 'ready', 'running')"
        " order by state <> 'running', turn is null, lane, seq limit 1",
        session_key,
    )
    if found is None:
        return None
    *columns, turn, is_told, not_before = found
    row = inbox_row(tuple(columns))
    if row.state != "ready" or (not_before is not None and not_before > now):
        return None
    return row, turn, bool(is_told)


def _claim(tx: Transaction, session_key: str, row: InboxRow, old_turn: str | None, collects: bool, now: float) -> Claim:
    turn = old_turn or uuid4().hex[:16]
    epoch = next_epoch(tx, session_key)
    if old_turn is not None:
        ids = [found for (found,) in tx.db.execute("select id from inbox where turn = ? and state = 'ready'", (turn,))]
    else:
        may_collect = collects and row.lane is Lane.USER and not row.is_command
        ids = _collect(tx, session_key, now) if may_collect else [row.id]
    _run(tx, ids, turn, now)
    rows = _rows(tx, turn)
    lines: tuple[Line, ...] = ()
    if old_turn is None and not row.is_command:
        new = [NewLine(LineKind.TURN, {"state": TurnState.STARTED}), *_tell(tx, ids)]
        lines = append_lines(tx, session_key, turn, epoch, new)
    progress = one(tx.db, "select next_seq from session where key = ?", session_key)
    assert progress is not None
    tx.db.execute("update inbox set progress = ? where turn = ? and state = 'running'", (progress[0], turn))
    return Claim(TurnRef(session_key, turn, epoch), rows, lines, is_resumed=old_turn is not None)


def _run(tx: Transaction, ids: Sequence[int], turn: str, now: float) -> None:
    tx.db.executemany(
        "update inbox set state = 'running', turn = ?, attempts = attempts + 1, changed_at = ? where id = ?",
        [(turn, now, row_id) for row_id in ids],
    )


def _rows(tx: Transaction, turn: str) -> tuple[InboxRow, ...]:
    found = tx.db.execute(
        f"select {INBOX_COLUMNS} from inbox where turn = ? and state = 'running' order by seq", (turn,)
    )
    return tuple(inbox_row(row) for row in found)


def _collect(tx: Transaction, session_key: str, now: float) -> list[int]:
    """The ready messages at the session's head, up to a command or one that is still arriving.

    One that answers an open question goes to the turn that asked.
    """
    ids = []
    found = tx.db.execute(
        f"select {INBOX_COLUMNS}, is_told from inbox where session = ? and lane = 1"
        " and state in ('arriving', 'ready') and turn is null order by seq limit ?",
        (session_key, MAX_COLLECTED),
    )
    for *columns, is_told in found.fetchall():
        row = inbox_row(tuple(columns))
        if row.state != "ready" or row.is_command:
            break
        if is_told or not suspension_table.take_answer(tx, row, now):
            ids.append(row.id)
    return ids


def _tell(tx: Transaction, ids: Sequence[int]) -> list[NewLine]:
    """The user messages of rows whose lines are not in the session yet."""
    lines = []
    for row_id in ids:
        found = one(tx.db, f"select {INBOX_COLUMNS} from inbox where id = ? and is_told = 0", row_id)
        if found is not None:
            lines.append(_user_line(inbox_row(found)))
    tx.db.executemany("update inbox set is_told = 1 where id = ?", [(row_id,) for row_id in ids])
    return lines


def _user_line(row: InboxRow) -> NewLine:
    message = message_of(row)
    data: dict[str, Any] = {"role": "user", "content": message.text, "inbox": [row.id]}
    for key, value in (
        ("sender", message.sender_id),
        ("name", message.sender_name),
        ("source_id", message.source_id),
        ("quoted", message.quoted_text),
        ("attachments", [asdict(attachment) for attachment in message.attachments]),
    ):
        if value:
            data[key] = value
    return NewLine(LineKind.MESSAGE, data)


def steer(tx: Transaction, ref: TurnRef, now: float) -> tuple[tuple[InboxRow, ...], tuple[Line, ...]]:
    """Take the messages that wait behind a running turn into it."""
    ids = _collect(tx, ref.session_key, now)
    if not ids:
        tx.changed = False
        return (), ()
    _run(tx, ids, ref.turn, now)
    lines = append_lines(tx, ref.session_key, ref.turn, ref.epoch, _tell(tx, ids))
    return tuple(row for row in _rows(tx, ref.turn) if row.id in ids), lines


def interrupt(tx: Transaction, session_key: str, now: float) -> str | None:
    """End a running turn for the messages that wait behind it; its own rows wait with them.

    Returns the turn, None where nothing ran, nothing waits, or the turn has an answer to its
    question that stands in no line yet and would be lost with it.
    """
    found = one(
        tx.db,
        "select turn from inbox where session = ? and state = 'running' and lane > 0 and kind = 'message'"
        " and not exists (select 1 from suspension where turn = inbox.turn and state = 'answered')",
        session_key,
    )
    if found is None or not _collect(tx, session_key, now):
        tx.changed = False
        return None
    turn = str(found[0])
    epoch = next_epoch(tx, session_key)
    tx.db.execute(
        "update inbox set state = 'ready', turn = null, changed_at = ? where turn = ? and state = 'running'",
        (now, turn),
    )
    line = NewLine(LineKind.TURN, {"state": TurnState.STOPPED, "reason": "interrupted by a newer message"})
    append_lines(tx, session_key, turn, epoch, [line])
    return turn


def begun_turns(tx: Transaction) -> list[tuple[str, str]]:
    """Session and turn of all that was begun and neither ended nor sleeps."""
    tx.changed = False
    found = tx.db.execute(
        "select distinct session, turn from inbox where turn is not null and kind = 'message'"
        " and state in ('ready', 'running', 'parked')"
    )
    return [(str(session), str(turn)) for session, turn in found]
