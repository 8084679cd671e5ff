"""Blocks: where Markdown that still grows is finished, so that it need not be drawn again."""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


def finished_length(markdown: str) -> int:
    """How many characters of a growing text are whole blocks: all before its last block.

    A paragraph, a list, a table or a code block is finished when the next one begins; what is
    added to the text later cannot change how a finished block looks.
    """
    if "\n" not in markdown:
        return 0
    tokens = _create_block_parser().parse(markdown)
    starts = [token.map[0] for token in tokens if token.level == 0 and token.map is not None]
    if len(starts) < 2:
        return 0
    return _offset_of_line(markdown, starts[-1])


def open_tail(markdown: str, max_lines: int) -> str:
    """The end of an open block, to be drawn while it grows: what is above would not be seen anyway.

    Drawing all of a long list again and again would take longer than a frame.
    """
    lines = markdown.split("\n")
    if len(lines) <= max_lines:
        return markdown
    head = 0
    if lines[0].startswith(("```", "~~~")):
        head = 1
    elif lines[0].lstrip().startswith("|") and set(lines[1]) <= set("|-: "):
        head = 2
    return "\n".join([*lines[:head], *lines[-max_lines:]])


def _offset_of_line(text: str, line: int) -> int:
    offset = 0
    for _ in range(line):
        offset = text.index("\n", offset) + 1
    return offset


def create_parser() -> "MarkdownIt":
    """Markdown as models write it.

    HTML stands as text, since dropping it would lose what was said; so do link references,
    whose definitions could stand in a block that was drawn before.
    """
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("reference")


@cache
def _create_block_parser() -> "MarkdownIt":
    return create_parser().disable("inline")
