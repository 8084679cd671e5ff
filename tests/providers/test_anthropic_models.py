"""Models behind the Messages API: what each is sent for the same wish."""

from typing import Any

import pytest

from nanobee.chat import ChatMessage, CompletionRequest, Thinking, ToolChoice, ToolSpec
from nanobee.providers.anthropic_models import DEFAULT_MAX_TOKENS, Off, find_traits
from nanobee.providers.anthropic_schema import fit_schema
from nanobee.providers.anthropic_wire import build_body, build_headers

SAY = ToolSpec("say", "Say it.", {"type": "object", "properties": {}})
DROP = {"prefix_mismatch_behavior": "drop_block"}
ADAPTIVE = {"type": "adaptive", "display": "summarized"}
BOUND = {**ADAPTIVE, "block_binding": DROP}


def body_for(model: str, **changes: Any) -> Any:
    request = CompletionRequest(model, (ChatMessage("user", "hi"),), **changes)
    return build_body(request, find_traits(model), stream=True, source="s")


@pytest.mark.parametrize(
    ("model", "off", "is_adaptive", "takes_forced_call", "binds_thinking"),
    [
        ("claude-fable-5-1", Off.NEVER, True, False, True),
        ("claude-mythos-preview", Off.NEVER, True, True, False),
        ("claude-fable-5", Off.NEVER, True, True, False),
        ("claude-opus-5-5", Off.NEVER, True, False, True),
        ("claude-sonnet-5-5", Off.BETWEEN_TOOLS, True, False, True),
        ("claude-haiku-5-5", Off.DISABLED, True, True, True),
        ("claude-opus-5", Off.DISABLED, True, True, False),
        ("claude-sonnet-5", Off.DISABLED, True, True, False),
        ("claude-opus-4-8", Off.OMITTED, True, True, False),
        ("anthropic/claude-opus-4.7", Off.OMITTED, True, True, False),
        ("claude-sonnet-4-6", Off.OMITTED, True, True, False),
        ("claude-haiku-4-5-20251001", Off.OMITTED, False, True, False),
        ("claude-sonnet-4-20250514", Off.OMITTED, False, True, False),
        ("claude-3-7-sonnet-20250219", Off.OMITTED, False, True, False),
        ("claude-3-haiku-20240307", Off.OMITTED, False, True, False),
        ("deepseek-v4-pro", Off.DISABLED, False, False, False),
    ],
)
def test_a_models_traits_are_those_of_its_family_and_version(
    model: str, off: Off, is_adaptive: bool, takes_forced_call: bool, binds_thinking: bool
) -> None:
    traits = find_traits(model)
    assert (traits.off, traits.is_adaptive) == (off, is_adaptive)
    assert (traits.takes_forced_call, traits.binds_thinking) == (takes_forced_call, binds_thinking)
    assert bool(build_headers(traits)) is binds_thinking


def test_a_version_that_is_not_known_yet_is_like_the_newest() -> None:
    assert find_traits("claude-opus-6-2") == find_traits("claude-opus-5-5")
    assert find_traits("claude-novel-7") == find_traits("claude-haiku-5-5")


@pytest.mark.parametrize(
    ("model", "default", "on", "off"),
    [
        ("claude-opus-5-5", BOUND, BOUND, BOUND),
        ("claude-sonnet-5-5", BOUND, BOUND, {"type": "between_tools"}),
        ("claude-haiku-5-5", BOUND, BOUND, {"type": "disabled"}),
        ("claude-sonnet-5", ADAPTIVE, ADAPTIVE, {"type": "disabled"}),
        ("claude-opus-4-8", None, ADAPTIVE, None),
        ("claude-sonnet-4-6", None, ADAPTIVE, None),
        ("claude-sonnet-4-5", None, {"type": "enabled", "budget_tokens": 4_096}, None),
        ("claude-3-5-sonnet-latest", None, None, None),
        ("kimi-k2.6", None, {"type": "enabled", "budget_tokens": 4_096}, {"type": "disabled"}),
    ],
)
def test_thinking_is_switched_as_the_model_takes_it(model: str, default: Any, on: Any, off: Any) -> None:
    assert body_for(model).get("thinking") == default
    assert body_for(model, thinking=Thinking(True)).get("thinking") == on
    body = body_for(model, thinking=Thinking(False))
    assert body.get("thinking") == off
    assert (body.get("output_config") == {"effort": "low"}) is (off == BOUND)


