"""Outbox table: what an address has to send, in order, and what became of it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nanobee.bus.bus import Outgoing
from nanobee.bus.journaling import platform_ids_json
from nanobee.bus.rows import OUTBOX_COLUMNS, at_from_epoch, one, outbound_part
from nanobee.bus.writer import Transaction
from nanobee.messages import Address, OutboundPart, PartKind

MAX_AGE_SECONDS = 24 * 3600.0
"""After a day of tries a part is dead: visible, and resubmittable."""


Outcomes = Mapping[int, Callable[[Transaction], None]]
"""What became of parts that were handed out and whose rows do not say so yet, by their ids."""


def outgoing(tx: Transaction, address: Address, outcomes: Outcomes, now: float) -> Outgoing:
    """Mark the address's first open part as sending; a postponed one holds back those after it."""
    tx.changed = False
    head = _settled_head(tx, address, outcomes)
    if head is None:
        return Outgoing(None)
    *columns, state, not_before = head
    if not_before is not None and not_before > now:
        return Outgoing(None, next_at=at_from_epoch(not_before))
    part = outbound_part(tuple(columns), int(columns[-1]) + 1)
    return Outgoing(_send(tx, part, state, now), may_have_arrived=state == "unknown")


def _settled_head(tx: Transaction, address: Address, outcomes: Outcomes) -> tuple[Any, ...] | None:
    """The address's first open part, once what became of those before it is written."""
    while (head := _head(tx, address)) is not None:
        outcome = outcomes.get(head[0]) if head[-2] == "sending" else None
        if outcome is None:
            break
        outcome(tx)
        tx.changed = True
    return head


def _send(tx: Transaction, part: OutboundPart, state: str, now: float) -> OutboundPart:
    """Mark a part as sending, with the streamed message that it completes."""
    if state != "sending":
        tx.changed = True
        tx.db.execute(
            "update outbox set state = 'sending', attempts = ?, not_before = null, changed_at = ? where id = ?",
            (part.attempt, now, part.id),
        )
    if part.kind is PartKind.ANSWER and part.part == 0 and part.turn is not None:
        return replace(part, handle=stream_handle(tx, part.turn))
    return part


def _head(tx: Transaction, address: Address) -> tuple[Any, ...] | None:
    return one(
        tx.db,
        f"select {OUTBOX_COLUMNS}, state, not_before from outbox where address = ?"
        " and state in ('ready', 'sending', 'unknown') order by id limit 1",
        address.session_key,
    )


def stream_handle(tx: Transaction, turn: str) -> tuple[str, ...]:
    """The platform message that the turn streams into, if there is one."""
    found = one(
        tx.db,
        "select platform_ids from outbox where turn = ? and kind = 'stream' and state = 'sent'"
        " order by id desc limit 1",
        turn,
    )
    return () if found is None else tuple(json.loads(found[0]))


def record_stream(tx: Transaction, address: Address, turn: str, platform_ids: Sequence[str], now: float) -> None:
    """Remember the platform message that the turn streams into, so that its answer completes it after any crash."""
    tx.db.execute(
        "insert into outbox(address, seq, turn, part, parts, kind, payload, idempotency_key, platform_ids, state,"
        " created_at, changed_at) values (?, (select coalesce(max(id), 0) + 1 from outbox), ?, 0, 1, 'stream', '{}',"
        " ? || '/stream/' || (select coalesce(max(id), 0) + 1 from outbox), ?, 'sent', ?, ?)",
        (address.session_key, turn, turn, platform_ids_json(platform_ids), now, now),
    )


def end_streams(tx: Transaction, address: Address, now: float) -> None:
    """Something else stands in the chat now: a streamed message above it is not continued."""
    tx.db.execute(
        "update outbox set state = 'cancelled', reason = 'ended', changed_at = ?"
        " where address = ? and kind = 'stream' and state = 'sent'",
        (now, address.session_key),
    )


def sent(tx: Transaction, part: OutboundPart, platform_ids: Sequence[str], now: float) -> None:
    """The platform has the part."""
    tx.db.execute(
        "update outbox set state = 'sent', attempts = ?, platform_ids = ?, reason = null, changed_at = ? where id = ?",
        (part.attempt, platform_ids_json(platform_ids), now, part.id),
    )
    end_streams(tx, part.address, now)


def postpone(tx: Transaction, part: OutboundPart, reason: str, seconds: float, is_unknown: bool, now: float) -> None:
    """Try the part again later."""
    tx.db.execute(
        "update outbox set state = ?, attempts = ?, reason = ?, not_before = ?, changed_at = ? where id = ?",
        ("unknown" if is_unknown else "ready", part.attempt, reason, now + seconds, now, part.id),
    )


def is_too_old(tx: Transaction, part: OutboundPart, now: float) -> bool:
    """Whether a part has waited so long that it is given up."""
    tx.changed = False
    found = one(tx.db, "select created_at from outbox where id = ?", part.id)
    return found is not None and now - found[0] > MAX_AGE_SECONDS


def hold_back(tx: Transaction, address: Address, outcomes: Outcomes, now: float) -> None:
    """Put the part that was to be sent back: nobody can be reached, and this was no try."""
    tx.changed = False
    _settled_head(tx, address, outcomes)
    cursor = tx.db.execute(
        "update outbox set state = 'ready', attempts = case attempts when 0 then 0 else attempts - 1 end,"
        " changed_at = ? where address = ? and state = 'sending'",
        (now, address.session_key),
    )
    tx.changed |= cursor.rowcount > 0


def bury(tx: Transaction, part: OutboundPart, reason: str, now: float) -> None:
    """Give the part up, and the later parts of its message with it."""
    tx.db.execute(
        "update outbox set state = 'dead', attempts = ?, reason = ?, changed_at = ? where id = ?",
        (part.attempt, reason, now, part.id),
    )
    message_key = part.idempotency_key.rpartition("/")[0]
    for later in range(part.part + 1, part.parts):
        tx.db.execute(
            "update outbox set state = 'dead', reason = 'an earlier part was given up', changed_at = ?"
            " where idempotency_key = ? and state = 'ready'",
            (now, f"{message_key}/{later}"),
        )


def retry(tx: Transaction, row_id: int, message_key: str, later: range, now: float) -> None:
    """Make a part ready at once, with all its tries before it, and the later parts that were given up with it."""
    again = "update outbox set state = 'ready', reason = null, attempts = 0, not_before = null, changed_at = ? where"
    tx.db.execute(f"{again} id = ?", (now, row_id))
    tx.db.executemany(
        f"{again} idempotency_key = ? and state = 'dead'", [(now, f"{message_key}/{number}") for number in later]
    )


def drop(tx: Transaction, row_id: int, message_key: str, later: range, reason: str, now: float) -> None:
    """End a part that is not being sent, and the later parts of its message, because a person wants it so."""
    end = "update outbox set state = 'cancelled', reason = ?, changed_at = ? where"
    tx.db.execute(f"{end} id = ? and state in ('ready', 'unknown', 'dead')", (reason, now, row_id))
    tx.db.executemany(
        f"{end} idempotency_key = ? and state in ('ready', 'dead')",
        [(reason, now, f"{message_key}/{number}") for number in later],
    )


def open_addresses(tx: Transaction) -> list[Address]:
    """Every address with something to send."""
    tx.changed = False
    found = tx.db.execute("select distinct address from outbox where state in ('ready', 'sending', 'unknown')")
    return [Address.from_session_key(address) for (address,) in found]
