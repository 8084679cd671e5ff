"""Falsify: doctored logs, which show that the account notices what it is there for. Pure."""

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum

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
    """The log with one falsehood in it."""
    return _WAYS[falsehood](log)


def _answers(log: RoundLog) -> list[Delivered]:
    """Whole answers to a single message: what happens to one of them concerns no other."""
    texts = [(each, read_bot_text(each.text)) for each in log.delivered]
    return [each for each, text in texts if text.kind is TextKind.ANSWER and text.parts == 1]


def _lose(log: RoundLog) -> RoundLog:
    lost = _answers(log)[0]
    kept = (each for each in log.delivered if (each.chat, each.text) != (lost.chat, lost.text))
    return replace(log, delivered=tuple(kept))


def _disorder(log: RoundLog) -> RoundLog:
    """The last answer of a chat comes first."""
    last = _answers(log)[-1]
    early = replace(last, message_id=0)
    others = (each for each in log.delivered if (each.chat, each.text) != (last.chat, last.text))
    return replace(log, delivered=(early, *others))


def _double(log: RoundLog) -> RoundLog:
    last = _answers(log)[-1]
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
