"""What a Messages API request looks like on the wire, without I/O."""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nanobee.chat import ChatMessage, CompletionRequest, Image, Thinking, ToolCall, ToolChoice
from nanobee.messages import Json, JsonObject
from nanobee.providers.anthropic_echo import unpack_blocks
from nanobee.providers.anthropic_models import DEFAULT_MAX_TOKENS, Off, Traits
from nanobee.providers.anthropic_schema import fit_schema
from nanobee.providers.effort import pick_effort
from nanobee.providers.json_reading import read_json

BINDING_BETA = "thinking-binding-controls-2026-08-01"
"""Lets the server drop thinking whose surroundings have changed, where it would refuse the request."""
DEFAULT_BUDGET_TOKENS = 4_096
"""For thinking without a budget, where the API demands one."""
MIN_BUDGET_TOKENS = 1_024
EMPTY_TEXT = "(empty message)"

_CACHED: Json = {"type": "ephemeral"}
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(slots=True)
class _Turn:
    role: str
    blocks: list[dict[str, Json]]


def build_body(request: CompletionRequest, traits: Traits, *, stream: bool, source: str) -> JsonObject:
    """The JSON object of one call. `source` marks the echoes that go back to this server."""
    thinking, effort = _build_thinking(request, traits, source)
    is_off = thinking.get("type") in (Off.DISABLED, Off.BETWEEN_TOOLS)
    system, rest = _split_system(request.messages)
    turns = _build_turns(rest, source, with_thinking=not is_off)
    tools = _build_tools(request, turns)
    _mark_cached(system, tools, turns)
    output: dict[str, Json] = {"effort": effort} if effort else {}
    if request.response_schema is not None:
        output["format"] = {"type": "json_schema", "schema": fit_schema(request.response_schema)}
    takes_temperature = traits.takes_temperature and (is_off or not thinking)
    fields: Mapping[str, Json] = {
        "model": request.model,
        "max_tokens": _max_tokens(request, traits, thinking),
        "system": system,
        "tools": tools,
        "tool_choice": _build_choice(request, traits) if tools else None,
        "messages": [{"role": turn.role, "content": turn.blocks} for turn in turns],
        "thinking": thinking,
        "output_config": output,
        "metadata": {"user_id": request.user} if request.user else None,
        "stream": stream,
    }
    body = {name: value for name, value in fields.items() if value}
    if request.temperature is not None and takes_temperature:
        body["temperature"] = min(request.temperature, 1.0)
    return body


def _max_tokens(request: CompletionRequest, traits: Traits, thinking: JsonObject) -> int:
    """The limit, which the API demands, and which a budget for thinking must not reach."""
    limit = request.max_tokens or min(DEFAULT_MAX_TOKENS, traits.max_tokens)
    budget = thinking.get("budget_tokens")
    return limit + budget if isinstance(budget, int) and budget >= limit else limit


def build_headers(traits: Traits) -> Mapping[str, str]:
    """The headers that belong to one call."""
    return {"anthropic-beta": BINDING_BETA} if traits.binds_thinking else {}


def _split_system(messages: Sequence[ChatMessage]) -> tuple[list[dict[str, Json]], Sequence[ChatMessage]]:
    """The system prompt's blocks, and the messages after it."""
    count = next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))
    blocks = [_text_block(message.content) for message in messages[:count] if message.content.strip()]
    return blocks, messages[count:]


def _build_turns(messages: Sequence[ChatMessage], source: str, *, with_thinking: bool) -> list[_Turn]:
    """Messages as the API wants them: roles alternate, results stand at the beginning of the user's."""
    turns: list[_Turn] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _build_blocks(message, source, with_thinking=with_thinking)
        if turns and turns[-1].role == role:
            turns[-1].blocks += blocks
        elif blocks:
            turns.append(_Turn(role, blocks))
    return turns


def _build_blocks(message: ChatMessage, source: str, *, with_thinking: bool) -> list[dict[str, Json]]:
    if message.role == "assistant":
        calls = [_build_call(call) for call in message.tool_calls]
        return [dict(block) for block in unpack_blocks(message, source, calls, with_thinking=with_thinking)]
    if message.role == "tool":
        result: dict[str, Json] = {"type": "tool_result", "tool_use_id": _call_id(message.tool_call_id or "")}
        return [{**result, "content": message.content} if message.content.strip() else result]
    text = _text_block(message.content if message.content.strip() else EMPTY_TEXT)
    return [*(_image_block(image) for image in message.images), text]


