"""Rows: the bus's rows as people and programs read them."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from nanobee.cli.printable import describe_age, one_line, printable
from nanobee.cli.status import STATES
from nanobee.phrases import Language, Phrase

if TYPE_CHECKING:
    from nanobee.bus.entries import Entry
    from nanobee.clock import Clock

TEXT_WIDTH = 60
"""Of a message in a list."""
TRIES = Phrase("{count} tries", "尝试 {count} 次")
NEXT_TRY = Phrase("next try {at}", "下次尝试 {at}")
LABELS = {
    "session": Phrase("session", "会话"),
    "kind": Phrase("kind", "类型"),
    "state": Phrase("state", "状态"),
    "reason": Phrase("reason", "原因"),
    "created_at": Phrase("created", "创建于"),
    "changed_at": Phrase("changed", "更新于"),
    "not_before": Phrase("not before", "不早于"),
    "attempts": Phrase("tries", "尝试次数"),
    "sender": Phrase("sender", "发送者"),
    "turn": Phrase("turn", "轮次"),
    "source_id": Phrase("platform's message", "平台消息"),
    "platform_ids": Phrase("stands in the chat as", "聊天中的消息"),
    "part": Phrase("part", "部分"),
    "lane": Phrase("lane", "通道"),
}


def build_table(entries: Sequence["Entry"], language: Language, clock: "Clock") -> Iterator[str]:
    """A line a row."""
    now = datetime.now(UTC)
    cells = [
        (
            str(entry.id),
            _say_state(entry.state, language),
            describe_age(now - entry.created_at, language),
            one_line(entry.session_key, TEXT_WIDTH),
            one_line(entry.text, TEXT_WIDTH),
        )
        for entry in entries
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)][:-1]
    for entry, (*columns, text) in zip(entries, cells, strict=True):
        padded = [cell.ljust(width) for cell, width in zip(columns, widths, strict=True)]
        yield "  ".join([*padded, text, *_trouble(entry, language, clock)]).rstrip()


def _trouble(entry: "Entry", language: Language, clock: "Clock") -> Iterator[str]:
    """Why the row is where it is, in brackets behind its text."""
    notes = []
    if entry.attempts > 1:
        notes.append(TRIES.say(language, count=entry.attempts))
    if entry.reason:
        notes.append(one_line(entry.reason, 2 * TEXT_WIDTH))
    if entry.not_before is not None and entry.not_before > datetime.now(UTC):
        notes.append(NEXT_TRY.say(language, at=f"{clock.local(entry.not_before):%H:%M:%S}"))
    if notes:
        yield f"[{'; '.join(notes)}]"


def describe_entry(entry: "Entry", language: Language, clock: "Clock") -> Iterator[str]:
    """All that is known of a row, and its whole text."""
    yield str(entry.id)
    for key, value in entry_to_json(entry).items():
        if key in ("id", "text", "parts") or value in (None, [], ""):
            continue
        shown = str(value)
        if key == "state":
            shown = _say_state(entry.state, language)
        elif isinstance(at := getattr(entry, key, None), datetime):
            shown = f"{clock.local(at):%Y-%m-%d %H:%M:%S}"
        elif key == "part":
            shown = f"{entry.part + 1}/{entry.parts}"
        elif isinstance(value, list):
            shown = ", ".join(value)
        yield f"{LABELS[key].say(language)}: {printable(shown)}"
    yield ""
    yield printable(entry.text)


def _say_state(state: str, language: Language) -> str:
    return STATES[state].say(language) if state in STATES else state


def entry_to_json(entry: "Entry") -> dict[str, object]:
    """A row for programs."""
    return {
        "id": str(entry.id),
        "session": entry.session_key,
        "kind": entry.kind,
        "state": entry.state,
        "reason": entry.reason,
        "created_at": _utc(entry.created_at),
        "changed_at": _utc(entry.changed_at),
        "not_before": None if entry.not_before is None else _utc(entry.not_before),
        "attempts": entry.attempts,
        "lane": entry.lane,
        "sender": entry.sender,
        "turn": entry.turn,
        "source_id": entry.source_id,
        "part": entry.part if entry.lane is None else None,
        "parts": entry.parts if entry.lane is None else None,
        "platform_ids": list(entry.platform_ids),
        "text": entry.text,
    }


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
