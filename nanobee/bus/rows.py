"""Rows: how messages and parts are written into the bus's tables, and read back."""

import json
import logging
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from nanobee.bus.bus import InboxRow, InboxState
from nanobee.bus.lines import format_at, parse_at
from nanobee.channel import Lane
from nanobee.messages import Address, Attachment, InboundMessage, OutboundPart, PartKind

logger = logging.getLogger(__name__)

DAMAGED = "[a message whose stored content is damaged]"
INBOX_COLUMNS = "id, session, lane, state, payload, message, kind, attempts"
OUTBOX_COLUMNS = "id, address, turn, part, parts, kind, reply_to, payload, idempotency_key, attempts"


def to_json(value: object) -> str:
    """Compact JSON; lone surrogates become U+FFFD, since SQLite stores UTF-8."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def message_to_json(message: InboundMessage) -> str:
    """An inbound message as the `message` column holds it."""
    whole: dict[str, Any] = {
        "to": message.address.session_key,
        "from": message.sender_id,
        "text": message.text,
        "at": format_at(message.received_at),
    }
    for key, value in (
        ("name", message.sender_name),
        ("source_id", message.source_id),
        ("reply_to", message.reply_to),
        ("quoted", message.quoted_text),
        ("attachments", [asdict(attachment) for attachment in message.attachments]),
    ):
        if value:
            whole[key] = value
    return to_json(whole)


def message_from_json(text: str) -> InboundMessage:
    """The inverse of `message_to_json`."""
    whole = json.loads(text)
    return InboundMessage(
        address=Address.from_session_key(whole["to"]),
        sender_id=whole["from"],
        text=whole["text"],
        received_at=parse_at(whole["at"]),
        sender_name=whole.get("name", ""),
        source_id=whole.get("source_id"),
        reply_to=whole.get("reply_to"),
        quoted_text=whole.get("quoted"),
        attachments=_attachments(whole.get("attachments", [])),
    )


def inbox_row(row: tuple[Any, ...]) -> InboxRow:
    """Read `INBOX_COLUMNS`. Damaged content costs that row's content only: its turn is run, and answers."""
    row_id, session_key, lane, state, payload, message, kind, attempts = row
    try:
        raw, read = json.loads(payload), None if message is None else message_from_json(message)
    except (ValueError, KeyError, TypeError, AttributeError):
        logger.error("inbox row %d of %s is damaged", row_id, session_key)
        raw, read = {}, InboundMessage(Address.from_session_key(session_key), "", DAMAGED, datetime.now(UTC))
    return InboxRow(
        id=row_id,
        session_key=session_key,
        lane=Lane(lane),
        state=InboxState(state),
        raw=raw,
        message=read,
        is_command=kind == "command",
        attempts=attempts,
    )


def part_payload(text: str, attachments: tuple[Attachment, ...]) -> str:
    """The `payload` column of one outbound part."""
    whole: dict[str, Any] = {"text": text}
    if attachments:
        whole["attachments"] = [asdict(attachment) for attachment in attachments]
    return to_json(whole)


def outbound_part(row: tuple[Any, ...], attempt: int) -> OutboundPart:
    """Read `OUTBOX_COLUMNS`. In place of damaged content its chat is told that there was some."""
    row_id, address, turn, part, parts, kind, reply_to, payload, key, _ = row
    try:
        whole = json.loads(payload)
        text, attachments = whole["text"], _attachments(whole.get("attachments", []))
        if not isinstance(text, str):
            raise TypeError("text is no text")
    except (ValueError, KeyError, TypeError, AttributeError):
        logger.error("outbox row %d for %s is damaged", row_id, address)
        text, attachments = DAMAGED, ()
    return OutboundPart(
        id=row_id,
        address=Address.from_session_key(address),
        text=text,
        kind=PartKind(kind),
        part=part,
        parts=parts,
        turn=turn,
        reply_to=reply_to,
        attachments=attachments,
        idempotency_key=key,
        attempt=attempt,
    )


def _attachments(values: list[Mapping[str, Any]]) -> tuple[Attachment, ...]:
    return tuple(Attachment(**value) for value in values)


def at_from_epoch(seconds: float | None) -> datetime | None:
    """A time column as an aware UTC time."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def one(db: sqlite3.Connection, sql: str, *arguments: object) -> tuple[Any, ...] | None:
    """The first row of a query."""
    found: tuple[Any, ...] | None = db.execute(sql, arguments).fetchone()
    return found
