"""The table of servers, row by row: what is sent to which, and what is not."""

from typing import Any

import pytest

from nanobee.chat import ChatMessage, CompletionRequest, Echo, Thinking, ToolCall, ToolChoice, ToolSpec
from nanobee.providers.catalog import HOSTED_SERVICES, LOCAL_SERVERS
from nanobee.providers.dialect import COMMON, Dialect, dialect_names, find_dialect
from nanobee.providers.openai_wire import build_body
from nanobee.providers.request_body import encode_body
from nanobee.testing.strict_history import StrictHistory

SAY = ToolSpec("say", "Say it.", {"type": "object", "properties": {}})
HISTORY = (
    ChatMessage("user", "hi"),
    ChatMessage("assistant", "", (ToolCall("call_t_1", "say", "{}"),), reasoning="think"),
    ChatMessage("tool", "said", tool_call_id="call_t_1"),
    ChatMessage("assistant", "", (ToolCall("call_t_2", "say", "{}"),)),
    ChatMessage("tool", "said", tool_call_id="call_t_2"),
    ChatMessage("assistant", "Done.", reasoning="all said"),
    ChatMessage("user", "thanks"),
    ChatMessage("assistant", "You are welcome.", reasoning="polite"),
    ChatMessage("user", "more"),
)
COMMON_KEYS = {"model", "messages", "stream", "stream_options", "tools", "max_tokens", "temperature", "user"}


def body_at(netloc: str, model: str = "m", **changes: Any) -> Any:
    values: dict[str, Any] = {"tools": (SAY,), "max_tokens": 5, "temperature": 0.5, "user": "u", **changes}
    return build_body(CompletionRequest(model, HISTORY, **values), find_dialect(netloc, model), stream=True)


def reasoning_at(netloc: str, model: str = "m", field: str = "reasoning_content") -> list[str | None]:
    return [message.get(field) for message in body_at(netloc, model)["messages"] if message["role"] == "assistant"]


@pytest.mark.parametrize("netloc", ["llm.example.com", "127.0.0.1:9999", "10.0.0.5:8000", ""])
def test_o05_a_server_that_nobody_knows_is_sent_no_field_of_its_own(netloc: str) -> None:
    body = body_at(netloc, thinking=Thinking(True, 500))
    assert body.keys() == COMMON_KEYS
    assert StrictHistory(known_keys=True).check(encode_body(body)) == ()


@pytest.mark.parametrize(
    ("netloc", "model"),
    [
        ("api.openai.com", "gpt-4o"),
        ("api.openai.com", "gpt-6-luna"),
        ("api.mistral.ai", "mistral-small-latest"),
        ("api.minimax.io", "MiniMax-M2.7"),
        ("openrouter.example.com", "m"),
    ],
)
def test_o05_servers_without_such_a_field_get_no_reasoning_key(netloc: str, model: str) -> None:
    assert StrictHistory(known_keys=True).check(encode_body(body_at(netloc, model))) == ()


@pytest.mark.parametrize(
    ("netloc", "model", "field"),
    [
        ("dashscope.aliyuncs.com", "qwen-plus", "reasoning_content"),
        ("dashscope-intl.aliyuncs.com", "qwen3.7-max", "reasoning_content"),
        ("open.bigmodel.cn", "glm-4.7", "reasoning_content"),
        ("api.z.ai", "glm-5", "reasoning_content"),
        ("openrouter.ai", "z-ai/glm-5", "reasoning"),
        ("127.0.0.1:11434", "qwen3:8b", "reasoning"),
        ("127.0.0.1:1234", "qwen3", "reasoning_content"),
    ],
)
def test_o05_reasoning_goes_back_within_tool_turns(netloc: str, model: str, field: str) -> None:
    assert reasoning_at(netloc, model, field) == ["think", None, "all said", None]


@pytest.mark.parametrize(
    ("netloc", "model"),
    [
        ("api.deepseek.com", "deepseek-flash"),
        ("api.moonshot.ai", "kimi-k2.6"),
        ("api.moonshot.cn", "kimi-k3"),
        ("relay.example.com", "deepseek-v4-pro"),
        ("relay.example.com", "moonshotai/Kimi-K2.6"),
    ],
)
def test_o05_where_each_call_must_have_reasoning_a_call_without_any_gets_a_filler(netloc: str, model: str) -> None:
    assert reasoning_at(netloc, model) == ["think", " ", "all said", None]


def test_o05_reasoning_goes_back_in_tags_where_it_came_in_tags() -> None:
    contents = [m["content"] for m in body_at("api.minimax.io")["messages"] if m["role"] == "assistant"]
    assert contents == ["<think>think</think>\n\n", None, "<think>all said</think>\n\nDone.", "You are welcome."]


