"""Trust: which of the new facts only a tool or a web page said; they are marked, and never become rules."""

from collections.abc import Iterable

from nanobee.memory.entries import UNVERIFIED, bullet_text, is_fact
from nanobee.memory.transcript import Said
from nanobee.memory.words import overlap, tokens

FROM_TOOL = 0.6
"""Of a fact's tokens that a tool said, from which on it may have it from there."""
FROM_PEOPLE = 0.4
"""Of a fact's tokens that people said, from which on it is theirs."""


class Origins:
    """Who said what in a part of a conversation. What the assistant said counts for nobody: it repeats the others."""

    def __init__(self, said: Iterable[Said]) -> None:
        people: set[str] = set()
        tools: set[str] = set()
        for each in said:
            if each.role != "assistant":
                (tools if each.role == "tool" else people).update(tokens(each.whole or each.text))
        self._people, self._tools = people, tools

    def is_trusted(self, text: str) -> bool:
        """False where only a tool's words are in it."""
        return overlap(text, self._tools) < FROM_TOOL or overlap(text, self._people) >= FROM_PEOPLE

    def mark(self, text: str) -> str:
        """One line of text, marked where only a tool said so."""
        return text if UNVERIFIED in text or self.is_trusted(text) else f"{text.rstrip()} {UNVERIFIED}"

    def mark_new(self, base: str, update: str) -> str:
        """An update of MEMORY.md, whose new facts are marked where only a tool said so."""
        known = set(base.split("\n"))
        lines = [
            self.mark(line) if is_fact(line) and line not in known and bullet_text(line) else line
            for line in update.split("\n")
        ]
        return "\n".join(lines)
