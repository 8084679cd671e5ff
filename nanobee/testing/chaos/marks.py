"""Marks: the numbers in what people and the model say, by which an account is kept of both. Pure.

A person's message is `m17z` and what the model shall do with it. Each text of the model begins
with a serial number of the completion that it comes from, names the messages that it covers and ends
with `over.`: so a copy, a second answer and half of an answer can be told apart.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

END = "over."
_FIRST_CHOICE, _OTHER_CHOICE = "a", "b"
_SAID = re.compile(r"^(?:\[[^\]\n]*\] )?m(\d+)z(?: ([a-z0-9 ]+))?$", re.MULTILINE)
_MARK = re.compile(r"m(\d+)z")
_ANSWERING = re.compile(r"\bm(\d+)z|^a(\d+)$")
_ANSWER = re.compile(rf"#(\d+) covers((?: m\d+z)*), part (\d+) of (\d+)\. .*{re.escape(END)}", re.DOTALL)
_NOTE = re.compile(rf"#(\d+) notes m(\d+)z\. {re.escape(END)}")
_QUESTION = re.compile(r"#(\d+) asks (\w+) of m(\d+)z, part (\d+) of (\d+)\?")
_BEGINNING = re.compile(r"#\d+(?:\s(\w*)|$)")
_QUESTION_ID = re.compile(r"^\(#(\w+):", re.MULTILINE)
FREE = "free"
"""In place of a choice: any text answers."""


class TextKind(StrEnum):
    """What a message of the bot is."""

    ANSWER = "answer"
    """One part of the final text of a turn."""
    FRAGMENT = "fragment"
    """The beginning of a text of the model: a streamed message that nobody completed."""
    NOTE = "note"
    """Said by the `message` tool."""
    QUESTION = "question"
    NOTICE = "notice"
    """The gateway's own words."""


@dataclass(frozen=True, slots=True)
class BotText:
    """A message of the bot, as it is understood."""

    kind: TextKind
    serial: int = 0
    """Of the completion that it comes from; 0 for a notice."""
    marks: tuple[int, ...] = ()
    """The messages that it covers, notes or asks about."""
    part: int = 1
    parts: int = 1
    wanted: str = ""
    """Of a question: the choice that answers it, or `free`."""
    question_id: str = ""


def said(mark: int, *words: str) -> str:
    """What a person says under a mark."""
    return " ".join([f"m{mark}z", *words])


def choice(mark: int) -> str:
    """The word that a person answers with, where a question offers it; it counts as `mark`."""
    return f"{_FIRST_CHOICE}{mark}"


def choices(wanted: str) -> list[str]:
    """What a question offers: the wanted word and another one, or nothing where any text will do."""
    return [] if wanted == FREE else [wanted, _OTHER_CHOICE + wanted[1:]]


def read_said(content: str) -> list[tuple[int, tuple[str, ...]]]:
    """The marks with their words in what people said, quoted lines left out."""
    return [(int(match[1]), tuple((match[2] or "").split())) for match in _SAID.finditer(content)]


def read_marks(text: str) -> list[int]:
    """Every mark that occurs."""
    return [int(mark) for mark in _MARK.findall(text)]


def read_answering(text: str) -> list[int]:
    """The mark of an answer to a question, by its mark or its choice."""
    return [int(mark or chosen) for mark, chosen in _ANSWERING.findall(text)]


def answer(serial: int, marks: Iterable[int], fillers: Sequence[str] = ("",)) -> str:
    """The final text of a turn: one paragraph, and in a split message one part, for each filler."""
    covered = "".join(f" m{mark}z" for mark in marks)
    heads = [f"#{serial} covers{covered}, part {part} of {len(fillers)}." for part in range(1, len(fillers) + 1)]
    return "\n\n".join(" ".join(filter(None, (head, filler, END))) for head, filler in zip(heads, fillers, strict=True))


def note(serial: int, mark: int) -> str:
    """What the `message` tool is told to say."""
    return f"#{serial} notes m{mark}z. {END}"


def questions(serial: int, mark: int, wanted: Sequence[str]) -> list[str]:
    """What a person is asked, one question for each wanted answer."""
    return [f"#{serial} asks {each} of m{mark}z, part {part} of {len(wanted)}?" for part, each in enumerate(wanted, 1)]


def read_question(text: str) -> tuple[int, str] | None:
    """The mark and the wanted answer of a question of the model."""
    found = _QUESTION.search(text)
    return None if found is None else (int(found[3]), found[2])


def read_bot_text(text: str) -> BotText:
    """Understand a message of the bot."""
    if match := _ANSWER.fullmatch(text):
        marks = tuple(read_marks(match[2]))
        return BotText(TextKind.ANSWER, int(match[1]), marks, int(match[3]), int(match[4]))
    if match := _NOTE.fullmatch(text):
        return BotText(TextKind.NOTE, int(match[1]), (int(match[2]),))
    if match := _QUESTION.match(text):
        found = _QUESTION_ID.search(text)
        question_id = found[1] if found else ""
        serial, wanted, mark, part, parts = match.groups()
        return BotText(TextKind.QUESTION, int(serial), (int(mark),), int(part), int(parts), wanted, question_id)
    match = _BEGINNING.match(text)
    is_fragment = match is not None and "covers".startswith(match[1] or "")
    return BotText(TextKind.FRAGMENT if is_fragment else TextKind.NOTICE)