def test_o05_signed_details_and_calls_go_back_to_their_own_server_only() -> None:
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    extra = {"google": {"thought_signature": "s"}}
    echo = Echo("openai:openrouter.ai", {"details": details, "call_extras": {"0": extra}})
    said = ChatMessage("assistant", "", HISTORY[1].tool_calls, reasoning="think", echo=echo)
    request = CompletionRequest("m", (HISTORY[0], said, HISTORY[2]))

    def sent(netloc: str, source: str) -> Any:
        return build_body(request, find_dialect(netloc), stream=True, source=source)["messages"][1]  # type: ignore[index]

    own = sent("openrouter.ai", "openai:openrouter.ai")
    assert (own["reasoning_details"], "reasoning" in own) == (details, False)
    assert sent("openrouter.ai", "openai:other")["reasoning"] == "think"
    gemini = "generativelanguage.googleapis.com"
    assert sent(gemini, "openai:openrouter.ai")["tool_calls"][0]["extra_content"] == extra
    stranger = sent(gemini, f"openai:{gemini}")["tool_calls"][0]["extra_content"]
    assert stranger == {"google": {"thought_signature": "skip_thought_signature_validator"}}


@pytest.mark.parametrize(
    ("netloc", "model", "on", "off"),
    [
        ("api.deepseek.com", "deepseek-flash", {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}),
        ("api.moonshot.ai", "kimi-k2.6", {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}),
        ("api.moonshot.ai", "kimi-k3", {"reasoning_effort": "medium"}, {"reasoning_effort": "low"}),
        ("api.moonshot.ai", "kimi-k2.7-code", {}, {}),
        ("open.bigmodel.cn", "glm-4.7", {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}),
        ("api.minimaxi.com", "MiniMax-M3", {"thinking": {"type": "adaptive"}}, {"thinking": {"type": "disabled"}}),
        ("dashscope.aliyuncs.com", "qwen-plus", {"enable_thinking": True}, {"enable_thinking": False}),
        ("openrouter.ai", "m", {"reasoning": {"enabled": True}}, {"reasoning": {"enabled": False}}),
        ("127.0.0.1:11434", "qwen3:8b", {"reasoning_effort": "medium"}, {"reasoning_effort": "none"}),
        ("127.0.0.1:1234", "qwen3", {"reasoning_effort": "medium"}, {"reasoning_effort": "none"}),
        ("api.openai.com", "gpt-5", {"reasoning_effort": "medium"}, {"reasoning_effort": "minimal"}),
        ("api.openai.com", "gpt-5.2", {"reasoning_effort": "medium"}, {"reasoning_effort": "none"}),
        ("api.openai.com", "o4-mini", {"reasoning_effort": "medium"}, {"reasoning_effort": "low"}),
        ("api.openai.com", "gpt-4o", {}, {}),
        ("api.openai.com", "gpt-5.2-chat-latest", {}, {}),
        ("generativelanguage.googleapis.com", "g", {"reasoning_effort": "medium"}, {"reasoning_effort": "minimal"}),
        ("llm.example.com", "m", {}, {}),
    ],
)
def test_thinking_is_switched_in_the_servers_own_way(
    netloc: str, model: str, on: dict[str, Any], off: dict[str, Any]
) -> None:
    silent = body_at(netloc, model, tools=(), temperature=None)
    for thinking, expected in ((Thinking(True), on), (Thinking(False), off)):
        body = body_at(netloc, model, tools=(), temperature=None, thinking=thinking)
        assert {key: value for key, value in body.items() if key not in silent} == expected


@pytest.mark.parametrize(
    ("netloc", "model", "tokens", "expected"),
    [
        ("dashscope.aliyuncs.com", "qwen-plus", 500, {"enable_thinking": True, "thinking_budget": 500}),
        ("openrouter.ai", "m", 500, {"reasoning": {"max_tokens": 500}}),
        ("api.deepseek.com", "m", 2_000, {"thinking": {"type": "enabled"}, "reasoning_effort": "low"}),
        ("api.openai.com", "gpt-5.2", 2_048, {"reasoning_effort": "low"}),
        ("api.openai.com", "gpt-5.2", 8_192, {"reasoning_effort": "medium"}),
        ("api.openai.com", "gpt-5.2", 8_193, {"reasoning_effort": "high"}),
    ],
)
def test_a_budget_is_held_or_picks_a_level(netloc: str, model: str, tokens: int, expected: dict[str, Any]) -> None:
    body = body_at(netloc, model, tools=(), temperature=None, thinking=Thinking(True, tokens))
    assert {key: value for key, value in body.items() if key not in COMMON_KEYS | {"max_completion_tokens"}} == (
        expected | ({"safety_identifier": "u"} if netloc == "api.openai.com" else {})
    )


def test_models_in_the_local_servers_templates_are_switched_by_their_template() -> None:
    for name in ("vllm", "llamacpp"):
        dialect = find_dialect("127.0.0.1:8000", "qwen3", name)
        request = CompletionRequest("qwen3", HISTORY[:1], thinking=Thinking(False))
        assert build_body(request, dialect, stream=False)["chat_template_kwargs"] == {"enable_thinking": False}


