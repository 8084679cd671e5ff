"""Outbox table: what an address has to send, in order, and what became of it."""

from collections.abc import Sequence

from nanobee.bus.bus import Outgoing
from nanobee.bus.journaling import platform_ids_json
from nanobee.bus.rows import OUTBOX_COLUMNS, at_from_epoch, one, outbound_part
from nanobee.bus.writer import Transaction
from nanobee.messages import Address, OutboundPart


def outgoing(tx: Transaction, address: Address, now: float) -> Outgoing:
    """Mark the address's first open part as sending; a postponed one holds back those after it."""
    tx.changed = False
    head = one(
        tx.db,
        f"select {OUTBOX_COLUMNS}, state, not_before from outbox where address = ?"
        " and state in ('ready', 'sending', 'unknown') order by id limit 1",
        address.session_key,
    )
    if head is None:
        return Outgoing(None)
    *columns, state, not_before = head
    if not_before is not None and not_before > now:
        return Outgoing(None, next_at=at_from_epoch(not_before))
    attempts = int(columns[-1]) + 1
    if state != "sending":
        tx.changed = True
        tx.db.execute(
            "update outbox set state = 'sending', attempts = ?, not_before = null, changed_at = ? where id = ?",
            (attempts, now, columns[0]),
        )
    return Outgoing(outbound_part(tuple(columns), attempts), may_have_arrived=state == "unknown")


def sent(tx: Transaction, part: OutboundPart, platform_ids: Sequence[str], now: float) -> None:
    """The platform has the part."""
    tx.db.execute(
        "update outbox set state = 'sent', attempts = ?, platform_ids = ?, reason = null, changed_at = ? where id = ?",
        (part.attempt, platform_ids_json(platform_ids), now, part.id),
    )


def postpone(tx: Transaction, part: OutboundPart, reason: str, seconds: float, is_unknown: bool, now: float) -> None:
    """Try the part again later."""
    tx.db.execute(
        "update outbox set state = ?, attempts = ?, reason = ?, not_before = ?, changed_at = ? where id = ?",
        ("unknown" if is_unknown else "ready", part.attempt, reason, now + seconds, now, part.id),
    )


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


def open_addresses(tx: Transaction) -> list[Address]:
    """Every address with something to send."""
    tx.changed = False
    found = tx.db.execute("select distinct address from outbox where state in ('ready', 'sending', 'unknown')")
    return [Address.from_session_key(address) for (address,) in found]
