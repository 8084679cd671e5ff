"""Scripted answers of the Messages API: blocks of content as a stream of events, or whole."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nanobee.testing.model_replies import Answer, Piece, RequestBody

Block = Mapping[str, Any]
"""One content block of a message."""


def text_block(text: str) -> Block:
    """Text."""
    return {"type": "text", "text": text}


def thinking_block(text: str, signature: str = "") -> Block:
    """Thinking, sealed; the signature is made of the text where none is given."""
    return {"type": "thinking", "thinking": text, "signature": signature or f"sealed-{len(text)}-{text[-8:]}"}


def redacted_block(data: str) -> Block:
    """Thinking that only its maker can read."""
    return {"type": "redacted_thinking", "data": data}


def call_block(name: str, arguments: Mapping[str, Any], call_id: str) -> Block:
    """A tool call."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": dict(arguments)}


def build_message(request: RequestBody, blocks: Sequence[Block], *, stop_reason: str | None = None) -> Answer:
    """A well-formed answer, as a stream if the request asks for one, else as one JSON object."""
    stop_reason = stop_reason or ("tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn")
    model = str(request.get("model", ""))
    usage: dict[str, Any] = {
        "input_tokens": len(json.dumps(request)) // 4,
        "cache_read_input_tokens": 0,
        "output_tokens": 1,
    }
    output: dict[str, Any] = {"output_tokens": len(json.dumps(blocks)) // 4 + 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model}
    if not request.get("stream"):
        whole = {**message, "content": blocks, "stop_reason": stop_reason, "usage": usage | output}
        return Answer((json.dumps(whole).encode(),), "application/json", blocks=tuple(blocks))
    pieces: list[Piece] = [
        build_event("message_start", message={**message, "content": [], "stop_reason": None, "usage": usage}),
        build_event("ping"),
    ]
    for index, block in enumerate(blocks):
        pieces += build_block(index, block)
    pieces += [
        build_event("message_delta", delta={"stop_reason": stop_reason, "stop_sequence": None}, usage=output),
        build_event("message_stop"),
    ]
    return Answer(tuple(pieces), blocks=tuple(blocks))


def build_block(index: int, block: Block) -> list[Piece]:
    """The events of one block."""
    start: dict[str, Any]
    match block["type"]:
        case "text":
            start, deltas = {"type": "text", "text": ""}, _deltas("text_delta", "text", block["text"])
        case "thinking":
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = _deltas("thinking_delta", "thinking", block["thinking"])
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "tool_use":
            start = {**block, "input": {}}
            deltas = _deltas("input_json_delta", "partial_json", json.dumps(block["input"], ensure_ascii=False))
        case _:
            start, deltas = dict(block), []
    return [
        build_event("content_block_start", index=index, content_block=start),
        *(build_event("content_block_delta", index=index, delta=delta) for delta in deltas),
        build_event("content_block_stop", index=index),
    ]


def build_event(kind: str, **fields: Any) -> bytes:
    """One streamed event."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields}, ensure_ascii=False)}\n\n".encode()


def build_error(kind: str, message: str = "no") -> Mapping[str, Any]:
    """The body of a refusal."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def _deltas(kind: str, key: str, text: str) -> list[dict[str, Any]]:
    half = len(text) // 2
    return [{"type": kind, key: piece} for piece in (text[:half], text[half:]) if piece]