def test_openais_newest_models_take_tools_without_thinking_only() -> None:
    assert body_at("api.openai.com", "gpt-6-luna", thinking=Thinking(True))["reasoning_effort"] == "none"
    assert body_at("api.openai.com", "gpt-6-luna")["temperature"] == 0.5
    assert "reasoning_effort" not in body_at("api.openai.com", "gpt-6-luna", tools=())
    assert "temperature" not in body_at("api.openai.com", "gpt-6-luna", tools=())
    assert "reasoning_effort" not in body_at("api.openai.com", "gpt-6-astra")
    assert "reasoning_effort" not in body_at("api.openai.com", "gpt-4o")


@pytest.mark.parametrize(
    ("netloc", "model", "is_sent"),
    [
        ("api.openai.com", "gpt-5", False),
        ("api.openai.com", "o3", False),
        ("api.openai.com", "gpt-4.1", True),
        ("api.moonshot.ai", "kimi-k2.6", False),
        ("api.moonshot.ai", "moonshot-v1-8k", True),
        ("api.deepseek.com", "deepseek-flash", True),
    ],
)
def test_a_temperature_is_not_sent_to_models_that_refuse_it(netloc: str, model: str, is_sent: bool) -> None:
    assert ("temperature" in body_at(netloc, model)) is is_sent


@pytest.mark.parametrize(
    ("netloc", "field"),
    [
        ("api.openai.com", "max_completion_tokens"),
        ("mine.openai.azure.com", "max_completion_tokens"),
        ("api.minimax.io", "max_completion_tokens"),
        ("api.deepseek.com", "max_tokens"),
        ("openai.com.example.com", "max_tokens"),
    ],
)
def test_the_limit_has_the_servers_own_name(netloc: str, field: str) -> None:
    assert body_at(netloc)[field] == 5


@pytest.mark.parametrize(
    ("netloc", "is_taken"),
    [
        ("api.openai.com", True),
        ("openrouter.ai", True),
        ("api.deepseek.com", False),
        ("api.moonshot.ai", False),
        ("dashscope.aliyuncs.com", False),
        ("open.bigmodel.cn", False),
        ("api.minimax.io", False),
        ("127.0.0.1:11434", False),
    ],
)
def test_a_call_is_forced_where_the_server_can(netloc: str, is_taken: bool) -> None:
    body = body_at(netloc, tool_choice=ToolChoice.FORCED)
    assert ("tool_choice" in body) is is_taken
    assert "tools" in body


@pytest.mark.parametrize("netloc", ["open.bigmodel.cn", "api.minimax.io"])
def test_where_a_call_cannot_be_forbidden_the_tools_are_left_out(netloc: str) -> None:
    body = body_at(netloc, tool_choice=ToolChoice.NONE)
    assert not {"tools", "tool_choice"} & body.keys()


@pytest.mark.parametrize(("netloc", "is_sent"), [("api.mistral.ai", False), ("api.z.ai", False), ("h", True)])
def test_a_stream_is_not_asked_to_count_where_that_is_refused(netloc: str, is_sent: bool) -> None:
    assert ("stream_options" in body_at(netloc)) is is_sent


def test_call_ids_are_as_short_as_a_server_wants_them() -> None:
    messages = body_at("api.mistral.ai")["messages"]
    ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert all(len(call_id) == 9 and call_id.isalnum() for call_id in ids)
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == ids
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    ("netloc", "field"),
    [("api.openai.com", "safety_identifier"), ("openrouter.ai", "user"), ("h", "user"), ("api.mistral.ai", None)],
)
def test_a_user_tag_is_sent_under_the_servers_own_name(netloc: str, field: str | None) -> None:
    assert [key for key, value in body_at(netloc).items() if value == "u"] == ([field] if field else [])


@pytest.mark.parametrize(
    ("model", "begins"),
    [("qwen3-4b-thinking-2507", True), ("QwQ-32B", True), ("deepseek-r1:8b", True), ("qwen3:8b", False)],
)
def test_templates_that_open_the_tag_are_known_by_the_model(model: str, begins: bool) -> None:
    assert find_dialect("127.0.0.1:11434", model).begins_in_thought is begins
    assert find_dialect("api.deepseek.com", model).begins_in_thought is False


def test_a_dialect_can_be_named_in_spite_of_the_address() -> None:
    assert find_dialect("relay.example.com", "glm-5", "zhipu").name == "zhipu"
    assert find_dialect("api.openai.com", "gpt-5", "common") == COMMON
    assert find_dialect("relay.example.com", "gpt-6-luna", "openai").tools_effort == "none"
    assert set(dialect_names()) >= {service.name for service in HOSTED_SERVICES} - {"anthropic", "zai"}
    assert set(dialect_names()) >= {server.name for server in LOCAL_SERVERS}


def test_a_dialect_with_nothing_special_is_the_common_api() -> None:
    assert find_dialect("h") == Dialect(has_think_tags=True)
