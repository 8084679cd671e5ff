"""Replacement: one text for another inside a file's text, without touching what stands around it."""

import re
from bisect import bisect_left
from dataclasses import dataclass
from difflib import SequenceMatcher

from nanobee.errors import ToolError

MAX_PAIRED_LINES = 500
"""Changed lines with ends of both kinds that are compared one by one, for that takes time by the square."""
MAX_TRIED_LINES = 100
"""Lines at which a text that was not found is looked for once more."""
MAX_NAMED_LINES = 10

_BREAK = re.compile(r"\r?\n")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class Replaced:
    """A text after its replacement, and where that was."""

    text: str
    places: int
    first_line: int


def replace_text(text: str, old: str, new: str, replace_all: bool = False) -> Replaced:
    """Replace `old`, which must occur exactly once unless `replace_all`.

    Line ends in `old` and `new` fit any in `text`; each line that is new gets the line end of its
    neighbors, and each that is kept keeps its own.

    Raises:
        ToolError: nothing to replace, no match, or several.
    """
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if not old:
        raise ToolError("old_text is empty; write_file makes a file or replaces all of it")
    if old == new:
        raise ToolError("old_text and new_text are the same; there is nothing to do")
    # Searched with `find`, not with a pattern: no text that a model can think of makes it slow.
    bare = text.replace("\r\n", "\n")
    starts = _find_all(bare, old)
    if not starts:
        raise ToolError(_describe_miss(bare, old))
    if not replace_all and (len(starts) > 1 or bare.find(old, starts[0] + 1) >= 0):
        raise ToolError(_describe_ambiguity(bare, starts))
    returns = [found.start() - number for number, found in enumerate(re.finditer("\r\n", text))]
    pieces, end = [], 0
    for bare_start in starts:
        bare_end = bare_start + len(old)
        start = bare_start + bisect_left(returns, bare_start)
        pieces.append(text[end:start])
        end = bare_end + bisect_left(returns, bare_end)
        pieces.append(_respell(new, text, start, end))
    return Replaced("".join([*pieces, text[end:]]), len(starts), _line_of(bare, starts[0]))


def _find_all(text: str, wanted: str) -> list[int]:
    starts: list[int] = []
    at = text.find(wanted)
    while at >= 0:
        starts.append(at)
        at = text.find(wanted, at + len(wanted))
    return starts


def _line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _respell(new: str, text: str, start: int, end: int) -> str:
    """`new` with line ends like those of what it replaces."""
    if "\n" not in new:
        return new
    region = text[start:end]
    ends = set(_BREAK.findall(region))
    if len(ends) < 2:
        return new.replace("\n", ends.pop() if ends else _neighboring_break(text, start, end))
    return "".join(_pair_lines(_LINE.findall(region), _LINE.findall(new)))


def _pair_lines(old_lines: list[str], new_lines: list[str]) -> list[str]:
    """The new lines: those that were there before as they were, the others with the end of what they replace."""
    bare = [line.replace("\r\n", "\n") for line in old_lines]
    head = _shared(bare, new_lines)
    tail = _shared(bare[head:][::-1], new_lines[head:][::-1])
    old_end, new_end = len(bare) - tail, len(new_lines) - tail
    paired = old_lines[:head]
    if old_end == new_end:
        paired += [_ended(*pair) for pair in zip(new_lines[head:new_end], old_lines[head:old_end], strict=True)]
    elif max(old_end, new_end) - head > MAX_PAIRED_LINES:
        paired += [_ended(line, old_lines[head - 1] if head else old_lines[0]) for line in new_lines[head:new_end]]
    else:
        matcher = SequenceMatcher(None, bare[head:old_end], new_lines[head:new_end])
        for tag, start, stop, new_start, new_stop in matcher.get_opcodes():
            if tag == "equal":
                paired += old_lines[head + start : head + stop]
            else:
                neighbor = old_lines[min(head + start, len(old_lines) - 1)]
                paired += [_ended(line, neighbor) for line in new_lines[head + new_start : head + new_stop]]
    return paired + old_lines[old_end:]


def _shared(one: list[str], other: list[str]) -> int:
    """How many lines at the beginning are the same."""
    differing = (at for at, (line, twin) in enumerate(zip(one, other, strict=False)) if line != twin)
    return next(differing, min(len(one), len(other)))


def _ended(line: str, like: str) -> str:
    return line.replace("\n", "\r\n" if like.endswith("\r\n") else "\n")


def _neighboring_break(text: str, start: int, end: int) -> str:
    """The line end of the line that a place stands in, or of the one before it."""
    position = text.find("\n", end)
    if position < 0:
        position = text.rfind("\n", 0, start)
    return "\r\n" if position > 0 and text[position - 1] == "\r" else "\n"


def _describe_ambiguity(text: str, starts: list[int]) -> str:
    if len(starts) == 1:
        return f"old_text overlaps itself at line {_line_of(text, starts[0])}; give more of the text around it"
    where = ", ".join(str(_line_of(text, start)) for start in starts[:MAX_NAMED_LINES])
    more = ", …" if len(starts) > MAX_NAMED_LINES else ""
    return (
        f"old_text occurs {len(starts):,} times (lines {where}{more});"
        " give more of the text around it, or set replace_all"
    )


def _describe_miss(text: str, old: str) -> str:
    if "\ufffd" in old:
        return "old_text does not occur: \ufffd stands for bytes that cannot be written; leave them out of it"
    wanted = [line.split() for line in old.strip().split("\n")]
    lines = [line.split() for line in text.split("\n")]
    tried = [at for at, line in enumerate(lines) if line == wanted[0]][:MAX_TRIED_LINES]
    for at in tried:
        if lines[at : at + len(wanted)] == wanted:
            return f"old_text does not occur; line {at + 1} differs from it in spaces or tabs only, copy it exactly"
    return "old_text does not occur; read the file again and copy the text exactly"
