"""Context: system prompt and history as the messages of one call, within a budget.

What does not fit goes in this order: old tool results (a line says how to read them), then the
oldest exchanges, then the oldest steps of the newest exchange. Each cut is made in a jump, so
that the next turns find their prompt cache. The newest user message is always in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nanobee.chat import ChatMessage, Image
from nanobee.clock import Clock
from nanobee.exchanges import Exchange, ExchangeReader, create_exchange, message_tokens
from nanobee.messages import Attachment
from nanobee.sessions.session import Session

WINDOW_JUMP_SHARE = 0.5
"""A history over its budget is cut to this part of it."""
VERBATIM_EXCHANGES = 2
"""The newest exchanges, whose tool results are never left out."""
MAX_OLD_RESULT_CHARS = 400
"""A longer old result is left out once the budget is passed."""
LEFT_OUT = "[{chars} characters left out; read_result(call_id={call_id!r}) shows them]"
SUMMARY = "[Summary of the conversation so far]\n{summary}\n[End of the summary]\n\n{text}"


@dataclass(frozen=True, slots=True)
class Budget:
    """What the history of one call may cost."""

    tokens: int
    """Estimated tokens; see `estimate_tokens`."""
    turns: int | None = None
    """Exchanges at most."""


@dataclass(frozen=True, slots=True)
class Context:
    """The messages of one call."""

    messages: tuple[ChatMessage, ...]
    tokens: int
    """Their estimated cost."""
    exchanges: tuple[Exchange, ...]
    """The history in them."""

    @property
    def pictures(self) -> tuple[Attachment, ...]:
        """Those of the newest exchange: older ones are named in the history, not shown again."""
        return self.exchanges[-1].pictures if self.exchanges else ()

    def with_images(self, images: Sequence[Image], note: str = "") -> tuple[ChatMessage, ...]:
        """The messages with pictures, and a note, at the newest user message."""
        place = max(index for index, message in enumerate(self.messages) if message.role == "user")
        user = self.messages[place]
        shown = replace(user, images=tuple(images), content=f"{user.content}\n{note}" if note else user.content)
        return (*self.messages[:place], shown, *self.messages[place + 1 :])


class History:
    """A session's exchanges, read once and kept while the session only grows."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock
        self._reader = ExchangeReader(clock)
        self._revision = -1
        self._fed = 0
        self._pruned: dict[int, Exchange] = {}

    def read(self, session: Session) -> list[Exchange]:
        """The exchanges that may stand in a context."""
        if session.revision != self._revision:
            self._reader, self._pruned = ExchangeReader(self.clock), {}
            self._revision, self._fed = session.revision, 0
        for line in session.lines[self._fed :]:
            self._reader.feed(line)
        self._fed = len(session.lines)
        return [each for each in self._reader.exchanges() if each.seq >= session.history_start]

    def prune(self, exchange: Exchange) -> Exchange:
        """The exchange without long tool results."""
        if exchange.seq not in self._pruned:
            self._pruned[exchange.seq] = _without_old_results(exchange)
        return self._pruned[exchange.seq]


def build_context(
    system: str, session: Session, budget: Budget, clock: Clock | None = None, history: History | None = None
) -> Context:
    """The messages of one call: the system prompt, then as much history as the budget takes.

    `clock` puts the time at which each user message was sent before its text; None leaves it
    out. What had to be left out is remembered in the session. `history` is what an earlier call
    has read of the session, with the same clock.
    """
    history = history or History(clock)
    exchanges = history.read(session)
    if budget.turns is not None:
        exchanges = exchanges[-budget.turns :]
    kept = _fit(exchanges, session, history, budget.tokens)
    messages = [ChatMessage("system", system)] if system else []
    tokens = sum(map(message_tokens, messages)) + sum(each.tokens for each in kept)
    for place, exchange in enumerate(kept):
        messages.append(_with_summary(exchange.user, session.summary) if place == 0 else exchange.user)
        for step in exchange.steps:
            messages += step
    return Context(tuple(messages), tokens, tuple(kept))


def _with_summary(user: ChatMessage, summary: str | None) -> ChatMessage:
    return user if summary is None else replace(user, content=SUMMARY.format(summary=summary, text=user.content))


def _fit(exchanges: Sequence[Exchange], session: Session, history: History, budget: int) -> Sequence[Exchange]:
    def prune() -> list[Exchange]:
        return [history.prune(each) if each.seq < session.pruned_before else each for each in exchanges]

    kept = prune()
    if sum(each.tokens for each in kept) > budget and len(kept) > VERBATIM_EXCHANGES:
        session.pruned_before = kept[-VERBATIM_EXCHANGES].seq
        kept = prune()
    if sum(each.tokens for each in kept) > budget:
        kept = kept[_first_that_fits([each.tokens for each in kept], int(budget * WINDOW_JUMP_SHARE)) :]
        session.window_start = kept[0].seq
    if len(kept) == 1 and kept[0].tokens > budget:
        kept[0] = _shorten(kept[0], budget)
    return kept


def _first_that_fits(sizes: Sequence[int], goal: int) -> int:
    first = len(sizes) - 1
    total = sizes[first]
    while first > 0 and total + sizes[first - 1] <= goal:
        first -= 1
        total += sizes[first]
    return first


def _without_old_results(exchange: Exchange) -> Exchange:
    steps = tuple(tuple(map(_left_out, step)) for step in exchange.steps)
    return (
        exchange if steps == exchange.steps else create_exchange(exchange.seq, exchange.user, steps, exchange.pictures)
    )


def _left_out(message: ChatMessage) -> ChatMessage:
    if message.role != "tool" or len(message.content) <= MAX_OLD_RESULT_CHARS:
        return message
    return replace(message, content=LEFT_OUT.format(chars=len(message.content), call_id=message.tool_call_id))


def _shorten(exchange: Exchange, budget: int) -> Exchange:
    """Drop an exchange's oldest steps: its user message and its newest step stay."""
    steps = list(exchange.steps)
    total = exchange.tokens
    while len(steps) > 1 and total > budget:
        total -= sum(map(message_tokens, steps.pop(0)))
    return create_exchange(exchange.seq, exchange.user, tuple(steps), exchange.pictures)
