"""Reasoning that a model writes into its text, between tags, split off as it comes in. Without I/O.

Models put it at the beginning: `<think>…</think>answer`. Some never close the tag (then all of it
is reasoning), and some templates open it themselves, so that only the closing tag arrives.
"""

from enum import Enum

from nanobee.chat import Delta, ReasoningDelta, TextDelta

_NAMES = ("think", "thinking", "thought")
_OPENING = tuple(f"<{name}>" for name in _NAMES)
_CLOSING = "</think>"
_FENCE = "```"


def wrap_thought(reasoning: str, text: str) -> str:
    """A message as the model wrote it: its reasoning in tags, then the text."""
    return f"<think>{reasoning}</think>\n\n{text}"


class _State(Enum):
    BEGINNING = "beginning"
    """Nothing but blanks has come: a tag may still open."""
    IMPLIED = "implied"
    """Inside a tag that the template has opened, if at all."""
    THOUGHT = "thought"
    TEXT = "text"


class ThinkTagSplitter:
    """Splits one answer's text."""

    def __init__(self, *, begins_in_thought: bool = False) -> None:
        self._text: list[str] = []
        self._thought: list[str] = []
        self._held = ""
        self._at_line_start = True
        """Whether what is held begins a line of the text."""
        self._closing = _CLOSING
        self._has_closed = False
        """Whether a thought has ended: the blank lines after it belong to the tags."""
        self._state = _State.IMPLIED if begins_in_thought else _State.BEGINNING

    @property
    def text(self) -> str:
        """The answer's text so far."""
        return "".join(self._text)

    @property
    def thought(self) -> str:
        """The reasoning so far."""
        return "".join(self._thought)

    def expect_no_thought(self) -> None:
        """The server sends reasoning apart: no tag has been opened by the template."""
        if self._state is _State.IMPLIED and not self._thought:
            self._state = _State.BEGINNING

    def feed(self, text: str) -> list[Delta]:
        """Take a fragment; what could be the beginning of a tag waits for the next one."""
        self._held += text
        deltas: list[Delta] = []
        while self._held and self._step(deltas):
            pass
        return deltas

    def finish(self, *, is_cut: bool) -> list[Delta]:
        """Nothing follows; `is_cut` says that the output limit ended it."""
        deltas: list[Delta] = []
        held, self._held = self._held, ""
        if self._state is _State.THOUGHT:
            self._think(held, deltas)
        elif self._state is not _State.IMPLIED:
            is_between = self._state is _State.BEGINNING and self._has_closed
            self._write(held.lstrip() if is_between else held, deltas)
        elif is_cut:
            self._think(held, deltas)
        else:
            # No closing tag in a complete answer: the template had opened none.
            thought, self._thought = self.thought, []
            self._write(thought + held, deltas)
        return deltas

    def _step(self, deltas: list[Delta]) -> bool:
        """One move; False where more text is needed."""
        if self._state is _State.TEXT:
            return self._step_text(deltas)
        if self._state is _State.BEGINNING or (self._state is _State.IMPLIED and not self._thought):
            stripped = self._held.lstrip()
            if any(tag.startswith(stripped) for tag in _OPENING) and stripped not in _OPENING:
                return False
            if self._open(stripped):
                return True
            if self._state is _State.BEGINNING:
                self._state = _State.TEXT
                self._held = stripped if self._has_closed else self._held
                return True
        return self._step_thought(deltas)

    def _open(self, stripped: str) -> bool:
        for name, tag in zip(_NAMES, _OPENING, strict=True):
            if stripped.startswith(tag):
                self._held = stripped.removeprefix(tag)
                self._closing = f"</{name}>"
                self._state = _State.THOUGHT
                return True
        return False

    def _step_thought(self, deltas: list[Delta]) -> bool:
        thought, closing, rest = self._held.partition(self._closing)
        if not closing:
            kept = _beginning_of(self._closing, self._held)
            self._think(self._held[: len(self._held) - kept], deltas)
            self._held = self._held[len(self._held) - kept :]
            return False
        self._think(thought, deltas)
        self._held = rest
        self._has_closed = True
        self._state = _State.BEGINNING
        return True

    def _step_text(self, deltas: list[Delta]) -> bool:
        """Give text out line by line: a closing tag alone at a line's beginning ends a thought."""
        line, newline, rest = self._held.partition("\n")
        if self._at_line_start and not self._has_closed:
            if self._held.startswith(_CLOSING) and self.text.count(_FENCE) % 2 == 0:
                # What was taken for text was reasoning. It may have been shown, but it is not the answer.
                self._thought, self._text = self._text, []
                self._held = self._held.removeprefix(_CLOSING)
                self._has_closed = True
                self._state = _State.BEGINNING
                return True
            if not newline and _CLOSING.startswith(line):
                return False
        self._write(line + newline, deltas)
        self._at_line_start = bool(newline)
        self._held = rest
        return bool(newline)

    def _think(self, text: str, deltas: list[Delta]) -> None:
        if text:
            self._thought.append(text)
            deltas.append(ReasoningDelta(text))

    def _write(self, text: str, deltas: list[Delta]) -> None:
        if text:
            self._text.append(text)
            deltas.append(TextDelta(text))


def _beginning_of(tag: str, text: str) -> int:
    """How many characters at the end of `text` may be the beginning of `tag`."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-length:]):
            return length
    return 0
