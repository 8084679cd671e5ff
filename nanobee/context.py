"""Context: system prompt and history as the messages of one call, within a budget, always legal.

Legal means, for whatever stands in the session: an assistant message has text or calls; each call
is answered exactly once, directly after it; the history begins with a user message; roles
alternate; arguments are one JSON object. History is shaped on a copy, the lines stay as they are.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nanobee.arguments import parse_arguments
from nanobee.bus.lines import Line, LineKind
from nanobee.chat import ChatMessage, ToolCall
from nanobee.clock import Clock
from nanobee.errors import ToolError
from nanobee.sessions.session import Session

HISTORY_SHARE = 0.6
"""The part of the model's window that history may fill."""
WINDOW_JUMP_SHARE = 0.5
"""A history over its budget is cut to this part of it, so that the next turns keep their prompt cache."""
BYTES_PER_TOKEN = 3.5
"""A cautious estimate for English, code and CJK alike, without a tokenizer's download."""
MESSAGE_TOKENS = 6
"""What each message costs beside its text."""
UNKNOWN_OUTCOME = (
    "Outcome unknown: the process ended while this call ran. It may have taken effect, in whole or in part. "
    "Check before you repeat it."
)


def estimate_tokens(text: str) -> int:
    """Roughly how many tokens `text` costs."""
    return int(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN) + 1


@dataclass(frozen=True, slots=True)
class Exchange:
    """A user message, and everything up to the next one."""

    seq: int
    """Of its first line."""
    user: ChatMessage
    steps: tuple[tuple[ChatMessage, ...], ...]
    """Each an assistant message with the results of its calls."""

    @property
    def tokens(self) -> int:
        """Estimated cost of the whole exchange."""
        return _tokens(self.user) + sum(_step_tokens(step) for step in self.steps)


def build_context(
    system: str, session: Session, context_tokens: int, clock: Clock | None = None
) -> tuple[ChatMessage, ...]:
    """The messages of one call: the system prompt, then as much history as the budget takes.

    The newest user message is always in. `clock` puts the time at which each user message was
    sent before its text; None leaves it out.
    """
    budget = int(context_tokens * HISTORY_SHARE)
    exchanges = list(read_exchanges(session.lines, clock, session.window_start))
    kept = _fit(exchanges, budget)
    if kept:
        session.window_start = kept[0].seq
    messages = [ChatMessage("system", system)] if system else []
    for exchange in kept:
        messages.append(exchange.user)
        for step in exchange.steps:
            messages += step
    return tuple(messages)


def _fit(exchanges: Sequence[Exchange], budget: int) -> Sequence[Exchange]:
    sizes = [exchange.tokens for exchange in exchanges]
    if sum(sizes) <= budget:
        return exchanges
    goal = int(budget * WINDOW_JUMP_SHARE)
    first = len(exchanges) - 1
    total = sizes[first]
    while first > 0 and total + sizes[first - 1] <= goal:
        first -= 1
        total += sizes[first]
    kept = list(exchanges[first:])
    if len(kept) == 1 and total > budget:
        kept[0] = _shorten(kept[0], budget)
    return kept


def _shorten(exchange: Exchange, budget: int) -> Exchange:
    """Drop an exchange's oldest steps: its user message and its newest step stay."""
    steps = list(exchange.steps)
    total = _tokens(exchange.user) + sum(_step_tokens(step) for step in steps)
    while len(steps) > 1 and total > budget:
        total -= _step_tokens(steps.pop(0))
    return replace(exchange, steps=tuple(steps))


def _tokens(message: ChatMessage) -> int:
    calls = sum(estimate_tokens(call.arguments) + MESSAGE_TOKENS for call in message.tool_calls)
    return estimate_tokens(message.content) + MESSAGE_TOKENS + calls


def _step_tokens(step: Sequence[ChatMessage]) -> int:
    return sum(_tokens(message) for message in step)


def read_exchanges(lines: Sequence[Line], clock: Clock | None = None, start: int = 0) -> Iterator[Exchange]:
    """The exchanges that stand in a session's lines from `seq` `start` on."""
    seq = 0
    user: ChatMessage | None = None
    steps: list[list[ChatMessage]] = []
    for line in lines:
        if line.seq < start or line.kind not in (LineKind.MESSAGE, LineKind.RECORD):
            continue
        role = line.data.get("role", "assistant")
        if role == "user":
            text = _user_text(line, clock)
            answered = _legal(steps)
            steps = []
            if user is not None and not answered:
                # A turn that failed left its message unanswered: both are read as one.
                user = replace(user, content=f"{user.content}\n\n{text}")
                continue
            if user is not None:
                yield Exchange(seq, user, answered)
            seq, user = line.seq, ChatMessage("user", text)
        elif user is not None and role == "assistant":
            steps.append([_assistant(line)])
        elif steps and role == "tool":
            steps[-1].append(_tool(line))
    if user is not None:
        yield Exchange(seq, user, _legal(steps))


def _user_text(line: Line, clock: Clock | None) -> str:
    text = _text(line.data, "content")
    quoted = _text(line.data, "quoted")
    if quoted:
        marked = "\n".join(f"> {row}" for row in quoted.splitlines())
        text = f"{marked}\n\n{text}"
    if clock is None:
        return text or "(empty message)"
    name = _text(line.data, "name")
    stamp = clock.local(line.at).strftime("%Y-%m-%d %H:%M")
    return f"[{stamp}{f' {name}' if name else ''}] {text}"


def _assistant(line: Line) -> ChatMessage:
    calls = []
    found = line.data.get("tool_calls")
    for call in found if isinstance(found, list) else []:
        if isinstance(call, Mapping) and call.get("id") and call.get("name"):
            calls.append(ToolCall(str(call["id"]), str(call["name"]), legal_arguments(call.get("arguments"))))
    return ChatMessage(
        "assistant", _text(line.data, "content"), tuple(calls), reasoning=_text(line.data, "reasoning") or None
    )


def _tool(line: Line) -> ChatMessage:
    return ChatMessage("tool", _text(line.data, "content"), tool_call_id=_text(line.data, "tool_call_id"))


def _text(data: Mapping[str, object], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def legal_arguments(arguments: object) -> str:
    """The arguments of a call as a request may carry them: the text of one JSON object.

    What was loosely written (an object inside a string, a list of one) is set right as the
    registry does it; anything else becomes `{}`.
    """
    if not isinstance(arguments, str):
        return "{}"
    try:
        whole = parse_arguments(arguments)
    except ToolError:
        return "{}"
    return json.dumps(whole, ensure_ascii=False)


def _legal(steps: Sequence[Sequence[ChatMessage]]) -> tuple[tuple[ChatMessage, ...], ...]:
    legal: list[tuple[ChatMessage, ...]] = []
    seen: set[str] = set()
    for assistant, *results in steps:
        calls = tuple(call for call in assistant.tool_calls if call.id not in seen)
        calls = tuple({call.id: call for call in calls}.values())
        seen.update(call.id for call in calls)
        if not calls and not assistant.content.strip():
            continue
        if not calls and legal and len(legal[-1]) == 1:
            # Two texts in a row (the second came from elsewhere) are read as one.
            last = legal[-1][0]
            legal[-1] = (replace(last, content=f"{last.content}\n\n{assistant.content}"),)
            continue
        answers = {result.tool_call_id: result for result in reversed(results)}
        unknown = ChatMessage("tool", UNKNOWN_OUTCOME)
        legal.append(
            (
                replace(assistant, tool_calls=calls),
                *(replace(answers.get(call.id, unknown), tool_call_id=call.id) for call in calls),
            )
        )
    return tuple(legal)
