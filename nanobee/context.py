"""Context: system prompt and history as the messages of one call, within a budget.

What does not fit goes in this order: old tool results (a line says how to read them), then the
oldest exchanges, then the oldest steps of the newest exchange. Each cut is made in a jump, so
that the next turns find their prompt cache. The newest user message is always in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nanobee.chat import ChatMessage, Image
from nanobee.clock import Clock
from nanobee.exchanges import Exchange, read_exchanges
from nanobee.messages import Attachment
from nanobee.sessions.session import Session

WINDOW_JUMP_SHARE = 0.5
"""A history over its budget is cut to this part of it."""
BYTES_PER_TOKEN = 3.5
"""A cautious estimate for English, code and CJK alike, without a tokenizer's download."""
MESSAGE_TOKENS = 6
"""What each message costs beside its text."""
VERBATIM_EXCHANGES = 2
"""The newest exchanges, whose tool results are never left out."""
MAX_OLD_RESULT_CHARS = 400
"""A longer old result is left out once the budget is passed."""
LEFT_OUT = "[{chars} characters left out; read_result(call_id={call_id!r}) shows them]"
SUMMARY = "[Summary of the conversation so far]\n{summary}\n[End of the summary]\n\n{text}"


def estimate_tokens(text: str) -> int:
    """Roughly how many tokens `text` costs."""
    return int(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN) + 1


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
        """The messages with pictures, and a note about them, at the newest user message."""
        place = max(index for index, message in enumerate(self.messages) if message.role == "user")
        user = self.messages[place]
        shown = replace(user, images=tuple(images), content=f"{user.content}\n{note}" if note else user.content)
        return (*self.messages[:place], shown, *self.messages[place + 1 :])


def build_context(system: str, session: Session, budget: Budget, clock: Clock | None = None) -> Context:
    """The messages of one call: the system prompt, then as much history as the budget takes.

    `clock` puts the time at which each user message was sent before its text; None leaves it
    out. What had to be left out is remembered in the session.
    """
    exchanges = list(read_exchanges(session.lines, clock, session.history_start))
    if budget.turns is not None:
        exchanges = exchanges[-budget.turns :]
    kept = _fit(exchanges, session, budget.tokens)
    messages = [ChatMessage("system", system)] if system else []
    for place, exchange in enumerate(kept):
        messages.append(_with_summary(exchange.user, session.summary) if place == 0 else exchange.user)
        for step in exchange.steps:
            messages += step
    return Context(tuple(messages), sum(_tokens(message) for message in messages), tuple(kept))


def _with_summary(user: ChatMessage, summary: str | None) -> ChatMessage:
    return user if summary is None else replace(user, content=SUMMARY.format(summary=summary, text=user.content))


def _fit(exchanges: Sequence[Exchange], session: Session, budget: int) -> Sequence[Exchange]:
    kept = [_without_old_results(each) if each.seq < session.pruned_before else each for each in exchanges]
    if sum(map(exchange_tokens, kept)) > budget and len(kept) > VERBATIM_EXCHANGES:
        session.pruned_before = kept[-VERBATIM_EXCHANGES].seq
        kept = [_without_old_results(each) if each.seq < session.pruned_before else each for each in exchanges]
    sizes = [exchange_tokens(each) for each in kept]
    if sum(sizes) > budget:
        first = _first_that_fits(sizes, int(budget * WINDOW_JUMP_SHARE))
        kept, sizes = kept[first:], sizes[first:]
        session.window_start = kept[0].seq
    if len(kept) == 1 and sizes[0] > budget:
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
    return replace(exchange, steps=tuple(tuple(map(_left_out, step)) for step in exchange.steps))


def _left_out(message: ChatMessage) -> ChatMessage:
    if message.role != "tool" or len(message.content) <= MAX_OLD_RESULT_CHARS:
        return message
    return replace(message, content=LEFT_OUT.format(chars=len(message.content), call_id=message.tool_call_id))


def _shorten(exchange: Exchange, budget: int) -> Exchange:
    """Drop an exchange's oldest steps: its user message and its newest step stay."""
    steps = list(exchange.steps)
    total = exchange_tokens(exchange)
    while len(steps) > 1 and total > budget:
        total -= sum(map(_tokens, steps.pop(0)))
    return replace(exchange, steps=tuple(steps))


def exchange_tokens(exchange: Exchange) -> int:
    """Estimated cost of the whole exchange."""
    return _tokens(exchange.user) + sum(_tokens(message) for step in exchange.steps for message in step)


def _tokens(message: ChatMessage) -> int:
    calls = sum(estimate_tokens(call.arguments) + MESSAGE_TOKENS for call in message.tool_calls)
    return estimate_tokens(message.content) + MESSAGE_TOKENS + calls