def _image_block(image: Image) -> dict[str, Json]:
    data = b64encode(image.data).decode("ascii")
    return {"type": "image", "source": {"type": "base64", "media_type": image.mime_type, "data": data}}


def _text_block(text: str) -> dict[str, Json]:
    return {"type": "text", "text": text}


def _build_call(call: ToolCall) -> JsonObject:
    arguments = read_json(call.arguments)
    name = _NOT_IN_IDS.sub("_", call.name)[:128] or "_"
    arguments = arguments if isinstance(arguments, dict) else {}
    return {"type": "tool_use", "id": _call_id(call.id), "name": name, "input": arguments}


def _call_id(call_id: str) -> str:
    return _NOT_IN_IDS.sub("_", call_id) or "_"


def _build_tools(request: CompletionRequest, turns: Sequence[_Turn]) -> list[dict[str, Json]]:
    """The tools; where none are offered, those that the history names, since it may name no others."""
    if request.tools:
        return [
            {"name": tool.name, "description": tool.description, "input_schema": _as_json(tool.parameters)}
            for tool in request.tools
        ]
    names = {str(block["name"]) for turn in turns for block in turn.blocks if block["type"] == "tool_use"}
    return [{"name": name, "input_schema": {"type": "object"}} for name in sorted(names)]


def _build_choice(request: CompletionRequest, traits: Traits) -> JsonObject | None:
    if not request.tools or request.tool_choice is ToolChoice.NONE:
        return {"type": "none"}
    if request.tool_choice is ToolChoice.FORCED and traits.takes_forced_call:
        return {"type": "tool", "name": request.tools[0].name}
    return None


def _build_thinking(request: CompletionRequest, traits: Traits, source: str) -> tuple[dict[str, Json], str | None]:
    """The field `thinking`, empty where the default stays, and the effort."""
    wanted = request.thinking
    if wanted is not None and not wanted.is_on:
        if traits.off is Off.NEVER:
            return _adaptive(traits), "low"
        return ({} if traits.off is Off.OMITTED else {"type": traits.off.value}), None
    if wanted is None:
        # Said aloud, the default streams a summary: a silence of minutes would look like a hung server.
        return (_adaptive(traits) if traits.thinks_by_default else {}), None
    if traits.is_adaptive and not (traits.takes_budget and wanted.budget_tokens):
        return _adaptive(traits), pick_effort(wanted.budget_tokens) if wanted.budget_tokens else None
    is_possible = request.tool_choice is not ToolChoice.FORCED and not _has_thoughtless_step(request.messages, source)
    return (_budgeted(wanted) if traits.takes_budget and is_possible else {}), None


def _adaptive(traits: Traits) -> dict[str, Json]:
    thinking: dict[str, Json] = {"type": "adaptive", "display": "summarized"}
    if traits.binds_thinking:
        thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    return thinking


def _budgeted(wanted: Thinking) -> dict[str, Json]:
    budget = max(wanted.budget_tokens or DEFAULT_BUDGET_TOKENS, MIN_BUDGET_TOKENS)
    return {"type": "enabled", "budget_tokens": budget}


def _has_thoughtless_step(messages: Sequence[ChatMessage], source: str) -> bool:
    """Whether the tool turn under way has a step without thinking: budgeted thinking cannot begin in its middle."""
    if not messages or messages[-1].role != "tool":
        return False
    for message in reversed(messages):
        if message.role == "user":
            return False
        if message.role == "assistant" and (message.echo is None or message.echo.source != source):
            return True
    return False


def _mark_cached(system: Sequence[dict[str, Json]], tools: Sequence[dict[str, Json]], turns: Sequence[_Turn]) -> None:
    """Cache what comes again: tools and system, and the history up to the last two user messages."""
    if system or tools:
        (system or tools)[-1]["cache_control"] = _CACHED
    if len(turns) > 1 or tools:
        # The one before last is what the previous request has cached; a lookup from the last one
        # alone reaches 20 blocks back only.
        for turn in [turn for turn in turns if turn.role == "user"][-2:]:
            turn.blocks[-1]["cache_control"] = _CACHED


def _as_json(schema: Mapping[str, object]) -> JsonObject:
    """A schema is JSON by construction; its type says less."""
    return schema  # type: ignore[return-value]
