"""Cutting text into what one Telegram message holds. Pure."""

import unicodedata

MAX_UNITS = 4096
"""UTF-16 units in one message."""
TAB_SPACES = 4
"""Telegram turns a tab into one space, which would flatten code."""
_BORDERS = ("\n\n", "\n", " ")
_ZERO_WIDTH_JOINER = "\u200d"
_JOINED = frozenset("\u200d\ufe0e\ufe0f\u20e3\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
"""Joiner, variation selectors, keycap, skin tones."""
_MAX_JOINED = 16
"""Code points that a hard cut goes back at most, so as not to cut an emoji made of several."""


def utf16_units(text: str) -> int:
    """Length as Telegram counts it."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def clean(text: str) -> str:
    """Join halves of surrogate pairs, and replace those without a partner: they cannot be sent or stored."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def split_text(text: str, max_units: int = MAX_UNITS) -> tuple[str, ...]:
    """Cut at a blank line, else a newline, else a space, else hard; nothing but white space at a cut is lost.

    A text without anything to read gives one empty part.
    """
    text = clean(text).expandtabs(TAB_SPACES).strip("\n").rstrip()
    parts = []
    start = 0
    while not _fits(text, start, max_units):
        end = _cut(text, start, max_units)
        part = text[start:end].rstrip()
        if part:
            parts.append(part)
        start = _skip_border(text, end)
    parts.append(text[start:])
    return tuple(parts)


def _fits(text: str, start: int, max_units: int) -> bool:
    return len(text) - start <= max_units and utf16_units(text[start:]) <= max_units


def _cut(text: str, start: int, max_units: int) -> int:
    """Where the part that begins at `start` ends, with more text behind it."""
    end = min(len(text), start + max_units)
    while (excess := utf16_units(text[start:end]) - max_units) > 0:
        end -= (excess + 1) // 2
    # A border in the first half would make a small part out of a full one.
    middle = start + (end - start) // 2
    for border in _BORDERS:
        found = text.rfind(border, middle, end + len(border))
        if found > start:
            return found
    return _hard_cut(text, start, end)


def _hard_cut(text: str, start: int, end: int) -> int:
    for cut in range(end, max(start, end - _MAX_JOINED), -1):
        if not _is_joined(text[cut]) and text[cut - 1] != _ZERO_WIDTH_JOINER:
            return cut
    return max(end, start + 1)


def _is_joined(character: str) -> bool:
    """Whether the character belongs to the one before it."""
    return character in _JOINED or unicodedata.combining(character) != 0


def _skip_border(text: str, end: int) -> int:
    """Past the white space of a cut, but not into the indentation of a new line."""
    start = end
    while start < len(text) and text[start].isspace():
        start += 1
    newline = text.rfind("\n", end, start)
    return start if newline < 0 else newline + 1
