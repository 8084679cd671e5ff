"""The pages that people read, taken apart."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

README_NAMES = ("README.md", "README.zh-CN.md")
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    language: str
    text: str
    """Without the indentation of the list that it stands in."""


def read_blocks(page: Path, language: str = "") -> list[Block]:
    """The fenced blocks of a page, all or those of one language."""
    blocks = []
    for indentation, word, text in _FENCE.findall(page.read_text(encoding="utf-8")):
        lines = [line.removeprefix(indentation) for line in text.splitlines()]
        blocks.append(Block(word, "\n".join(lines) + "\n"))
    return [block for block in blocks if language in ("", block.language)]


def read_links(page: Path) -> list[str]:
    """Where the page's links lead."""
    return _LINK.findall(page.read_text(encoding="utf-8"))


def read_anchors(page: Path) -> set[str]:
    """The anchors of the page's headings, as GitHub makes them."""
    prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def read_commands(page: Path) -> list[str]:
    """The shell lines of the page, without comments."""
    lines = [line for block in read_blocks(page, "sh") for line in block.text.splitlines()]
    commands = [re.sub(r"\s+#.*", "", line).strip() for line in lines]
    return [command for command in commands if command]


def read_tree(page: Path) -> Iterator[tuple[PurePosixPath, str]]:
    """Path and description of each line of the page's tree listing; a line deeper by two blanks is inside."""
    (tree,) = [block for block in read_blocks(page, "text") if "\nnanobee/ " in block.text]
    parents: list[str] = []
    for line in tree.text.splitlines():
        name, description = line.split(maxsplit=1)
        depth = (len(line) - len(line.lstrip())) // 2
        parents[depth:] = [name.rstrip("/")]
        yield PurePosixPath(*parents), description
