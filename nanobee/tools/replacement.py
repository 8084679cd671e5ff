"""Replacement: one text for another inside a file's text, without touching what stands around it."""

import re
from bisect import bisect_right
from difflib import SequenceMatcher

from nanobee.errors import ToolError

_BREAK = re.compile(r"\r?\n")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# Never the `\n` of a `\r\n` alone: a match must not begin inside a line's end.
_ANY_BREAK = r"(?:\r\n|(?<!\r)\n)"


def replace_text(text: str, old: str, new: str, replace_all: bool = False) -> tuple[str, list[int]]:
    """Replace `old`, which must occur exactly once unless `replace_all`; return the text and the lines it was on.

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
    pattern = re.compile(_ANY_BREAK.join(re.escape(part) for part in old.split("\n")))
    matches = list(pattern.finditer(text))
    if not matches:
        raise ToolError(_describe_miss(text, old))
    line_starts = [found.end() for found in _BREAK.finditer(text)]
    lines = [bisect_right(line_starts, match.start()) + 1 for match in matches]
    if not replace_all and (len(matches) > 1 or pattern.search(text, matches[0].start() + 1)):
        raise ToolError(_describe_ambiguity(lines))
    pieces, end = [], 0
    for match in matches:
        pieces += [text[end : match.start()], _respell(new, match)]
        end = match.end()
    return "".join([*pieces, text[end:]]), lines


def _respell(new: str, match: re.Match[str]) -> str:
    """`new` with line ends like those of what it replaces."""
    if "\n" not in new:
        return new
    old_lines: list[str] = _LINE.findall(match[0])
    ends = set(_BREAK.findall(match[0]))
    if len(ends) < 2:
        return new.replace("\n", ends.pop() if ends else _neighboring_break(match))
    return "".join(_pair_lines(old_lines, _LINE.findall(new)))


def _pair_lines(old_lines: list[str], new_lines: list[str]) -> list[str]:
    """The new lines: those that were there before as they were, the others with the end of what they replace."""
    bare = [line.replace("\r\n", "\n") for line in old_lines]
    head = _shared(bare, new_lines)
    tail = _shared(bare[head:][::-1], new_lines[head:][::-1])
    old_end, new_end = len(bare) - tail, len(new_lines) - tail
    paired = old_lines[:head]
    if old_end == new_end:
        paired += [_ended(*pair) for pair in zip(new_lines[head:new_end], old_lines[head:old_end], strict=True)]
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


def _neighboring_break(match: re.Match[str]) -> str:
    """The line end of the line that a match stands in, or of the one before it."""
    text = match.string
    position = text.find("\n", match.end())
    if position < 0:
        position = text.rfind("\n", 0, match.start())
    return "\r\n" if position > 0 and text[position - 1] == "\r" else "\n"


def _describe_ambiguity(lines: list[int]) -> str:
    if len(lines) == 1:
        return f"old_text overlaps itself at line {lines[0]}; give more of the text around it"
    where = ", ".join(str(line) for line in lines[:10])
    more = ", …" if len(lines) > 10 else ""
    return (
        f"old_text occurs {len(lines)} times (lines {where}{more}); give more of the text around it, or set replace_all"
    )


def _describe_miss(text: str, old: str) -> str:
    if "\ufffd" in old:
        return "old_text does not occur: \ufffd stands for bytes that cannot be written; leave them out of it"
    wanted = [line.split() for line in old.strip().split("\n")]
    lines = [line.split() for line in text.split("\n")]
    for number, line in enumerate(lines, start=1):
        if line == wanted[0] and lines[number - 1 : number - 1 + len(wanted)] == wanted:
            return f"old_text does not occur; line {number} differs from it in spaces or tabs only, copy it exactly"
    return "old_text does not occur; read the file again and copy the text exactly"
