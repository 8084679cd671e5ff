"""Inbox table: receive, resolve, finish and stop, each as one operation of the writer."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from nanobee.bus import suspension_table
from nanobee.bus.bus import Arriving, InboxRow, InboxState, MakeNotice, NewRow, Notices, Stopped, TurnRef, Waiting
from nanobee.bus.capacity import Capacity, Verdict
from nanobee.bus.claiming import next_epoch
from nanobee.bus.journaling import LastSeq, append_lines, ensure_session, insert_sends
from nanobee.bus.lines import LineKind, NewLine, TurnState
from nanobee.bus.rows import INBOX_COLUMNS, at_from_epoch, inbox_row, message_to_json, one, to_json
from nanobee.bus.writer import Transaction
from nanobee.channel import Arrival, Lane, Receipt, command_of
from nanobee.messages import Address, InboundMessage

MAX_CRASHES = 3
"""Deaths of the process in one turn without a new line of it, after which a person must say go on."""
MAX_FORGOTTEN = 1_000
"""Rows of a table that one transaction deletes."""
KEEP_DONE_SECONDS = 72 * 3600.0
"""How long an ended row is kept, so that a late repeat of its event is recognized."""


@dataclass(frozen=True, slots=True)
class Door:
    """What stands between an arrival and its row."""

    capacity: Capacity
    notices: Notices
    last_seq: LastSeq


@dataclass(slots=True)
class Received:
    """What became of a batch of arrivals."""

    receipts: list[Receipt] = field(default_factory=list)
    rows: list[InboxRow] = field(default_factory=list)
    """The new ones."""
    told: list[Address] = field(default_factory=list)
    """Chats with a notice."""


def receive(tx: Transaction, rows: Sequence[NewRow], door: Door, now: float) -> Received:
    """Store arrivals in their order, where they are new and there is room."""
    received = Received()
    for row in rows:
        received.receipts.append(_receive_one(tx, row, door, received, now))
    return received


def _receive_one(tx: Transaction, new: NewRow, door: Door, received: Received, now: float) -> Receipt:
    arrival = new.arrival
    if one(tx.db, "select 1 from inbox where dedupe = ?", new.dedupe):
        return Receipt.DUPLICATE
    ensure_session(tx, arrival.session_key, door.last_seq)
    verdict, waiting = Verdict.TAKEN, 0
    if arrival.lane is Lane.USER:
        verdict, waiting = door.capacity.judge(tx, arrival.session_key)
    row = _unstored(arrival) if verdict is Verdict.FULL else _insert(tx, new, now)
    if verdict is not Verdict.TAKEN and door.capacity.may_tell(tx, verdict, arrival.session_key, now):
        is_full = verdict is Verdict.FULL
        send = door.notices.not_accepted(row) if is_full else door.notices.busy(row, waiting)
        received.told += insert_sends(tx, f"{send.key}-{new.dedupe}", None, [send], now)
    if verdict is Verdict.FULL:
        return Receipt.FULL
    received.rows.append(row)
    return Receipt.STORED


def _unstored(arrival: Arrival) -> InboxRow:
    return InboxRow(0, arrival.session_key, arrival.lane, InboxState.DEAD, arrival.raw, arrival.message)


def _insert(tx: Transaction, new: NewRow, now: float) -> InboxRow:
    arrival = new.arrival
    state = InboxState.ARRIVING if arrival.message is None else InboxState.READY
    is_command = arrival.message is not None and command_of(arrival.message.text) is not None
    cursor = tx.db.execute(
        "insert into inbox(session, seq, lane, kind, dedupe, source_id, group_key, payload, message, state,"
        " created_at, changed_at) values (?, (select next_row from session where key = ?), ?, ?, ?, ?, ?, ?, ?, ?,"
        " ?, ?)",
        (
            arrival.session_key,
            arrival.session_key,
            arrival.lane,
            "command" if is_command else "message",
            new.dedupe,
            arrival.source_id,
            arrival.group_key,
            to_json(arrival.raw),
            None if arrival.message is None else message_to_json(arrival.message),
            state,
            now,
            now,
        ),
    )
    tx.db.execute("update session set next_row = next_row + 1 where key = ?", (arrival.session_key,))
    assert cursor.lastrowid is not None
    return InboxRow(
        cursor.lastrowid, arrival.session_key, arrival.lane, state, arrival.raw, arrival.message, is_command
    )


def resolve(tx: Transaction, row_id: int, message: InboundMessage, now: float) -> None:
    """Complete an arriving row; a row that was parked or stopped meanwhile only gets its message."""
    kind = "command" if command_of(message.text) is not None else "message"
    tx.db.execute(
        "update inbox set message = ?, kind = ?, changed_at = ?,"
        " not_before = null, attempts = 0,"
        " state = case state when 'arriving' then 'ready' else state end where id = ?",
        (message_to_json(message), kind, now, row_id),
    )


def arriving(tx: Transaction, channel: str, limit: int, now: float) -> Arriving:
    """A channel's rows that wait for its resolver, oldest first."""
    tx.changed = False
    of_channel = "state = 'arriving' and session >= ? and session < ?"
    found = tx.db.execute(
        f"select {INBOX_COLUMNS} from inbox where {of_channel} and coalesce(not_before, 0) <= ? order by id limit ?",
        (f"{channel}:", f"{channel};", now, limit),
    )
    rows = tuple(inbox_row(row) for row in found)
    next_of_channel = f"select min(not_before) from inbox where {of_channel} and not_before > ?"
    later = one(tx.db, next_of_channel, f"{channel}:", f"{channel};", now)
    return Arriving(rows, at_from_epoch(later[0]) if later else None)


