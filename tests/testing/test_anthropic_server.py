"""The double of the Messages API: what it answers, and what it holds requests to."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest

from nanobee.http_client import create_client
from nanobee.testing.anthropic_history import StrictMessages
from nanobee.testing.anthropic_replies import call_block, redacted_block, text_block, thinking_block
from nanobee.testing.anthropic_server import AnthropicServer

USER = {"role": "user", "content": [text_block("hi")]}
TOOLS = [{"name": "f", "input_schema": {"type": "object"}}]
THOUGHT = thinking_block("hm", "sealed")


def said(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def call(call_id: str = "a", **more: Any) -> dict[str, Any]:
    return {**call_block("f", {}, call_id), **more}


def results(*ids: str, text: str = "") -> dict[str, Any]:
    blocks: list[Any] = [{"type": "tool_result", "tool_use_id": call_id, "content": "x"} for call_id in ids]
    return {"role": "user", "content": [*blocks, *([text_block(text)] if text else ())]}


def rules(*messages: Any, history: StrictMessages | None = None, **body: Any) -> list[str]:
    whole = {"model": "m", "max_tokens": 5, "tools": TOOLS, "messages": messages, **body}
    found = (history or StrictMessages()).check(json.dumps(whole).encode())
    return sorted({problem.split(":")[0] for problem in found})


@pytest.mark.parametrize(
    "messages",
    [
        [USER],
        [{"role": "user", "content": "hi"}],
        [USER, said(text_block("so")), USER],
        [USER, said(call("a"), call("b")), results("b", "a", text="and?")],
        [USER, said(text_block("Looking."), call()), results("a"), said(text_block("so")), USER],
    ],
)
def test_a_legal_request_breaks_nothing(messages: list[Any]) -> None:
    assert rules(*messages) == []


@pytest.mark.parametrize(
    ("rule", "messages"),
    [
        ("M1", [said(text_block("so")), USER]),
        ("M1", [USER, USER]),
        ("M1", [{"role": "system", "content": "x"}, USER]),
        ("M2", [{"role": "user", "content": []}]),
        ("M2", [{"role": "user", "content": " \n"}]),
        ("M2", [USER, said(text_block("")), USER]),
        ("M3", [USER, said(call())]),
        ("M3", [USER, said(call()), USER]),
        ("M3", [USER, said(call()), results("b")]),
        ("M3", [USER, said(call()), results("a", "a")]),
        ("M3", [USER, said(text_block("so")), results("a")]),
        ("M3", [USER, said(call()), {"role": "user", "content": [text_block("x"), *results("a")["content"]]}]),
        ("M4", [USER, said(call()), results("a"), said(call()), results("a")]),
        ("M4", [USER, said(call("a b")), results("a b")]),
        ("M4", [USER, said(call(input="{}")), results("a")]),
        ("M5", [USER, said(THOUGHT, text_block("so")), USER]),
        ("M6", [{"role": "user", "content": "a\ud83d"}]),
    ],
)
def test_a_message_that_breaks_a_rule_is_told(rule: str, messages: list[Any]) -> None:
    assert rules(*messages) == [rule]


@pytest.mark.parametrize(
    ("rule", "body"),
    [
        ("M7", {"max_tokens": None}),
        ("M7", {"max_tokens": 2_000, "thinking": {"type": "enabled", "budget_tokens": 2_000}}),
        ("M8", {"system": [{**text_block("s"), "cache_control": {}} for _ in range(5)]}),
        ("M9", {"tools": [], "tool_choice": {"type": "auto"}}),
        (
            "M9",
            {
                "max_tokens": 2_000,
                "thinking": {"type": "enabled", "budget_tokens": 1_024},
                "tool_choice": {"type": "any"},
            },
        ),
        ("M2", {"system": [text_block(" ")]}),
    ],
)
def test_a_field_that_breaks_a_rule_is_told(rule: str, body: dict[str, Any]) -> None:
    assert rules(USER, **body) == [rule]


def test_calls_in_the_history_need_tools() -> None:
    assert rules(USER, said(call()), results("a"), tools=[]) == ["M9"]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"messages": []}', b'{"messages": ["\xff"]}'])
def test_the_body_is_json_with_messages(body: bytes) -> None:
    assert [problem[:3] for problem in StrictMessages().check(body)] == ["M6:"]


def test_thinking_comes_back_as_it_was_sent_and_with_its_calls() -> None:
    history = StrictMessages()
    history.remember({"messages": [USER]}, [THOUGHT, redacted_block("x"), call()])
    renamed = call("other")
    assert rules(USER, said(THOUGHT, redacted_block("x"), renamed), results("other"), history=history) == []
    changed = {**THOUGHT, "thinking": "hmm"}
    assert rules(USER, said(changed, redacted_block("x"), renamed), results("other"), history=history) == ["M5"]
    assert rules(USER, said(THOUGHT, renamed), results("other"), history=history) == ["M5"]
    assert rules(USER, said(renamed), results("other"), history=history) == ["M5"]
    over = (said(renamed), results("other"), said(text_block("so")), USER)
    assert rules(USER, *over, history=history) == []


def test_thinking_is_not_cached() -> None:
    history = StrictMessages()
    cached = {**THOUGHT, "cache_control": {"type": "ephemeral"}}
    history.remember({"messages": [USER]}, [cached])
    assert rules(USER, said(cached, text_block("so")), USER, history=history) == ["M8"]


def test_bound_thinking_is_refused_after_another_beginning_unless_it_may_be_dropped() -> None:
    history = StrictMessages(binds_thinking=True)
    history.remember({"messages": [USER], "tools": TOOLS, "system": "s"}, [THOUGHT, text_block("so")])
    messages = (USER, said(THOUGHT, text_block("so")), USER)
    assert rules(*messages, history=history, system="s") == []
    assert rules(*messages, history=history, system="other") == ["M10"]
    binding = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    assert rules(*messages, history=history, system="other", thinking=binding) == []


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with create_client() as client:
        yield client


async def post(client: httpx.AsyncClient, server: AnthropicServer, **body: Any) -> httpx.Response:
    whole = {"model": "m", "max_tokens": 5, "tools": TOOLS, "messages": [USER], **body}
    with anyio.fail_after(10):
        return await client.post(f"{server.base_url}/v1/messages", json=whole)


async def test_it_answers_as_scripted_and_then_echoes(client: httpx.AsyncClient) -> None:
    async with AnthropicServer() as server:
        server.reply_calls(("f", {"x": 1}), text="Looking.", thinking="hm")
        first = (await post(client, server)).json()
        assert [block["type"] for block in first["content"]] == ["thinking", "text", "tool_use"]
        assert (first["stop_reason"], first["content"][2]["input"]) == ("tool_use", {"x": 1})
        assert (await post(client, server)).json()["content"] == [text_block("echo: hi")]


async def test_a_stream_has_a_start_and_a_stop_for_each_block(client: httpx.AsyncClient) -> None:
    async with AnthropicServer() as server:
        server.reply_text("so", thinking="hm")
        events = [
            json.loads(line.removeprefix("data: "))
            for line in (await post(client, server, stream=True)).text.splitlines()
            if line.startswith("data: ")
        ]
    kinds = [event["type"] for event in events if event["type"] != "ping"]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 2


async def test_a_broken_rule_is_refused_and_fails_the_test(client: httpx.AsyncClient) -> None:
    with pytest.raises(AssertionError, match="M1"):
        async with AnthropicServer() as server:
            assert (await post(client, server, messages=[USER, USER])).status_code == 400
    async with AnthropicServer(fail_on_violation=False) as server:
        await post(client, server, messages=[USER, USER])
        assert len(server.violations) == 1


async def test_windows_are_told_and_tokens_counted(client: httpx.AsyncClient) -> None:
    async with AnthropicServer(windows={"m": 9}) as server:
        url = f"{server.base_url}/v1"
        assert (await client.get(f"{url}/models/m")).json()["max_input_tokens"] == 9
        assert (await client.get(f"{url}/models/other")).status_code == 404
        assert (await client.post(f"{url}/messages/count_tokens", json={"a": "b" * 32})).json()["input_tokens"] == 10
        assert (server.requests, len(server.lookups)) == ([], 3)
