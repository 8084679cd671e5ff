"""Printable: texts of chats, made safe for a terminal and short enough for a line."""

import unicodedata
from datetime import timedelta

from nanobee.phrases import Language, Phrase

AGES = (
    (86_400, Phrase("{count} d", "{count} 天")),
    (3_600, Phrase("{count} h", "{count} 小时")),
    (60, Phrase("{count} min", "{count} 分钟")),
    (1, Phrase("{count} s", "{count} 秒")),
)
_REORDERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str) -> str:
    """`text` whose only controls are newlines and tabs: what a model wrote must not steer a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_replace(character) for character in text.replace("\r\n", "\n"))


def one_line(text: str, width: int) -> str:
    """`text` on one line of at most `width` characters."""
    line = " ".join(printable(text[: width * 4]).split())
    return line if len(line) <= width and len(text) <= width * 4 else f"{line[: max(0, width - 1)]}…"


def describe_age(age: timedelta, language: Language) -> str:
    """An age in its greatest unit: `3 min`."""
    seconds = max(0, int(age.total_seconds()))
    unit, phrase = next(((unit, phrase) for unit, phrase in AGES if seconds >= unit), AGES[-1])
    return phrase.say(language, count=seconds // unit)


def _replace(character: str) -> str:
    if character in "\n\t":
        return character
    is_unsafe = character in _REORDERING or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
    return "\ufffd" if is_unsafe else character
