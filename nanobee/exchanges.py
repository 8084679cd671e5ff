"""Exchanges: a session's lines as user messages with what followed each, legal whatever stands in them.

Legal means: an assistant message has text or calls; each call is answered exactly once, directly
after it; the history begins with a user message; roles alternate; arguments are one JSON object.
History is shaped on a copy, the lines stay as they are.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from nanobee.arguments import parse_arguments
from nanobee.bus.lines import Line, LineKind
from nanobee.chat import ChatMessage, Echo, ToolCall
from nanobee.clock import Clock
from nanobee.errors import ToolError
from nanobee.messages import Attachment
from nanobee.tokens import estimate_tokens

UNKNOWN_OUTCOME = (
    "Outcome unknown: the process ended while this call ran. It may have taken effect, in whole or in part. "
    "Check before you repeat it."
)

MESSAGE_TOKENS = 6
"""What each message costs beside its text."""
PICTURE = "image"
"""The kind of attachment that a model can look at."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A user message, and everything up to the next one."""

    seq: int
    """Of its first line."""
    user: ChatMessage
    steps: tuple[tuple[ChatMessage, ...], ...]
    """Each an assistant message with the results of its calls."""
    pictures: tuple[Attachment, ...] = ()
    """By reference: those that came with the message, and those that its tools looked at."""
    tokens: int = 0
    """Estimated cost of the whole exchange."""


def create_exchange(
    seq: int,
    user: ChatMessage,
    steps: tuple[tuple[ChatMessage, ...], ...],
    pictures: Sequence[Attachment] = (),
) -> Exchange:
    """An exchange with its cost counted."""
    tokens = message_tokens(user) + sum(message_tokens(message) for step in steps for message in step)
    return Exchange(seq, user, steps, tuple(pictures), tokens)


def message_tokens(message: ChatMessage) -> int:
    """Estimated cost of one message."""
    calls = sum(estimate_tokens(call.arguments) + MESSAGE_TOKENS for call in message.tool_calls)
    thought = estimate_tokens(message.reasoning) if message.reasoning else 0
    return estimate_tokens(message.content) + MESSAGE_TOKENS + calls + thought


class ExchangeReader:
    """Reads a session's lines as they come; what it has read is not read again."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.closed: list[Exchange] = []
        """The exchanges that a later user message has ended."""
        self._clock = clock
        self._seq = 0
        self._user: ChatMessage | None = None
        self._steps: list[list[ChatMessage]] = []
        self._pictures: list[Attachment] = []
        self._seen: set[str] = set()

    def feed(self, line: Line) -> None:
        """Read the next line."""
        if line.kind not in (LineKind.MESSAGE, LineKind.RECORD):
            return
        role = line.data.get("role", "assistant")
        if role == "user":
            self._begin(line)
        elif self._user is not None and role == "assistant":
            self._steps.append([_assistant(line)])
        elif self._steps and role == "tool":
            self._steps[-1].append(_tool(line))
        self._pictures += (each for each in _attachments(line) if each.kind == PICTURE)

    def _begin(self, line: Line) -> None:
        text = _user_text(line, self._clock)
        answered, ids = _legal(self._steps, self._seen)
        if self._user is not None and not answered:
            # A turn that failed left its message unanswered: both are read as one.
            self._user = replace(self._user, content=f"{self._user.content}\n\n{text}")
        else:
            if self._user is not None:
                self.closed.append(create_exchange(self._seq, self._user, answered, self._pictures))
                self._seen |= ids
            self._seq, self._user, self._pictures = line.seq, ChatMessage("user", text), []
        self._steps = []

    def exchanges(self) -> list[Exchange]:
        """All that was read, the newest one as far as it goes."""
        if self._user is None:
            return list(self.closed)
        answered, _ = _legal(self._steps, self._seen)
        return [*self.closed, create_exchange(self._seq, self._user, answered, self._pictures)]


def _attachments(line: Line) -> list[Attachment]:
    found = line.data.get("attachments")
    if not isinstance(found, list):
        return []
    return [
        Attachment(str(each.get("kind", "file")), str(each.get("name", "file")), str(each["path"]))
        for each in found
        if isinstance(each, Mapping) and each.get("path")
    ]


def _user_text(line: Line, clock: Clock | None) -> str:
    text = _text(line.data, "content")
    quoted = _text(line.data, "quoted")
    if quoted:
        marked = "\n".join(f"> {row}" for row in quoted.splitlines())
        text = f"{marked}\n\n{text}"
    text = "\n".join([*([text] if text else []), *(f"[{each.kind}: {each.path}]" for each in _attachments(line))])
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
        "assistant",
        _text(line.data, "content"),
        tuple(calls),
        reasoning=_text(line.data, "reasoning") or None,
        echo=_echo(line.data.get("echo")),
    )


def _echo(found: object) -> Echo | None:
    if not isinstance(found, Mapping) or not isinstance(found.get("source"), str):
        return None
    return Echo(found["source"], found.get("data"))


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


def _legal(
    steps: Sequence[Sequence[ChatMessage]], seen: Collection[str]
) -> tuple[tuple[tuple[ChatMessage, ...], ...], set[str]]:
    """The steps as a request may carry them, and the ids of their calls; `seen` are those of the exchanges before."""
    legal: list[tuple[ChatMessage, ...]] = []
    ids: set[str] = set()
    for assistant, *results in steps:
        calls = tuple(
            {call.id: call for call in assistant.tool_calls if call.id not in seen and call.id not in ids}.values()
        )
        ids.update(call.id for call in calls)
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
    return tuple(legal), ids
