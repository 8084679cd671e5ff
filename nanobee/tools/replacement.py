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
    respelled: list[str] = []
    new_lines: list[str] = _LINE.findall(new)
    bare = [line.replace("\r\n", "\n") for line in old_lines]
    for tag, start, stop, new_start, new_stop in SequenceMatcher(None, bare, new_lines).get_opcodes():
        if tag == "equal":
            respelled += old_lines[start:stop]
        else:
            neighbor = old_lines[min(start, len(old_lines) - 1)]
            end = "\r\n" if neighbor.endswith("\r\n") else "\n"
            respelled += [line.replace("\n", end) for line in new_lines[new_start:new_stop]]
    return "".join(respelled)


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
