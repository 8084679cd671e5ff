import json
from typing import Any

import pytest

from nanobee.chat import ChatMessage, CompletionRequest, ToolCall, ToolChoice, ToolSpec
from nanobee.providers.openai_wire import Dialect, build_body, build_messages, encode_body, find_dialect
from nanobee.testing.strict_history import StrictHistory

COMMON = Dialect()
SAY = ToolSpec("say", "Say it.", {"type": "object", "properties": {"text": {"type": "string"}}})
CALL = ToolCall("call_1", "say", '{"text": "hi"}')
HISTORY = (
    ChatMessage("system", "You are short."),
    ChatMessage("user", "hi"),
    ChatMessage("assistant", "", (CALL,), reasoning="think"),
    ChatMessage("tool", "said", tool_call_id="call_1"),
    ChatMessage("assistant", "Done."),
)


def body_of(request: CompletionRequest, dialect: Dialect = COMMON, *, stream: bool = True) -> Any:
    return json.loads(encode_body(build_body(request, dialect, stream=stream)))


def test_a_history_looks_as_the_strictest_server_wants_it() -> None:
    request = CompletionRequest("m", HISTORY)
    assert (
        StrictHistory(known_keys=True, alternate=True).check(encode_body(build_body(request, COMMON, stream=True)))
        == ()
    )
    assert body_of(request)["messages"] == [
        {"role": "system", "content": "You are short."},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "say", "arguments": '{"text": "hi"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "said"},
        {"role": "assistant", "content": "Done."},
    ]


def test_only_what_was_asked_for_is_sent() -> None:
    assert body_of(CompletionRequest("m", HISTORY[:2]), stream=False).keys() == {"model", "messages"}


def test_a_stream_is_asked_to_count_tokens() -> None:
    body = body_of(CompletionRequest("m", HISTORY[:2]))
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (ToolChoice.AUTO, None),
        (ToolChoice.NONE, "none"),
        (ToolChoice.FORCED, {"type": "function", "function": {"name": "say"}}),
    ],
)
def test_a_tool_choice_is_sent_by_name(choice: ToolChoice, sent: object) -> None:
    body = body_of(CompletionRequest("m", HISTORY[:2], tools=(SAY,), tool_choice=choice))
    assert body.get("tool_choice") == sent
    assert body["tools"] == [
        {"type": "function", "function": {"name": "say", "description": "Say it.", "parameters": SAY.parameters}}
    ]


def test_a_choice_without_tools_is_not_sent() -> None:
    assert "tool_choice" not in body_of(CompletionRequest("m", HISTORY[:2], tool_choice=ToolChoice.FORCED))


def test_a_response_schema_is_a_named_format() -> None:
    schema = {"type": "object", "properties": {}}
    body = body_of(CompletionRequest("m", HISTORY[:2], response_schema=schema))
    assert body["response_format"] == {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def test_limits_are_sent_under_the_servers_own_names() -> None:
    request = CompletionRequest("m", HISTORY[:2], max_tokens=5, temperature=0.0)
    assert body_of(request)["max_tokens"] == 5
    assert body_of(request)["temperature"] == 0.0
    assert body_of(request, find_dialect("api.openai.com"))["max_completion_tokens"] == 5


def test_o05_reasoning_goes_back_only_where_it_is_wanted() -> None:
    assert "reasoning_content" not in build_messages(HISTORY, COMMON)[2]
    wanting = Dialect(reasoning_field="reasoning_content")
    assert build_messages(HISTORY, wanting)[2]["reasoning_content"] == "think"
    assert "reasoning_content" not in build_messages(HISTORY, wanting)[4]


@pytest.mark.parametrize(("text", "sent"), [("a\ud83d", "a\ufffd"), ("\ud83d\ude00", "😀"), ("好", "好")])
def test_r6_no_half_of_a_character_is_sent(text: str, sent: str) -> None:
    raw = encode_body(build_body(CompletionRequest("m", (ChatMessage("user", text),)), COMMON, stream=True))
    assert StrictHistory().check(raw) == ()
    assert json.loads(raw)["messages"][0]["content"] == sent
