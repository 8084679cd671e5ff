"""StrictHistory: what the strictest chat-completions servers demand of a request's messages.

R1  an assistant message has text or a tool call; null content only beside tool calls
R2  each tool message answers a call of the assistant message before its group, each call is
    answered exactly once, and all are before the next message that is not a tool's
R3  the first message that is not a system message is a user's
R4  call ids are unique in the request
R5  each call's arguments are one JSON object
R6  the body is UTF-8 JSON without halves of characters
R7  (switch) roles alternate: no two user messages in a row
R8  (switch) an assistant message with tool calls carries the reasoning that it came with
R9  (switch) no image data from before the current user message
R10 (switch) no message has a key that the API does not know
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_KNOWN_KEYS = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "refusal"})
_SYSTEM = ("system", "developer")

Message = Mapping[str, Any]


@dataclass(slots=True)
class StrictHistory:
    """Checks request bodies; the switches are off unless asked for."""

    alternate: bool = False
    reasoning: bool = False
    old_images: bool = False
    known_keys: bool = False
    _reasoning_of: dict[str, str] = field(default_factory=dict)

    def remember(self, calls: Sequence[tuple[str, str]], reasoning: str) -> None:
        """Note the reasoning that was sent with these calls, given as name and arguments (for R8)."""
        if calls and reasoning:
            self._reasoning_of[_signature(calls)] = reasoning

    def check(self, body: bytes) -> tuple[str, ...]:
        """The rules that a request breaks, each as one line; empty where it is legal."""
        try:
            request = json.loads(body.decode("utf-8"))
        except ValueError:
            return ("R6: the body is not UTF-8 JSON",)
        messages = request.get("messages") if isinstance(request, dict) else None
        if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
            return ("R6: the body has no list of messages",)
        return tuple(self._problems(request, messages))

    def _problems(self, request: Message, messages: Sequence[Message]) -> Iterator[str]:
        if has_half_character(request):
            yield "R6: a text holds half of a character"
        yield from _check_assistants(messages)
        yield from _check_groups(messages)
        yield from _check_calls(messages)
        first = next((message for message in messages if message.get("role") not in _SYSTEM), None)
        if first is None or first.get("role") != "user":
            yield f"R3: the first message is {'missing' if first is None else first.get('role')}, not user"
        if self.alternate:
            yield from _check_alternation(messages)
        if self.reasoning:
            yield from self._check_reasoning(messages)
        if self.old_images:
            yield from _check_images(messages)
        if self.known_keys:
            for at, message in enumerate(messages):
                for key in sorted(message.keys() - _KNOWN_KEYS):
                    yield f"R10: message {at} has the unknown key {key}"

    def _check_reasoning(self, messages: Sequence[Message]) -> Iterator[str]:
        for at, message in enumerate(messages):
            calls = [
                (call.get("function", {}).get("name", ""), call.get("function", {}).get("arguments", ""))
                for call in message.get("tool_calls") or ()
            ]
            wanted = self._reasoning_of.get(_signature(calls)) if calls else None
            found = [message.get(key) for key in ("reasoning_content", "reasoning")]
            is_tagged = wanted is not None and f"<think>{wanted}</think>" in str(message.get("content"))
            if wanted is not None and wanted not in found and not is_tagged:
                yield f"R8: message {at} has lost the reasoning that its tool calls came with"


def _signature(calls: Sequence[tuple[str, str]]) -> str:
    """What tells an assistant message apart, since its ids may be renamed."""
    return json.dumps(sorted(calls))


def _check_assistants(messages: Sequence[Message]) -> Iterator[str]:
    for at, message in enumerate(messages):
        if message.get("role") != "assistant" or message.get("tool_calls"):
            continue
        content = message.get("content")
        text = content if isinstance(content, str) else json.dumps(content or "")
        if content is None or not text.strip() or text == '""':
            yield f"R1: message {at} is an assistant's without text or tool calls"


def _check_groups(messages: Sequence[Message]) -> Iterator[str]:
    open_calls: list[str] = []
    may_answer = False
    for at, message in enumerate(messages):
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if not may_answer or call_id not in open_calls:
                yield f"R2: message {at} answers no open call of the assistant message before it"
            else:
                open_calls.remove(str(call_id))
            continue
        if open_calls:
            yield f"R2: message {at} comes before {len(open_calls)} call(s) were answered"
        calls = message.get("tool_calls") or ()
        open_calls = [str(call.get("id")) for call in calls]
        may_answer = bool(open_calls)
    if open_calls:
        yield f"R2: {len(open_calls)} call(s) at the end were not answered"


def _check_calls(messages: Sequence[Message]) -> Iterator[str]:
    seen: set[str] = set()
    for at, message in enumerate(messages):
        for call in message.get("tool_calls") or ():
            call_id = call.get("id")
            if not isinstance(call_id, str) or not call_id or call_id in seen:
                yield f"R4: a call in message {at} has no id of its own"
            seen.add(str(call_id))
            if not _is_object(call.get("function", {}).get("arguments")):
                yield f"R5: a call in message {at} has arguments that are not one JSON object"


def _check_alternation(messages: Sequence[Message]) -> Iterator[str]:
    before = None
    for at, message in enumerate(messages):
        role = message.get("role")
        if role == "user" == before:
            yield f"R7: message {at} is the second user message in a row"
        before = role


def _check_images(messages: Sequence[Message]) -> Iterator[str]:
    current = max((at for at, message in enumerate(messages) if message.get("role") == "user"), default=0)
    for at, message in enumerate(messages[:current]):
        if "data:image/" in json.dumps(message.get("content")):
            yield f"R9: message {at} holds image data from an earlier turn"


def _is_object(arguments: object) -> bool:
    if not isinstance(arguments, str):
        return False
    try:
        return isinstance(json.loads(arguments), dict)
    except ValueError:
        return False


def has_half_character(value: object) -> bool:
    """Whether any string has a surrogate in it; JSON escapes can hide one from the UTF-8 check."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
