"""Config syntax: YAML text as nodes with marks, and the syntax faults in our own words.

The parser's own messages quote the text around a fault, and that text may be a secret; so they
are never shown: what is said here is made of the kind of fault and its line.
"""

from typing import TYPE_CHECKING

from nanobee.config_document import Document
from nanobee.phrases import Phrase

if TYPE_CHECKING:
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.nodes import Node

MAX_DEPTH = 32
"""Levels of nesting that a configuration may have."""

TOO_DEEP = Phrase("too many values, or nested too deep", "值过多或嵌套过深")
TAB = Phrase("a tab stands where only blanks may indent", "缩进处出现了制表符，只能用空格")
BAD_CHARACTER = Phrase("a control character stands here", "此处有控制字符")
NO_COLON = Phrase('a ":" is missing, or the line belongs to no key', '缺少 ":"，或该行不属于任何键')
EXTRA_COLON = Phrase(
    'a ": " stands where none can; put a value that holds one in quotes',
    '此处不能出现 ": "；含有它的值请加引号',
)
OPEN_QUOTE = Phrase("a quote that opens here is not closed", "此处开始的引号没有闭合")
OPEN_BRACKET = Phrase(
    'a bracket that opens here is not closed, or a comma is missing; inside brackets, "${{NAME}}" needs quotes',
    '此处开始的括号没有闭合，或缺少逗号；括号内的 "${{NAME}}" 需要引号',
)
BAD_INDENT = Phrase(
    'the line does not fit those above it: its indentation differs, or a ":" is missing',
    '该行与上面各行不一致：缩进不同，或缺少 ":"',
)
BAD_START = Phrase("a value that begins like this stands in quotes", "以此字符开头的值需要加引号")
BAD_ESCAPE = Phrase('an unknown "\\" stands in double quotes; use single quotes', '双引号中有未知的 "\\"；请改用单引号')
NO_ANCHOR = Phrase('"*" begins a value; put it in quotes', '值以 "*" 开头；请加引号')
TWO_DOCUMENTS = Phrase(
    'a second document begins ("---"); one file holds one', '出现第二个文档（"---"）；一个文件只能有一个'
)
SYNTAX = Phrase("is not valid YAML", "不是有效的 YAML")

SYNTAX_PHRASES = (
    ("mapping values are not allowed", EXTRA_COLON, False),
    ("could not find expected ':'", NO_COLON, False),
    ("found unexpected end of stream", OPEN_QUOTE, True),
    ("found unexpected document separator", OPEN_QUOTE, True),
    ("expected ',' or", OPEN_BRACKET, True),
    ("expected the node content", OPEN_BRACKET, False),
    ("expected <block end>", BAD_INDENT, False),
    ("expected '<document start>'", BAD_INDENT, False),
    ("found unknown escape", BAD_ESCAPE, False),
    ("expected escape sequence", BAD_ESCAPE, False),
    ("found undefined alias", NO_ANCHOR, False),
    ("but found another document", TWO_DOCUMENTS, False),
    ("maximum depth", TOO_DEEP, False),
    ("found character", BAD_START, False),
)
"""How the parser's message begins, what is said instead, and whether the fault begins at its context."""


def compose(text: str, document: Document) -> "Node | None":
    """The root node of `text`; None where it is empty, or where a fault was noted in `document`."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml = YAML(typ="safe", pure=True)
    yaml.max_depth = MAX_DEPTH
    yaml.composer.warn_double_anchors = False  # the warning quotes the text
    try:
        root: Node | None = yaml.compose(text)
    except RecursionError:
        document.blame((), TOO_DEEP)
    except YAMLError as error:
        _blame_syntax(text, error, document)
    else:
        return root
    return None


def _blame_syntax(text: str, error: "YAMLError", document: Document) -> None:
    problem = str(getattr(error, "problem", None) or "")
    mark = getattr(error, "problem_mark", None)
    if mark is None:  # the reader's own: a character that no YAML may hold
        position = getattr(error, "position", 0)
        return document.blame((), BAD_CHARACTER, line=text.count("\n", 0, position) + 1)
    lines = text.split("\n")
    line = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())] or line[mark.column : mark.column + 1] == "\t":
        return document.blame((), TAB, line=mark.line + 1)
    if problem.startswith("mapping values") and ":" not in line[: mark.column]:
        above = next((at for at in range(mark.line - 1, -1, -1) if lines[at].split("#")[0].strip()), mark.line)
        return document.blame((), NO_COLON, line=above + 1)
    for beginning, phrase, is_at_context in SYNTAX_PHRASES:
        if problem.startswith(beginning):
            place = (getattr(error, "context_mark", None) or mark) if is_at_context else mark
            return document.blame((), phrase, line=place.line + 1)
    document.blame((), SYNTAX, line=mark.line + 1)
