"""What a chat-completions request looks like on the wire, without I/O."""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b

from nanobee.chat import ChatMessage, CompletionRequest, Thinking, ToolCall, ToolChoice, ToolSpec
from nanobee.messages import Json, JsonObject
from nanobee.providers.dialect import COMMON, Dialect, ThinkingSwitch, find_dialect
from nanobee.providers.effort import pick_effort
from nanobee.providers.openai_echo import read_echo
from nanobee.providers.request_body import encode_body
from nanobee.providers.think_tags import wrap_thought

__all__ = ["COMMON", "Dialect", "build_body", "build_messages", "encode_body", "find_dialect"]

SHORT_ID_CHARS = 9


def build_body(request: CompletionRequest, dialect: Dialect, *, stream: bool, source: str = "") -> JsonObject:
    """The JSON object of one call. `source` marks the echoes that go back to this server."""
    body: dict[str, Json] = {"model": request.model, "messages": build_messages(request.messages, dialect, source)}
    if stream:
        body["stream"] = True
        if dialect.takes_stream_options:
            body["stream_options"] = {"include_usage": True}
    tools = request.tools
    if tools and (request.tool_choice is not ToolChoice.NONE or dialect.takes_no_call):
        body["tools"] = [_build_tool(tool) for tool in tools]
        if request.tool_choice is ToolChoice.FORCED and dialect.takes_forced_call:
            body["tool_choice"] = {"type": "function", "function": {"name": tools[0].name}}
        elif request.tool_choice is ToolChoice.NONE:
            body["tool_choice"] = "none"
    if request.response_schema is not None:
        schema = _as_json(request.response_schema)
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    if request.max_tokens is not None:
        body[dialect.max_tokens_field] = request.max_tokens
    if request.user and dialect.user_field:
        body[dialect.user_field] = request.user
    body.update(_build_thinking(request.thinking, dialect, has_tools="tools" in body))
    is_off = body.get("reasoning_effort") == "none"
    if request.temperature is not None and (dialect.takes_temperature or is_off):
        body["temperature"] = request.temperature
    return body


def build_messages(messages: Sequence[ChatMessage], dialect: Dialect, source: str = "") -> Sequence[JsonObject]:
    """The entries of `messages`."""
    return [
        _build_message(message, dialect, source, is_tool_turn=is_tool_turn)
        for message, is_tool_turn in _with_tool_turns(messages)
    ]


def _with_tool_turns(messages: Sequence[ChatMessage]) -> Iterator[tuple[ChatMessage, bool]]:
    """Each message, and whether tools were called between the user messages around it."""
    turn: list[ChatMessage] = []
    for message in (*messages, ChatMessage("user")):
        if message.role == "user":
            is_tool_turn = any(each.tool_calls for each in turn)
            yield from ((each, is_tool_turn) for each in turn)
            turn = []
        turn.append(message)


def _build_message(message: ChatMessage, dialect: Dialect, source: str, *, is_tool_turn: bool) -> JsonObject:
    if message.role == "tool":
        call_id = _call_id(message.tool_call_id or "", dialect)
        return {"role": "tool", "tool_call_id": call_id, "content": message.content}
    if message.role != "assistant":
        return {"role": message.role, "content": _build_parts(message) if message.images else message.content}
    content = message.content
    if message.reasoning and dialect.wants_think_tags and is_tool_turn:
        content = wrap_thought(message.reasoning, content)
    entry: dict[str, Json] = {"role": "assistant", "content": content}
    echo = read_echo(message.echo, source)
    if message.tool_calls:
        entry["content"] = content or None
        entry["tool_calls"] = [
            _build_call(call, dialect, echo.call_extras.get(place)) for place, call in enumerate(message.tool_calls)
        ]
    if dialect.wants_details and echo.details:
        entry["reasoning_details"] = echo.details
    elif dialect.reasoning_field and is_tool_turn:
        reasoning = message.reasoning or (dialect.reasoning_filler if message.tool_calls else "")
        if reasoning:
            entry[dialect.reasoning_field] = reasoning
    return entry


def _build_parts(message: ChatMessage) -> list[Json]:
    pictures: list[Json] = []
    for image in message.images:
        data = b64encode(image.data).decode("ascii")
        pictures.append({"type": "image_url", "image_url": {"url": f"data:{image.mime_type};base64,{data}"}})
    return [{"type": "text", "text": message.content}, *pictures]


def _build_call(call: ToolCall, dialect: Dialect, extra: Json) -> JsonObject:
    entry: dict[str, Json] = {
        "id": _call_id(call.id, dialect),
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    if dialect.wants_call_extras:
        entry["extra_content"] = extra or {"google": {"thought_signature": dialect.call_extras_filler}}
    return entry


def _call_id(call_id: str, dialect: Dialect) -> str:
    if not dialect.has_short_call_ids:
        return call_id
    return blake2b(call_id.encode("utf-8", "replace")).hexdigest()[:SHORT_ID_CHARS]


def _build_thinking(thinking: Thinking | None, dialect: Dialect, *, has_tools: bool) -> Mapping[str, Json]:
    """The fields that switch thinking; none where the server's default stays."""
    if has_tools and dialect.tools_effort is not None:
        return {"reasoning_effort": dialect.tools_effort}
    if thinking is None:
        return {}
    budget = thinking.budget_tokens
    level: Mapping[str, Json] = {"reasoning_effort": pick_effort(budget)}
    match dialect.thinking:
        case ThinkingSwitch.EFFORT:
            return level if thinking.is_on else {"reasoning_effort": dialect.off_effort}
        case ThinkingSwitch.TYPE:
            switch: Mapping[str, Json] = {"thinking": {"type": "enabled" if thinking.is_on else "disabled"}}
            return {**switch, **level} if budget and dialect.takes_effort else switch
        case ThinkingSwitch.ADAPTIVE:
            return {"thinking": {"type": "adaptive" if thinking.is_on else "disabled"}}
        case ThinkingSwitch.ENABLE:
            return {"enable_thinking": thinking.is_on, **({"thinking_budget": budget} if budget else {})}
        case ThinkingSwitch.TEMPLATE:
            return {"chat_template_kwargs": {"enable_thinking": thinking.is_on}}
        case ThinkingSwitch.REASONING:
            return {"reasoning": {"max_tokens": budget} if budget else {"enabled": thinking.is_on}}
        case ThinkingSwitch.NONE:
            return {}


def _build_tool(tool: ToolSpec) -> Json:
    parameters = _as_json(tool.parameters)
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def _as_json(schema: Mapping[str, object]) -> JsonObject:
    """A schema is JSON by construction; its type says less."""
    return schema  # type: ignore[return-value]