def resolve_later(tx: Transaction, row_id: int, seconds: float, now: float) -> None:
    """The platform did not answer: the row is tried again."""
    tx.db.execute(
        "update inbox set attempts = attempts + 1, not_before = ?, changed_at = ? where id = ? and state = 'arriving'",
        (now + seconds, now, row_id),
    )


def claim_control(tx: Transaction, now: float) -> InboxRow | None:
    """Take the oldest ready control row."""
    found = one(tx.db, f"select {INBOX_COLUMNS} from inbox where state = 'ready' and lane = 0 order by id limit 1")
    if found is None:
        tx.changed = False
        return None
    tx.db.execute(
        "update inbox set state = 'running', attempts = attempts + 1, changed_at = ? where id = ?", (now, found[0])
    )
    return inbox_row(found)


def close_row(tx: Transaction, row_id: int, now: float) -> None:
    """End a control row."""
    tx.db.execute("update inbox set state = 'done', changed_at = ? where id = ?", (now, row_id))


def finish(tx: Transaction, ref: TurnRef, now: float) -> None:
    """End exactly the rows that the turn answers."""
    tx.db.execute(
        "update inbox set state = 'done', changed_at = ? where turn = ? and state = 'running'", (now, ref.turn)
    )


def requeue(tx: Transaction, ref: TurnRef, message: InboundMessage, now: float) -> None:
    """Let a message be answered again: it waits as if it had just come."""
    arrival = Arrival(f"again-{ref.turn}", ref.session_key, message.sender_id, Lane.USER, {}, message=message)
    _insert(tx, NewRow(arrival, f"again::{ref.turn}"), now)


def hand_back(tx: Transaction, ref: TurnRef, now: float) -> None:
    """Give a turn's rows back, with their turn, so that it is resumed."""
    tx.db.execute(
        "update inbox set state = 'ready', changed_at = ? where turn = ? and state = 'running'", (now, ref.turn)
    )


def stop(
    tx: Transaction, row: InboxRow, session_key: str, make_notice: MakeNotice, now: float
) -> tuple[Stopped, list[Address]]:
    """End the session's turn, park its queue, cancel its questions and what is not sent, and say so."""
    # The one that runs first; beside it a turn may wait to go on after an answer.
    begun = tx.db.execute(
        "select turn from inbox where session = ? and lane > 0 and turn is not null and state in ('running', 'ready')"
        " group by turn order by max(case state when 'running' then 1 else 0 end) desc, min(seq)",
        (session_key,),
    )
    turns = [str(turn) for (turn,) in begun]
    epoch = next_epoch(tx, session_key)
    questions = suspension_table.cancel(tx, session_key, now)
    for turn in turns:
        _stop_turn(tx, session_key, turn, epoch, now)
    cursor = tx.db.execute(
        "update inbox set state = 'parked', reason = 'stopped', changed_at = ? where session = ? and lane > 0"
        " and state in ('arriving', 'ready')",
        (now, session_key),
    )
    stopped = Stopped(turns[0] if turns else None, cursor.rowcount, questions)
    close_row(tx, row.id, now)
    return stopped, insert_sends(tx, f"row-{row.id}", None, [make_notice(stopped)], now)


def _stop_turn(tx: Transaction, session_key: str, turn: str, epoch: int, now: float) -> None:
    tx.db.execute(
        "update inbox set state = 'stopped', changed_at = ? where turn = ? and state in ('running', 'ready')",
        (now, turn),
    )
    tx.db.execute(
        "update outbox set state = 'cancelled', reason = 'stopped', changed_at = ? where turn = ? and state = 'ready'",
        (now, turn),
    )
    append_lines(tx, session_key, turn, epoch, [NewLine(LineKind.TURN, {"state": TurnState.STOPPED})])


