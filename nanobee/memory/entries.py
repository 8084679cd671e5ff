"""Entry: one thing that is remembered, with its tier, its source and an id that a rebuilt index gives again."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from urllib.parse import unquote

ID_BITS = 53
"""What a JSON number holds in every client."""
UNVERIFIED = "(unverified)"
"""Stands behind what only a tool or a web page said."""
_SOURCE = re.compile(r"\s*\[(\S+) seq (\d+)–(\d+)\]\s*$")
_UNSAFE = re.compile(r"[\s\[\]\x00-\x1f\x7f]")
_CODED = re.compile(r"(?:%(?!25|3A)[0-9a-f]{2})+")
"""Coded by us: the key's own codes are `%25` and `%3A`."""


class Tier(StrEnum):
    """How lasting a thing is, and where it stands."""

    SYSTEM = "system"
    """Persona and rules: AGENTS.md, SOUL.md. The owner's to write."""
    IMPORTANT = "important"
    """Lasting facts: MEMORY.md."""
    DAILY = "daily"
    """Notes of a day: `daily/DATE.md`, folded into HISTORY.md later."""
    MISC = "misc"
    """Short-lived notes with an expiry: `misc.jsonl`."""
    HISTORY = "history"
    """What happened: HISTORY.md."""
    SESSION = "session"
    """What was said, word for word: the session files."""


@dataclass(frozen=True, slots=True)
class Source:
    """The session lines that something came from."""

    session_key: str
    first: int
    last: int

    def __str__(self) -> str:
        """As it stands at the end of an entry, without the brackets."""
        key = _UNSAFE.sub(lambda match: "".join(f"%{byte:02x}" for byte in match[0].encode()), self.session_key)
        return f"{key} seq {self.first}–{self.last}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of any tier."""

    id: int
    tier: Tier
    text: str
    at: datetime
    """Aware UTC; for tiers without times of their own, that of their file."""
    source: Source | None = None
    expires_at: datetime | None = None
    is_trusted: bool = True
    """False where only a tool or a web page said so."""


def entry_id(scope_key: str, tier: Tier, text: str) -> int:
    """53 bits of a hash: the same for the same text, whatever became of an index in between; never 0."""
    digest = blake2b("\x00".join((scope_key, tier, text)).encode("utf-8", "replace"), digest_size=8).digest()
    return (int.from_bytes(digest) >> (64 - ID_BITS)) or 1


def split_source(text: str) -> tuple[str, Source | None]:
    """An entry's text, and the source that stands in brackets at its end."""
    match = _SOURCE.search(text)
    if match is None:
        return text.strip(), None
    key = _CODED.sub(lambda coded: unquote(coded[0]), match[1])
    return text[: match.start()].strip(), Source(key, int(match[2]), int(match[3]))


def one_line(text: str) -> str:
    """`text` on one line, as an entry must be: blank space of any kind becomes one space, controls go."""
    return " ".join("".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in text).split())


def bullet_text(line: str) -> str:
    """A Markdown line without its list mark or heading mark."""
    return re.sub(r"^\s*(?:[-*+]|\d+[.)]|#{1,6})\s+", "", line).strip()


def is_fact(line: str) -> bool:
    """Whether a line of MEMORY.md says something: no heading, no rule, not blank."""
    stripped = line.strip()
    return not stripped.startswith("#") and any(character.isalnum() for character in stripped)


def facts(lines: Iterable[str]) -> list[str]:
    """The facts in the lines of a Markdown text."""
    return [bullet_text(line) for line in lines if is_fact(line)]
