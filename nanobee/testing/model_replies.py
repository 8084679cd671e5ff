"""Scripted answers of the model server: what is sent, in which pieces, and when."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import anyio

RequestBody = Mapping[str, Any]
"""The JSON object of one recorded request."""


class Break(Enum):
    """An end of a reply that a healthy server would not make."""

    CUT = "cut"
    """The connection is reset."""
    HANG = "hang"
    """Nothing follows until the client goes away."""


Piece = bytes | anyio.Event | float | Break
"""One step of a reply: bytes to write at once, an event to wait for, seconds to wait, or a break."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> RequestBody:
        """The body's object; empty where it is none."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """Its `messages`."""
        messages = self.json.get("messages")
        return messages if isinstance(messages, list) else []


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes over the wire for one request."""

    pieces: tuple[Piece, ...]
    content_type: str = "text/event-stream"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    is_chunked: bool = True
    """Whether HTTP frames it; without, the end of the connection is the end of the body."""
    loses_next: bool = False
    """The connection looks as if it were kept, but the next request in it is lost, as at llama.cpp."""
    calls: tuple[tuple[str, str], ...] = ()
    """Name and arguments of its tool calls, for rule R8."""
    reasoning: str = ""
    blocks: tuple[Mapping[str, Any], ...] = ()
    """The content of a Messages API answer, for rule M5."""


@dataclass(slots=True, eq=False)
class Reply:
    """One scripted reply; it answers the first request that it matches."""

    build: Callable[[RequestBody], Answer]
    when: Callable[[RequestBody], bool] | None = None
    times: int | None = 1
    """How many requests it answers; None for all."""
    hold: anyio.Event | None = None
    """Waited for before anything is sent."""
    asked: anyio.Event = field(default_factory=anyio.Event)
    """Set when its first request has come."""


def build_answer(
    request: RequestBody,
    *,
    text: str | None = None,
    calls: Sequence[tuple[str, str]] = (),
    reasoning: str = "",
    finish: str | None = None,
    call_ids: Sequence[str] | None = None,
) -> Answer:
    """A well-formed answer, as a stream if the request asks for one, else as one JSON object."""
    ids = call_ids or [f"call_{len(request.get('messages', ()))}_{at}" for at in range(len(calls))]
    finish = finish or ("tool_calls" if calls else "stop")
    model = str(request.get("model", ""))
    tokens = len(text or "") // 4 + 1
    usage = {"prompt_tokens": len(json.dumps(request)) // 4, "completion_tokens": tokens, "total_tokens": 0}
    usage["total_tokens"] = usage["prompt_tokens"] + tokens
    entries = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, (name, arguments) in zip(ids, calls, strict=True)
    ]
    if not request.get("stream"):
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if entries:
            message["tool_calls"] = entries
        if reasoning:
            message["reasoning_content"] = reasoning
        choice = {"index": 0, "message": message, "finish_reason": finish}
        whole = {"id": "answer", "object": "chat.completion", "model": model, "choices": [choice], "usage": usage}
        return Answer((json.dumps(whole).encode(),), "application/json", calls=tuple(calls), reasoning=reasoning)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": word} for word in _words(reasoning)]
    deltas += [{"content": word} for word in _words(text or "")]
    deltas += [{"tool_calls": [{"index": at, **entry}]} for at, entry in enumerate(entries)]
    pieces: list[Piece] = [build_event({"delta": delta}, model) for delta in deltas]
    pieces.append(build_event({"delta": {}, "finish_reason": finish}, model))
    tail = {"id": "answer", "object": "chat.completion.chunk", "model": model, "choices": [], "usage": usage}
    pieces += [b"data: " + json.dumps(tail).encode() + b"\n\n", b"data: [DONE]\n\n"]
    return Answer(tuple(pieces), calls=tuple(calls), reasoning=reasoning)


def build_event(choice: Mapping[str, Any], model: str = "") -> bytes:
    """One streamed chunk with one choice."""
    chunk = {
        "id": "answer",
        "object": "chat.completion.chunk",
        "model": model,
        "choices": [{"index": 0, "finish_reason": None, **choice}],
    }
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


def build_echo(request: RequestBody) -> Answer:
    """The answer of a server without a script: the last user message's text."""
    texts = [message.get("content") for message in request.get("messages", ()) if message.get("role") == "user"]
    last = texts[-1] if texts else ""
    return build_answer(request, text=f"echo: {last}")


def _words(text: str) -> list[str]:
    """The text in pieces that give it back when joined."""
    words = text.split(" ")
    return [word + " " for word in words[:-1]] + [words[-1]] if text else []
