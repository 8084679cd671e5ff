"""Transcript: session lines as text for who writes the memory, each with who said it.

Pictures and long tool outputs become a line. What a tool said is marked: it may be used, and is
never believed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from textwrap import shorten

from nanobee.arguments import clean_text
from nanobee.bus.lines import Line, LineKind
from nanobee.clock import Clock
from nanobee.tokens import estimate_tokens

MAX_SAID_CHARS = 6_000
"""Of one message; of a longer one, its beginning and its end."""
MAX_RESULT_CHARS = 500
"""A longer tool output is left out."""
MAX_ARGUMENTS_CHARS = 200
MAX_RAW_SAID_CHARS = 300
MAX_RAW_CHARS = 8_000
_MARKUP = re.compile(r"<[a-zA-Z!/?][^<>]*>")
_INLINE_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,[A-Za-z0-9+/=\s]{64,}")


@dataclass(frozen=True, slots=True)
class Said:
    """One session line as text."""

    seq: int
    at: datetime
    role: str
    """`user`, `assistant` or `tool`."""
    name: str
    """Who, where that is known: a person's name, or the tool's."""
    text: str
    whole: str = ""
    """A tool's output without any cut, for who asks where a fact is from."""


def said_in(lines: Iterable[Line]) -> Iterator[Said]:
    """What the lines say, without those that were undone or forgotten."""
    lines = list(lines)
    gone = gone_seqs(lines)
    for line in lines:
        if line.seq not in gone and line.kind in (LineKind.MESSAGE, LineKind.RECORD):
            said = _read(line)
            if said is not None:
                yield said


def gone_seqs(lines: Iterable[Line]) -> set[int]:
    """The lines that these lines take back."""
    gone: set[int] = set()
    for line in lines:
        if line.kind == LineKind.UNDONE:
            first, last = line.data.get("from"), line.data.get("through")
            if type(first) is int and type(last) is int:
                gone.update(range(first, last + 1))
        elif line.kind == LineKind.FORGOTTEN:
            seqs = line.data.get("seqs")
            gone.update(seq for seq in (seqs if isinstance(seqs, list) else []) if type(seq) is int)
    return gone


def _read(line: Line) -> Said | None:
    data = line.data
    role = data.get("role", "assistant")
    content = data.get("content")
    text = _without_inline_data(clean_text(content)) if isinstance(content, str) else ""
    if role == "tool":
        name = str(data.get("name") or "tool")
        shown = text if len(text) <= MAX_RESULT_CHARS else f"({len(text):,} characters, left out)"
        return Said(line.seq, line.at, "tool", name, shown, text)
    text = "\n".join(part for part in (_cut(text, MAX_SAID_CHARS), *_beside(data)) if part.strip())
    name = str(data.get("name") or "") if role == "user" else ""
    return Said(line.seq, line.at, str(role), name, text) if text else None


def _without_inline_data(text: str) -> str:
    return _INLINE_DATA.sub(lambda match: f"[{match[1]}, left out]", text)


def _beside(data: Mapping[str, object]) -> Iterator[str]:
    """Attachments and tool calls, a line each."""
    for attachment in _mappings(data.get("attachments")):
        yield f"[{attachment.get('kind', 'file')}: {attachment.get('name', '')}]"
    for call in _mappings(data.get("tool_calls")):
        arguments = _cut(clean_text(str(call.get("arguments", ""))), MAX_ARGUMENTS_CHARS)
        yield f"[calls {call.get('name')} {_without_inline_data(arguments)}]"


def _mappings(found: object) -> Sequence[Mapping[str, object]]:
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head = limit * 3 // 4
    return f"{text[:head]} […{len(text) - limit:,} characters left out…] {text[head - limit :]}"


def cost(lines: Iterable[Line]) -> int:
    """About how many tokens the lines are in a transcript."""
    return sum(estimate_tokens(said.text) + 8 for said in said_in(lines))


def write_transcript(said: Iterable[Said], clock: Clock) -> str:
    """The text for a model."""
    rows = []
    for each in said:
        stamp = clock.local(each.at).strftime("%Y-%m-%d %H:%M")
        who = {"tool": f"tool {each.name}, untrusted", "user": f"user {each.name}".strip()}.get(each.role, each.role)
        text = each.text.replace("\n", "\n    ")  # so that no text looks like another's line
        rows.append(f"[{stamp}] {who}: {text}")
    return "\n".join(rows)


def write_raw_entry(said: Iterable[Said]) -> str:
    """What stands in HISTORY.md for a part that no model could sum up: who said what, shortened."""
    rows, chars = [], 0
    for each in said:
        if each.role == "tool":
            continue
        row = f"{each.name or each.role}: {shorten(_MARKUP.sub(' ', each.text), MAX_RAW_SAID_CHARS, placeholder='…')}"
        chars += len(row)
        if chars > MAX_RAW_CHARS:
            rows.append("…")
            break
        rows.append(row)
    return "(not summed up) " + " | ".join(rows)
