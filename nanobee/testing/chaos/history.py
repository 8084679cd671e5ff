"""History: what the fake model reads out of a request, as a careful model would. Pure.

It does for each message what that message asks for, once: whatever it finds done in the history is
not done again, and where the outcome of an edit is unknown it looks first.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nanobee.testing.chaos import marks
from nanobee.testing.chaos.marks import FREE

Call = tuple[str, dict[str, object]]
Message = Mapping[str, Any]
LAST_LINE = "END"
"""Of every file that the tools edit: an edit puts a line before it, so made twice it shows."""
_PENDING = "Pending #"
_EDITED = "Edited "


@dataclass(slots=True)
class History:
    """The messages of one request."""

    wanted: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """What each message asks for."""
    covered: set[int] = field(default_factory=set)
    """Messages that were answered."""
    noted: set[int] = field(default_factory=set)
    edits: dict[int, bool] = field(default_factory=dict)
    """Edits that were begun; False where nobody knows whether they took effect."""
    asked: dict[int, dict[str, str | None]] = field(default_factory=dict)
    """The questions of a message, with their answers."""

    @property
    def open(self) -> list[int]:
        """The messages that this turn has to answer, in their order."""
        return [mark for mark in self.wanted if mark not in self.covered and not self._is_pending(mark)]

    @property
    def answering(self) -> list[int]:
        """The open messages, and those that answered their questions."""
        answers = [text for mark in self.open for text in self.asked.get(mark, {}).values() if text]
        return sorted({*self.open, *(mark for text in answers for mark in marks.read_answering(text))})

    @property
    def kind(self) -> str:
        """What the newest open message asks for."""
        return self.wanted[self.open[-1]][0] if self.open else "plain"

    @property
    def argument(self) -> str:
        """Of what the newest open message asks for."""
        return self.wanted[self.open[-1]][1]

    def is_newest(self, mark: int) -> bool:
        """Whether nobody has said anything since that message."""
        return mark == next(reversed(self.wanted))

    def _is_pending(self, mark: int) -> bool:
        return None in self.asked.get(mark, {}).values()

    def next_calls(self, serial: int) -> Iterator[Call]:
        """The calls that are still to be made for the open messages."""
        for mark in self.open:
            words = self.wanted[mark]
            if words[0] in ("tools", "steered"):
                yield from self._edit(mark, f"{words[1]}.txt")
            if words[0] == "tools" and mark not in self.noted:
                yield "message", {"text": marks.note(serial, mark)}
            if words[0] == "ask" and mark not in self.asked:
                yield from _ask(serial, mark, words[1:])

    def _edit(self, mark: int, path: str) -> Iterator[Call]:
        is_sure = self.edits.get(mark)
        if is_sure is None:
            if self.wanted[mark][0] == "tools":
                yield "list_dir", {"path": "."}
                yield "read_file", {"path": path}
            yield "edit_file", {"path": path, "old_text": LAST_LINE, "new_text": f"{marks.said(mark)}\n{LAST_LINE}"}
        elif not is_sure:
            yield "read_file", {"path": path}


def _ask(serial: int, mark: int, wanted: Sequence[str]) -> Iterator[Call]:
    for text, word in zip(marks.questions(serial, mark, wanted), wanted, strict=True):
        offered = {"choices": marks.choices(word)} if word != FREE else {}
        yield "ask_user", {"question": text, **offered}


def read_history(messages: Sequence[Message]) -> History:
    """Read a request's messages."""
    history = History()
    calls: dict[str, Call] = {}
    for message in messages:
        content = str(message.get("content") or "")
        match message.get("role"):
            case "user":
                history.wanted |= {mark: words or ("plain",) for mark, words in marks.read_said(content)}
            case "assistant":
                calls |= _calls(message)
                if not message.get("tool_calls"):
                    history.covered |= set(marks.read_marks(content))
            case "tool":
                _take_result(history, *calls[str(message["tool_call_id"])], content)
    return history


def _calls(message: Message) -> dict[str, Call]:
    found = [(call["id"], call["function"]) for call in message.get("tool_calls") or ()]
    return {call_id: (function["name"], json.loads(function["arguments"])) for call_id, function in found}


def _take_result(history: History, name: str, arguments: dict[str, object], content: str) -> None:
    match name:
        case "message":
            history.noted |= set(marks.read_marks(str(arguments["text"])))
        case "edit_file":
            [mark] = marks.read_marks(str(arguments["new_text"]))
            history.edits[mark] = content.startswith(_EDITED)
        case "read_file":
            _look(history, content)
        case "ask_user":
            asked = marks.read_question(str(arguments["question"]))
            if asked is not None:
                is_pending = content.startswith(_PENDING)
                history.asked.setdefault(asked[0], {})[asked[1]] = None if is_pending else content


def _look(history: History, content: str) -> None:
    """What a file shows of edits whose outcome was unknown."""
    seen = set(marks.read_marks(content))
    for mark in [mark for mark, is_sure in history.edits.items() if not is_sure]:
        if mark in seen:
            history.edits[mark] = True
        else:
            del history.edits[mark]
