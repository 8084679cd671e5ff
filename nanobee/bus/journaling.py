"""Journaling: session lines and outbox rows, written inside the transaction they belong to."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from nanobee.bus.bus import NewSend, TurnRef
from nanobee.bus.lines import Line, LineKind, NewLine
from nanobee.bus.rows import one, part_payload, to_json
from nanobee.bus.writer import Transaction
from nanobee.errors import StaleTurnError
from nanobee.messages import Address

LastSeq = Callable[[str], int]
"""The last `seq` in a session's file, 0 where it has none."""
Announce = Callable[[Address], None]


def ensure_session(tx: Transaction, session_key: str, last_seq: LastSeq) -> None:
    """Create the session's row where it is missing; its numbers go on after those in its file."""
    if one(tx.db, "select 1 from session where key = ?", session_key) is None:
        tx.db.execute("insert into session(key, next_seq) values (?, ?)", (session_key, last_seq(session_key) + 1))


def check_epoch(tx: Transaction, ref: TurnRef) -> None:
    """Refuse a writer whose turn was stopped or taken over, is over, or was claimed by a commit that failed.

    Raises:
        StaleTurnError: the session's epoch is not the turn's, or no row of the turn runs.
    """
    found = one(
        tx.db,
        "select 1 from session where key = ? and epoch = ?"
        " and exists (select 1 from inbox where turn = ? and state = 'running')",
        ref.session_key,
        ref.epoch,
        ref.turn,
    )
    if found is None:
        raise StaleTurnError(f"turn {ref.turn} of {ref.session_key} was stopped or taken over")


def append_lines(
    tx: Transaction, session_key: str, turn: str | None, epoch: int, lines: Iterable[NewLine]
) -> tuple[Line, ...]:
    """Give each line its place, store it in the journal and hand it to the projection."""
    found = one(tx.db, "select next_seq from session where key = ?", session_key)
    assert found is not None, f"session {session_key} has no row"
    seq = first = int(found[0])
    at = datetime.now(UTC)
    placed = []
    for new in lines:
        line = Line(seq, at, turn, new.kind, new.data)
        text = line.to_json()
        tx.db.execute("insert into journal values (?, ?, ?, ?, ?)", (session_key, seq, turn, epoch, text))
        tx.lines.append((session_key, text))
        placed.append(line)
        seq += 1
        if new.kind == LineKind.SETTINGS:
            _merge_settings(tx, session_key, new.data)
    if seq != first:
        tx.db.execute("update session set next_seq = ? where key = ?", (seq, session_key))
    return tuple(placed)


def read_settings(tx: Transaction, session_key: str) -> dict[str, str]:
    """What a person chose for the session: the newest value of each `settings` line's fields."""
    found = one(tx.db, "select settings from session where key = ?", session_key)
    whole = json.loads(found[0]) if found else {}
    return {key: value for key, value in whole.items() if isinstance(value, str)}


def _merge_settings(tx: Transaction, session_key: str, data: Mapping[str, object]) -> None:
    settings = {**read_settings(tx, session_key), **data}
    tx.db.execute("update session set settings = ? where key = ?", (to_json(settings), session_key))


def insert_sends(tx: Transaction, owner: str, turn: str | None, sends: Sequence[NewSend], now: float) -> list[Address]:
    """Put outbound messages into the outbox, each cut into its parts; return their addresses.

    The first part of an address with nothing open is inserted as `sending`, which saves its
    delivery a transition. A key that is there already (a resumed turn) is not inserted again.
    """
    addresses = []
    for send in sends:
        address = send.message.address.session_key
        is_open = one(
            tx.db,
            "select 1 from outbox where address = ? and state in ('ready', 'sending', 'unknown') limit 1",
            address,
        )
        for part, text in enumerate(send.texts):
            is_last = part == len(send.texts) - 1
            state = "sending" if part == 0 and not is_open else "ready"
            tx.db.execute(
                "insert into outbox(address, seq, turn, part, parts, kind, reply_to, payload, idempotency_key, state,"
                " attempts, created_at, changed_at) values (?, (select coalesce(max(id), 0) + 1 from outbox),"
                " ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?) on conflict(idempotency_key) do nothing",
                (
                    address,
                    turn,
                    part,
                    len(send.texts),
                    send.kind,
                    send.message.reply_to,
                    part_payload(text, send.message.attachments if is_last else ()),
                    f"{owner}/{send.key}/{part}",
                    state,
                    now,
                    now,
                ),
            )
        addresses.append(send.message.address)
    return addresses


def platform_ids_json(platform_ids: Sequence[str]) -> str:
    """The `platform_ids` column."""
    return to_json(list(platform_ids))
