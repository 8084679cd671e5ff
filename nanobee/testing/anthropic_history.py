"""StrictMessages: what the Messages API demands of a request.

M1  the first message is a user's, and roles alternate; there are no others
M2  no message is empty, no text blank
M3  each tool call is answered once in the next message, whose results come first
M4  calls have ids of their own, in the API's letters, and objects as input
M5  thinking comes back as it was sent: none is changed, and a tool turn under way has lost none
M6  the body is UTF-8 JSON without halves of characters
M7  `max_tokens` is there, and larger than a budget for thinking
M8  at most four places are cached, none of them thinking
M9  tools are defined where the history has calls; a choice needs tools
M10 (switch) thinking whose surroundings have changed is refused, unless it may be dropped
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nanobee.testing.strict_history import has_half_character

Json = Mapping[str, Any]

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_THINKING = ("thinking", "redacted_thinking")
MAX_CACHED = 4


@dataclass(slots=True)
class StrictMessages:
    """Checks request bodies; remembers what was sent, and after which beginning."""

    binds_thinking: bool = False
    _sealed: dict[str, str] = field(default_factory=dict)
    """By thinking block, the beginning of the request that it was made for."""
    _thinking_of: dict[str, list[Json]] = field(default_factory=dict)
    """By the calls of a message, the thinking that came with them."""

    def remember(self, body: Json, blocks: Sequence[Json]) -> None:
        """Note the blocks that were sent in answer to a request."""
        thinking = [block for block in blocks if block["type"] in _THINKING]
        for block in thinking:
            self._sealed[_written(block)] = _beginning(body, len(body["messages"]))
        calls = _calls(blocks)
        if calls and thinking:
            self._thinking_of[_signature(calls)] = thinking

    def check(self, raw: bytes) -> tuple[str, ...]:
        """The rules that a request breaks, each as one line; empty where it is legal."""
        try:
            body = json.loads(raw.decode("utf-8"))
        except ValueError:
            return ("M6: the body is not UTF-8 JSON",)
        messages = body.get("messages") if isinstance(body, dict) else None
        if not isinstance(messages, list) or not messages:
            return ("M6: the body has no messages",)
        return tuple(self._problems(body, messages))

    def _problems(self, body: Json, messages: Sequence[Json]) -> Iterator[str]:
        if has_half_character(body):
            yield "M6: a text holds half of a character"
        yield from _check_roles(messages)
        yield from _check_texts(body, messages)
        yield from _check_results(messages)
        yield from _check_ids(messages)
        yield from self._check_thinking(body, messages)
        yield from _check_limits(body)
        yield from _check_cache(body, messages)
        yield from _check_tools(body, messages)

    def _check_thinking(self, body: Json, messages: Sequence[Json]) -> Iterator[str]:
        thinking = body.get("thinking") or {}
        may_drop = (thinking.get("block_binding") or {}).get("prefix_mismatch_behavior") == "drop_block"
        for at, message in enumerate(messages):
            blocks = [block for block in _blocks(message) if block["type"] in _THINKING]
            for block in blocks:
                beginning = self._sealed.get(_written(block))
                if beginning is None:
                    yield f"M5: message {at} has thinking that was never sent"
                elif self.binds_thinking and not may_drop and beginning != _beginning(body, at):
                    yield f"M10: message {at} has thinking that is bound to another conversation"
            wanted = self._thinking_of.get(_signature(_calls(_blocks(message))), [])
            is_under_way = all(_is_results(later) for later in messages[at + 1 :] if later["role"] == "user")
            if is_under_way and thinking.get("type") != "disabled" and wanted != blocks and wanted:
                yield f"M5: message {at} has lost thinking that its calls came with"


def _check_roles(messages: Sequence[Json]) -> Iterator[str]:
    expected = "user"
    for at, message in enumerate(messages):
        if message.get("role") != expected:
            yield f"M1: message {at} is {message.get('role')}, not {expected}"
            return
        expected = "assistant" if expected == "user" else "user"


def _check_texts(body: Json, messages: Sequence[Json]) -> Iterator[str]:
    for at, message in enumerate(messages):
        if not _blocks(message):
            yield f"M2: message {at} is empty"
        if any(not block["text"].strip() for block in _blocks(message) if block["type"] == "text"):
            yield f"M2: message {at} has a blank text"
    system = body.get("system")
    if any(not block["text"].strip() for block in (system if isinstance(system, list) else ())):
        yield "M2: the system prompt has a blank text"


def _check_results(messages: Sequence[Json]) -> Iterator[str]:
    open_calls: list[str] = []
    for at, message in enumerate(messages):
        results = [block["tool_use_id"] for block in _blocks(message) if block["type"] == "tool_result"]
        if sorted(results) != sorted(open_calls):
            yield f"M3: message {at} answers {results}, not {open_calls}"
        kinds = [block["type"] == "tool_result" for block in _blocks(message)]
        if kinds != sorted(kinds, reverse=True):
            yield f"M3: message {at} has something before its results"
        open_calls = [block["id"] for block in _calls(_blocks(message))]
    if open_calls:
        yield f"M3: {len(open_calls)} call(s) at the end were not answered"


def _check_ids(messages: Sequence[Json]) -> Iterator[str]:
    seen: set[str] = set()
    for at, message in enumerate(messages):
        for block in _calls(_blocks(message)):
            if block["id"] in seen or not _ID.fullmatch(block["id"]) or not _ID.fullmatch(block["name"]):
                yield f"M4: a call in message {at} has no id or name as it must be"
            seen.add(block["id"])
            if not isinstance(block["input"], dict):
                yield f"M4: a call in message {at} has no object as its input"


def _check_limits(body: Json) -> Iterator[str]:
    limit, thinking = body.get("max_tokens"), body.get("thinking") or {}
    if not isinstance(limit, int) or limit < 1:
        yield "M7: there is no max_tokens"
    elif thinking.get("type") == "enabled" and not 1_024 <= thinking.get("budget_tokens", 0) < limit:
        yield "M7: the budget for thinking is not between 1024 and max_tokens"


def _check_cache(body: Json, messages: Sequence[Json]) -> Iterator[str]:
    system = body.get("system")
    blocks = [*body.get("tools", ()), *(system if isinstance(system, list) else ())]
    blocks += [block for message in messages for block in _blocks(message)]
    cached = [block for block in blocks if "cache_control" in block]
    if len(cached) > MAX_CACHED:
        yield f"M8: {len(cached)} places are to be cached"
    if any(block.get("type") in _THINKING for block in cached):
        yield "M8: thinking is to be cached"


def _check_tools(body: Json, messages: Sequence[Json]) -> Iterator[str]:
    has_calls = any(_calls(_blocks(message)) for message in messages)
    if has_calls and not body.get("tools"):
        yield "M9: the history has calls, but no tools are defined"
    choice = body.get("tool_choice")
    if choice and not body.get("tools"):
        yield "M9: a tool is chosen, but none is defined"
    if choice and choice.get("type") in ("tool", "any") and (body.get("thinking") or {}).get("type") == "enabled":
        yield "M9: a call is forced while the model thinks on a budget"


def _blocks(message: Json) -> Sequence[Json]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _calls(blocks: Sequence[Json]) -> Sequence[Json]:
    return [block for block in blocks if block["type"] == "tool_use"]


def _is_results(message: Json) -> bool:
    return all(block["type"] == "tool_result" for block in _blocks(message))


def _signature(calls: Sequence[Json]) -> str:
    """What tells a message's calls apart, since their ids may be renamed."""
    return json.dumps([(call["name"], call["input"]) for call in calls], sort_keys=True)


def _written(block: Json) -> str:
    return json.dumps(block, sort_keys=True)


def _beginning(body: Json, count: int) -> str:
    """All that stands before a message, without marks for the cache and without thinking."""

    def plain(block: Json) -> Json:
        return {key: value for key, value in block.items() if key != "cache_control"}

    messages = [
        [plain(block) for block in _blocks(message) if block["type"] not in _THINKING]
        for message in body["messages"][:count]
    ]
    system = body.get("system")
    system = [plain(block) for block in system] if isinstance(system, list) else system
    return json.dumps([system, [plain(tool) for tool in body.get("tools", ())], messages], sort_keys=True)
