"""Falsify: doctored logs, which show that the account notices what it is there for. Pure."""

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum

from nanobee.testing.chaos.errors import ChaosError
from nanobee.testing.chaos.log import Delivered, OutRow, RoundLog
from nanobee.testing.chaos.marks import TextKind, note, read_bot_text


class Falsehood(StrEnum):
    """What is done to a log."""

    LOSS = "loss"
    """An answer is taken away."""
    DISORDER = "disorder"
    """Two answers in one chat change places."""
    DOUBLE = "double"
    """An answer stands twice, and no kill explains it."""
    EFFECT = "effect"
    """The `message` tool has said the same twice."""
    TOOL = "tool"
    """A file was edited twice for one message."""


def falsify(log: RoundLog, falsehood: Falsehood) -> RoundLog:
    """The log with one falsehood in it.

    Raises:
        ChaosError: there is nothing in it that could be falsified so.
    """
    return _WAYS[falsehood](log)


def _answers(log: RoundLog) -> list[Delivered]:
    """The answers to a single message that is no command and asked nothing, so that one of them stands for itself."""
    texts = [(each, read_bot_text(each.text)) for each in log.delivered]
    unfit = {said.mark for said in log.said if said.is_control}
    unfit |= {mark for _, text in texts if text.kind is TextKind.QUESTION for mark in text.marks}
    return [
        each
        for each, text in texts
        if text.kind is TextKind.ANSWER and len(text.marks) == 1 and not unfit.intersection(text.marks)
    ]


def _last_answer(log: RoundLog) -> Delivered:
    for answer in reversed(_answers(log)):
        return answer
    raise ChaosError("the last round has no answer to a single message; choose another mode or seed")


def _without(log: RoundLog, lost: Delivered) -> tuple[Delivered, ...]:
    return tuple(each for each in log.delivered if (each.chat, each.text) != (lost.chat, lost.text))


def _lose(log: RoundLog) -> RoundLog:
    return replace(log, delivered=_without(log, _last_answer(log)))


def _disorder(log: RoundLog) -> RoundLog:
    """A later answer of a chat comes first."""
    answers = _answers(log)
    for answer in reversed(answers):
        if any(each.chat == answer.chat and each.text != answer.text for each in answers):
            return replace(log, delivered=(replace(answer, message_id=0), *_without(log, answer)))
    raise ChaosError("the last round has no two answers in one chat; choose another mode or seed")


def _double(log: RoundLog) -> RoundLog:
    last = _last_answer(log)
    copy = replace(last, message_id=log.delivered[-1].message_id + 1)
    return replace(log, delivered=(*log.delivered, copy))


def _effect(log: RoundLog) -> RoundLog:
    said = log.said[0]
    sends = tuple(OutRow(said.chat, note(0, said.mark), "message", "sent") for _ in range(2))
    return replace(log, sends=(*log.sends, *sends))


def _tool(log: RoundLog) -> RoundLog:
    return replace(log, edits={**log.edits, log.said[0].mark: 2})


_WAYS: dict[Falsehood, Callable[[RoundLog], RoundLog]] = {
    Falsehood.LOSS: _lose,
    Falsehood.DISORDER: _disorder,
    Falsehood.DOUBLE: _double,
    Falsehood.EFFECT: _effect,
    Falsehood.TOOL: _tool,
}