def resume(tx: Transaction, session_key: str, now: float) -> int:
    """Make parked rows ready again; those that had not arrived yet go on arriving.

    Their user lines are written anew: others may stand behind the old ones by now.
    """
    cursor = tx.db.execute(
        "update inbox set state = case when message is null then 'arriving' else 'ready' end, reason = null,"
        " turn = null, is_told = 0, crashes = 0, changed_at = ? where session = ? and state = 'parked'",
        (now, session_key),
    )
    return cursor.rowcount


def resume_row(tx: Transaction, row_id: int, now: float) -> None:
    """Make one parked row ready again, as `resume` does all of a session."""
    tx.db.execute(
        "update inbox set state = case when message is null then 'arriving' else 'ready' end, reason = null,"
        " turn = null, is_told = 0, crashes = 0, changed_at = ? where id = ? and state = 'parked'",
        (now, row_id),
    )


def drop(tx: Transaction, row_id: int, reason: str, now: float) -> None:
    """End a row that nobody works on, because a person wants it so."""
    tx.db.execute(
        "update inbox set state = 'stopped', reason = ?, changed_at = ? where id = ?"
        " and state in ('ready', 'parked', 'dead')",
        (reason, now, row_id),
    )


def recover(tx: Transaction, notices: Notices, now: float) -> list[Address]:
    """Treat what the last holder left under way as left by the dead.

    A turn that has died `MAX_CRASHES` times without a new line in between is parked, and its chat is told.
    """
    tx.db.execute("update outbox set state = 'unknown', changed_at = ? where state = 'sending'", (now,))
    tx.db.execute(
        "update inbox set crashes = case when lane > 0 and progress <> (select next_seq from session"
        " where key = inbox.session) then 0 else crashes + 1 end where state = 'running'"
    )
    found = tx.db.execute(
        f"select {INBOX_COLUMNS} from inbox where state = 'running' and crashes >= ? order by id", (MAX_CRASHES,)
    )
    addresses = []
    for row in [inbox_row(columns) for columns in found.fetchall()]:
        tx.db.execute(
            "update inbox set state = 'parked', reason = 'it ended the process three times', changed_at = ?"
            " where id = ?",
            (now, row.id),
        )
        addresses += insert_sends(tx, f"row-{row.id}-{row.attempts}", None, [notices.crashed(row)], now)
    tx.db.execute("update inbox set state = 'ready', changed_at = ? where state = 'running'", (now,))
    return addresses


def forget_old(tx: Transaction, now: float) -> bool:
    """Delete rows that ended long ago, a bounded number of each table; True where more may be left."""
    old = now - KEEP_DONE_SECONDS
    deleted = [
        tx.db.execute(
            f"delete from {table} where rowid in (select rowid from {table} where state in ({states})"
            " and changed_at < ? limit ?)",
            (old, MAX_FORGOTTEN),
        ).rowcount
        for table, states in (
            ("inbox", "'done', 'stopped'"),
            ("outbox", "'sent', 'cancelled'"),
            ("suspension", "'done', 'cancelled'"),
        )
    ]
    tx.changed = any(deleted)
    return max(deleted) >= MAX_FORGOTTEN


def waiting_sessions(tx: Transaction) -> list[tuple[str, InboxState, Lane]]:
    """Session, state and lane of what somebody must be told of after a start, the oldest of each first."""
    tx.changed = False
    found = tx.db.execute(
        "select session, state, lane from inbox where state in ('arriving', 'ready')"
        " group by session, state, lane order by min(id)"
    )
    return [(session_key, InboxState(state), Lane(lane)) for session_key, state, lane in found]


def waiting(tx: Transaction, session_key: str) -> Waiting:
    """Count a session's open rows."""
    tx.changed = False
    found = tx.db.execute(
        "select state, count(*) from inbox where session = ? and lane > 0"
        " and state in ('arriving', 'ready', 'running', 'parked') group by state",
        (session_key,),
    )
    counts = dict(found.fetchall())
    queued = counts.get("ready", 0) + counts.get("arriving", 0)
    questions = tuple(suspension_table.open_in(tx, session_key))
    dead = one(tx.db, "select count(*) from outbox where address = ? and state = 'dead'", session_key)
    undelivered = int(dead[0]) if dead else 0
    return Waiting("running" in counts, queued, counts.get("parked", 0), undelivered, questions)