@pytest.mark.parametrize(
    ("model", "budget", "thinking", "effort"),
    [
        ("claude-opus-5", 1_500, ADAPTIVE, "low"),
        ("claude-opus-5", 50_000, ADAPTIVE, "high"),
        ("claude-sonnet-4-6", 5_000, {"type": "enabled", "budget_tokens": 5_000}, None),
        ("claude-sonnet-4-5", 5, {"type": "enabled", "budget_tokens": 1_024}, None),
    ],
)
def test_a_budget_is_held_or_picks_an_effort(model: str, budget: int, thinking: Any, effort: str | None) -> None:
    body = body_for(model, thinking=Thinking(True, budget))
    assert body["thinking"] == thinking
    assert body.get("output_config") == ({"effort": effort} if effort else None)


def test_the_limit_leaves_room_beside_a_budget() -> None:
    body = body_for("claude-sonnet-4-5", thinking=Thinking(True, 8_000), max_tokens=1_000)
    assert body["max_tokens"] == 9_000
    assert body_for("claude-sonnet-4-5", thinking=Thinking(True, 8_000), max_tokens=9_000)["max_tokens"] == 9_000


@pytest.mark.parametrize(
    ("model", "limit"),
    [("claude-opus-5-5", DEFAULT_MAX_TOKENS), ("claude-3-haiku-20240307", 4_096), ("glm-5", 8_192)],
)
def test_there_is_always_a_limit_that_the_model_can_hold(model: str, limit: int) -> None:
    assert body_for(model)["max_tokens"] == limit
    assert body_for(model, max_tokens=7)["max_tokens"] == 7


@pytest.mark.parametrize(
    ("model", "thinking", "sent"),
    [
        ("claude-sonnet-4-5", None, 1.0),
        ("claude-sonnet-4-5", Thinking(True), None),
        ("claude-sonnet-4-6", Thinking(True), None),
        ("claude-sonnet-4-6", Thinking(False), 1.0),
        ("claude-opus-4-7", None, None),
        ("claude-haiku-5-5", Thinking(False), None),
    ],
)
def test_a_temperature_is_sent_where_it_is_taken(model: str, thinking: Thinking | None, sent: float | None) -> None:
    assert body_for(model, thinking=thinking, temperature=1.5).get("temperature") == sent


@pytest.mark.parametrize(
    ("model", "choice", "sent"),
    [
        ("claude-haiku-5-5", ToolChoice.FORCED, {"type": "tool", "name": "say"}),
        ("claude-opus-5-5", ToolChoice.FORCED, None),
        ("claude-opus-5-5", ToolChoice.NONE, {"type": "none"}),
        ("claude-opus-5-5", ToolChoice.AUTO, None),
    ],
)
def test_a_tool_is_chosen_where_the_model_can_be_forced(model: str, choice: ToolChoice, sent: Any) -> None:
    assert body_for(model, tools=(SAY,), tool_choice=choice).get("tool_choice") == sent
    assert "tool_choice" not in body_for(model, tool_choice=choice)


def test_a_forced_call_turns_a_budget_off() -> None:
    body = body_for("claude-sonnet-4-5", tools=(SAY,), tool_choice=ToolChoice.FORCED, thinking=Thinking(True))
    assert "thinking" not in body


def test_a_system_message_in_the_middle_is_said_by_the_user() -> None:
    messages = (ChatMessage("system", "a"), ChatMessage("user", "b"), ChatMessage("system", "c"))
    body: Any = build_body(CompletionRequest("m", messages), find_traits("m"), stream=False, source="s")
    assert [block["text"] for block in body["system"]] == ["a"]
    assert [block["text"] for block in body["messages"][0]["content"]] == ["b", "c"]
    assert "stream" not in body


def test_a_schema_is_closed_and_loses_the_bounds_that_are_refused() -> None:
    schema = {
        "type": "object",
        "properties": {
            "minimum": {"type": "integer", "minimum": 1, "default": {"maximum": 3}},
            "list": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/Inner"}},
            "any": {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "null"}]},
        },
        "$defs": {"Inner": {"type": "object", "properties": {}}},
    }
    assert fit_schema(schema) == {
        "type": "object",
        "properties": {
            "minimum": {"type": "integer", "default": {"maximum": 3}},
            "list": {"type": "array", "items": {"$ref": "#/$defs/Inner"}},
            "any": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "$defs": {"Inner": {"type": "object", "properties": {}, "additionalProperties": False}},
        "additionalProperties": False,
    }
