"""Markdown: drawn for a terminal with rich. Only interactive screens import this module."""

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from markdown_it.token import Token
from rich import box
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import CodeBlock, Heading, HorizontalRule, ListItem, Markdown, TableElement
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment, SegmentLines
from rich.syntax import Syntax
from rich.table import Table
from rich.theme import Theme

from nanobee_terminal.blocks import create_parser
from nanobee_terminal.control_chars import clean_text
from nanobee_terminal.wrapping import mark_breaks, unmark_breaks

Line = list[Segment]
MAX_WIDTH = 120
"""Longer lines are hard to read, however wide the window is."""

THEME = Theme(
    {
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold italic",
        "markdown.h5": "italic",
        "markdown.h6": "italic",
        "markdown.code": "cyan",
        "markdown.item.bullet": "cyan",
        "markdown.item.number": "cyan",
        "markdown.block_quote": "italic",
        "markdown.hr": "dim",
        "markdown.link": "underline",
        "markdown.link_url": "dim",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)
"""Colors of the terminal's own palette, so that they can be read on dark and on light."""


class MarkdownPaper:
    """Turns Markdown into lines of styled text, and those into what a terminal is sent."""

    def __init__(self, *, color: bool = True) -> None:
        self._console = Console(
            file=io.StringIO(),
            force_terminal=True,
            no_color=not color,
            theme=THEME,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )
        self._parser = create_parser()

    def draw(self, markdown: str, width: int) -> list[Line]:
        """The text's blocks, a blank line before each."""
        options = self._console.options.update(width=min(width, MAX_WIDTH), height=None)
        lines: list[Line] = []
        for block in _split_blocks(self._parser.parse(clean_text(markdown))):
            drawn = self._console.render_lines(_ChatMarkdown(block), options, pad=False)
            lines.append([])
            lines.extend(_strip_blank(_strip_right(line) for line in drawn))
        return lines

    def draw_plain(self, text: str, style: str = "") -> list[Line]:
        """A text as it stands, in one style, without wrapping."""
        return [[Segment(line, self._console.get_style(style))] for line in clean_text(text).split("\n")]

    def encode(self, lines: Sequence[Line]) -> str:
        """The lines with their styles as escape sequences, each ended by a newline."""
        with self._console.capture() as capture:
            self._console.print(
                SegmentLines(lines, new_lines=True), crop=False, overflow="ignore", no_wrap=True, end=""
            )
        return capture.get()


class _ChatMarkdown(Markdown):
    """rich's Markdown from tokens of our own parser, in the look of a chat."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = list(_prepare(tokens))


class _ChatCode(CodeBlock):
    """Code without a frame or background, so that it can be copied as it is."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        syntax = Syntax(code, self.lexer_name, theme="ansi_dark", background_color="default", word_wrap=True)
        yield Padding(syntax, (0, 0, 0, 2))


class _ChatHeading(Heading):
    """A heading where the text begins, not in the middle of the window."""

    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _ChatRule(HorizontalRule):
    """A thin line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style="markdown.hr", characters="─")


class _ChatItem(ListItem):
    """A list's item, with a point after its number."""

    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        width = len(str(last_number)) + 3
        style = console.get_style("markdown.item.number")
        lines = console.render_lines(self.elements, options.update(width=options.max_width - width), style=self.style)
        for index, line in enumerate(lines):
            yield Segment(f"{number}.".rjust(width - 1) + " " if index == 0 else " " * width, style)
            yield from line
            yield Segment("\n")


class _ChatTable(TableElement):
    """A table with a line under its head only."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, style="markdown.table.border")
        for cell in self.header.row.cells if self.header and self.header.row else ():
            table.add_column(cell.content, header_style="markdown.table.header", justify=cell.justify)
        for row in self.body.rows if self.body else ():
            table.add_row(*(cell.content for cell in row.cells))
        yield table


_ChatMarkdown.elements = {
    **Markdown.elements,
    "fence": _ChatCode,
    "code_block": _ChatCode,
    "heading_open": _ChatHeading,
    "hr": _ChatRule,
    "list_item_open": _ChatItem,
    "table_open": _ChatTable,
}


def _split_blocks(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    block: list[Token] = []
    for token in tokens:
        block.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield block
            block = []


def _prepare(tokens: Iterable[Token]) -> Iterator[Token]:
    """Keep what rich would drop or hide, and say where a line may break."""
    for token in tokens:
        if token.children:
            token.children = list(_prepare_inline(token.children))
        yield token


def _prepare_inline(children: Sequence[Token]) -> Iterator[Token]:
    skipped: Token | None = None
    for index, child in enumerate(children):
        if child.type == "text":
            child.content = mark_breaks(child.content)
        elif child.type == "softbreak":
            child.type = "hardbreak"  # in a chat a new line is meant as one
        elif child.type == "image":
            child = Token("text", "", 0, content=mark_breaks(f"[{child.content}]({child.attrs.get('src', '')})"))
        elif child.type == "link_open" and _is_bare_link(children[index : index + 3]):
            skipped = child
            continue
        elif child.type == "link_close" and skipped is not None:
            skipped = None
            continue
        yield child


def _is_bare_link(tokens: Sequence[Token]) -> bool:
    """Whether the link's text is its address, which is then shown once."""
    return len(tokens) == 3 and tokens[2].type == "link_close" and tokens[1].content == tokens[0].attrs.get("href")


def _strip_right(line: Sequence[Segment]) -> Line:
    """The line as it is sent: without rich's padding, which would smear when the window is resized."""
    kept = [segment._replace(text=clean_text(unmark_breaks(segment.text))) for segment in line if not segment.control]
    while kept and not kept[-1].text.strip():
        kept.pop()
    if kept:
        kept[-1] = kept[-1]._replace(text=kept[-1].text.rstrip())
    return kept


def _strip_blank(lines: Iterable[Line]) -> list[Line]:
    kept = list(lines)
    while kept and not kept[-1]:
        kept.pop()
    while kept and not kept[0]:
        kept.pop(0)
    return kept
