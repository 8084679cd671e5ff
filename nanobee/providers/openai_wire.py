"""What a chat-completions request looks like on the wire, without I/O."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from nanobee.arguments import clean_text
from nanobee.chat import ChatMessage, CompletionRequest, ToolChoice, ToolSpec
from nanobee.messages import Json, JsonObject


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where one server's API differs from the next one's."""

    max_tokens_field: str = "max_tokens"
    reasoning_field: str | None = None
    """The key under which it wants its own reasoning back; most refuse or ignore any."""


_DIALECTS: Mapping[str, Dialect] = {
    "api.openai.com": Dialect(max_tokens_field="max_completion_tokens"),
}


def find_dialect(host: str) -> Dialect:
    """The dialect of the server at `host`; the common one where nothing else is known."""
    return _DIALECTS.get(host, Dialect())


def build_body(request: CompletionRequest, dialect: Dialect, *, stream: bool) -> JsonObject:
    """The JSON object of one call."""
    body: dict[str, Json] = {
        "model": request.model,
        "messages": [build_message(message, dialect) for message in request.messages],
    }
    if stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [_build_tool(tool) for tool in request.tools]
        if request.tool_choice is ToolChoice.FORCED:
            body["tool_choice"] = {"type": "function", "function": {"name": request.tools[0].name}}
        elif request.tool_choice is ToolChoice.NONE:
            body["tool_choice"] = "none"
    if request.response_schema is not None:
        schema = _as_json(request.response_schema)
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    if request.max_tokens is not None:
        body[dialect.max_tokens_field] = request.max_tokens
    if request.temperature is not None:
        body["temperature"] = request.temperature
    return body


def build_message(message: ChatMessage, dialect: Dialect) -> JsonObject:
    """One entry of `messages`."""
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content}
    entry: dict[str, Json] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        entry["content"] = message.content or None
        entry["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.reasoning and dialect.reasoning_field and message.role == "assistant":
        entry[dialect.reasoning_field] = message.reasoning
    return entry


def encode_body(body: JsonObject) -> bytes:
    """The bytes of a request: valid UTF-8, no half of a character in it."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return clean_text(text).encode("utf-8")


def _build_tool(tool: ToolSpec) -> Json:
    parameters = _as_json(tool.parameters)
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def _as_json(schema: Mapping[str, object]) -> JsonObject:
    """A schema is JSON by construction; its type says less."""
    return schema  # type: ignore[return-value]
