"""What servers of the chat-completions API do in their own way, over a real connection."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest

from nanobee.bus.lines import Line
from nanobee.chat import (
    ChatMessage,
    Completion,
    CompletionRequest,
    Delta,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolSpec,
)
from nanobee.clock import Clock
from nanobee.config import AnthropicSettings, OpenAISettings
from nanobee.errors import ProviderConnectionError, ProviderTimeoutError
from nanobee.exchanges import ExchangeReader
from nanobee.providers.anthropic import AnthropicProvider
from nanobee.providers.openai import OpenAIProvider
from nanobee.providers.provider import Provider
from nanobee.sessions.session import assistant_line, message_line
from nanobee.testing.anthropic_replies import call_block, redacted_block, thinking_block
from nanobee.testing.anthropic_server import AnthropicServer
from nanobee.testing.model_replies import Answer, Piece, build_answer, build_event
from nanobee.testing.model_server import ModelServer
from nanobee.testing.strict_history import StrictHistory

READ = ToolSpec("read_file", "Read it.", {"type": "object", "properties": {}})
HI = ChatMessage("user", "hi")
ASK = CompletionRequest("test-model", (HI,), (READ,))
STOP = build_event({"delta": {}, "finish_reason": "stop"})
CALLED = build_event({"delta": {}, "finish_reason": "tool_calls"})
DONE = b"data: [DONE]\n\n"


def create_provider(base_url: str, dialect: str | None = None, **limits: Any) -> OpenAIProvider:
    return OpenAIProvider("main", OpenAISettings(kind="openai", base_url=base_url, dialect=dialect, **limits))


async def ask(server: ModelServer, dialect: str | None = None, request: CompletionRequest = ASK) -> Completion:
    provider = create_provider(server.base_url, dialect)
    try:
        with anyio.fail_after(10):
            return await provider.complete(request)
    finally:
        await provider.aclose()


def through_the_session(messages: Sequence[ChatMessage | Completion]) -> tuple[ChatMessage, ...]:
    """The history as it is read again from a session's file, calls renamed as the agent does it."""
    lines: list[Line] = []
    renamed: list[ToolCall] = []
    for seq, message in enumerate(messages):
        if isinstance(message, Completion):
            renamed = [replace(call, id=f"call_t_{seq}_{at}") for at, call in enumerate(message.tool_calls)]
            new = assistant_line(message, renamed)
        elif message.role == "tool":
            new = message_line("tool", message.content, tool_call_id=renamed.pop(0).id)
        else:
            new = message_line(message.role, message.content)
        data = json.loads(json.dumps(dict(new.data), ensure_ascii=False))
        lines.append(Line(seq, Clock().now(), "t", new.kind, data))
    reader = ExchangeReader()
    for line in lines:
        reader.feed(line)
    return tuple(
        message
        for exchange in reader.exchanges()
        for message in (exchange.user, *(each for step in exchange.steps for each in step))
    )


# O-05: reasoning goes back with its calls, also after a restart.


@pytest.mark.parametrize("dialect", ["deepseek", "moonshot", "dashscope", "zhipu", "minimax", "openrouter", "ollama"])
async def test_o05_reasoning_comes_back_with_its_calls_after_a_restart(dialect: str) -> None:
    async with ModelServer(history=StrictHistory(reasoning=True)) as server:
        server.reply_calls(("read_file", {"path": "a"}), ("read_file", {"path": "b"}), reasoning="let me look")
        model = "kimi-k2.6" if dialect == "moonshot" else "test-model"
        request = replace(ASK, model=model)
        said = await ask(server, dialect, request)
        messages = through_the_session([HI, said, ChatMessage("tool", "A"), ChatMessage("tool", "B")])
        await ask(server, dialect, replace(request, messages=messages))
        later = (*messages, ChatMessage("assistant", "Done."), ChatMessage("user", "and now?"))
        await ask(server, dialect, replace(request, messages=later))
        assert len(server.requests) == 3


async def test_o05_a_server_that_refuses_unknown_keys_is_sent_none() -> None:
    async with ModelServer(history=StrictHistory(known_keys=True)) as server:
        server.reply_calls(("read_file", {"path": "a"}), reasoning="let me look")
        said = await ask(server)
        assert said.reasoning == "let me look"
        messages = through_the_session([HI, said, ChatMessage("tool", "A")])
        assert (await ask(server, request=replace(ASK, messages=messages))).content == "echo: hi"


async def test_o05_signed_details_come_back_whole_after_a_restart() -> None:
    details = [
        {"type": "reasoning.text", "index": 0, "text": "let me", "format": "f"},
        {"type": "reasoning.text", "index": 0, "text": " look", "signature": "s1"},
        {"type": "reasoning.encrypted", "index": 1, "data": "x"},
        {"type": "reasoning.encrypted", "index": 2, "data": "y"},
        {"type": "reasoning.summary", "index": 3, "summary": "looked"},
    ]
    call = {"index": 0, "id": "c", "function": {"name": "read_file", "arguments": "{}"}}
    async with ModelServer() as server:
        events = [build_event({"delta": {"reasoning_details": [detail]}}) for detail in details]
        server.reply_bytes([*events, build_event({"delta": {"tool_calls": [call]}}), CALLED, DONE])
        said = await ask(server, "openrouter")
        assert said.reasoning == "let me looklooked"
        messages = through_the_session([HI, said, ChatMessage("tool", "A")])
        await ask(server, "openrouter", replace(ASK, messages=messages))
        sent = server.requests[1].messages[1]
        assert sent["reasoning_details"] == [
            {"type": "reasoning.text", "index": 0, "text": "let me look", "format": "f", "signature": "s1"},
            *details[2:],
        ]
        assert "reasoning" not in sent


async def test_reasoning_under_two_names_counts_once() -> None:
    delta = {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}], "content": "so"}
    async with ModelServer() as server:
        server.reply_bytes([build_event({"delta": delta}), STOP])
        assert (await ask(server, "openrouter")).reasoning == "hm"


async def test_o05_signed_calls_come_back_with_their_signatures() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    calls = [
        {"index": 0, "id": "a", "function": {"name": "read_file", "arguments": "{}"}, "extra_content": extra},
        {"index": 1, "id": "b", "function": {"name": "read_file", "arguments": '{"path": "b"}'}},
    ]
    async with ModelServer() as server:
        server.reply_bytes([build_event({"delta": {"tool_calls": calls}}), CALLED, DONE])
        said = await ask(server, "gemini")
        messages = through_the_session([HI, said, ChatMessage("tool", "A"), ChatMessage("tool", "B")])
        await ask(server, "gemini", replace(ASK, messages=messages))
        sent = server.requests[1].messages[1]["tool_calls"]
        assert sent[0]["extra_content"] == extra


async def test_o05_thinking_blocks_survive_the_session_with_their_signatures() -> None:
    async with AnthropicServer() as server:
        provider: Provider = AnthropicProvider("c", AnthropicSettings(kind="anthropic", base_url=server.base_url))
        request = replace(ASK, model="claude-opus-5-5")
        server.reply_blocks(
            [
                thinking_block("a 好"),
                call_block("read_file", {"path": "a"}, "toolu_1"),
                redacted_block("secret=="),
                call_block("read_file", {"path": "b"}, "toolu_2"),
            ]
        )
        said = await provider.complete(request)
        messages = through_the_session([HI, said, ChatMessage("tool", "A"), ChatMessage("tool", "B")])
        await provider.complete(replace(request, messages=messages))
        await provider.aclose()
        assert [block["type"] for block in server.requests[1].messages[1]["content"]] == [
            "thinking",
            "tool_use",
            "redacted_thinking",
            "tool_use",
        ]


# Thinking tags in the text.


@pytest.mark.parametrize("pieces", [["<think>why", "</think>\n\nso"], ["<thi", "nk>why</th", "ink>", "so"]])
async def test_tags_in_the_text_of_an_unknown_server_are_no_answer(pieces: list[str]) -> None:
    deltas: list[Delta] = []
    async with ModelServer() as server:
        server.reply_bytes([*(build_event({"delta": {"content": piece}}) for piece in pieces), STOP, DONE])
        provider = create_provider(server.base_url)
        completion = await provider.complete(ASK, deltas.append)
        await provider.aclose()
    assert (completion.content, completion.reasoning) == ("so", "why")
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == "so"
    assert "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta)) == "why"


async def test_o01c_an_unclosed_tag_is_no_answer() -> None:
    async with ModelServer() as server:
        server.reply_text("<think>what to say")
        completion = await ask(server)
    assert (completion.content, completion.reasoning) == ("", "what to say")


async def test_tags_are_text_where_the_server_sends_reasoning_apart() -> None:
    async with ModelServer() as server:
        server.reply_text("<think> is a tag")
        assert (await ask(server, "deepseek")).content == "<think> is a tag"


async def test_a_model_whose_template_opens_the_tag_is_read_so() -> None:
    async with ModelServer() as server:
        server.reply_text("hm, let me see\n</think>\n\nso")
        completion = await ask(server, "ollama", replace(ASK, model="qwen3-thinking"))
    assert (completion.content, completion.reasoning) == ("so", "hm, let me see\n")


# Finish reasons.


@pytest.mark.parametrize("reason", ["content_filter", "sensitive"])
async def test_an_answer_that_a_filter_broke_off_has_its_text_and_no_calls(reason: str) -> None:
    async with ModelServer() as server:
        server.reply_calls(("read_file", {"path": "a"}), text="I will", finish=reason)
        completion = await ask(server)
    assert (completion.content, completion.tool_calls) == ("I will", ())
    assert completion.finish_reason is FinishReason.CONTENT_FILTER


async def test_o03_a_call_cut_before_its_arguments_is_not_one_without_any() -> None:
    async with ModelServer() as server:
        server.reply_calls(("list_dir", ""), ("write_file", '{"path": "a"'), finish="length")
        for call in (await ask(server)).tool_calls:
            with pytest.raises(ValueError, match="Expecting"):
                json.loads(call.arguments)


async def test_a_call_that_came_twice_is_one() -> None:
    async with ModelServer() as server:
        server.reply_calls(
            ("read_file", {"path": "a"}), ("read_file", {"path": "a"}), ("read_file", {"path": "b"}), call_ids="xxy"
        )
        completion = await ask(server)
    assert [json.loads(call.arguments)["path"] for call in completion.tool_calls] == ["a", "b"]


# Connections and limits.


def _losing_the_next(request: Any) -> Answer:
    return replace(build_answer(request, text="first"), loses_next=True)


async def test_a_kept_connection_that_is_gone_is_replaced_before_the_first_byte() -> None:
    async with ModelServer() as server:
        server.reply_built(_losing_the_next, times=1)
        provider = create_provider(server.base_url)
        assert (await provider.complete(ASK)).content == "first"
        assert (await provider.complete(ASK)).content == "echo: hi"
        assert (server.connections, len(server.requests)) == (2, 2)
        await provider.aclose()


async def test_a_server_that_cuts_every_call_is_asked_twice_at_most() -> None:
    async with ModelServer() as server:
        provider = create_provider(server.base_url)
        await provider.complete(ASK)
        server.reply_cut(times=None)
        with pytest.raises(ProviderConnectionError):
            await provider.complete(ASK)
        assert len(server.requests) == 3
        await provider.aclose()


async def test_a_fresh_connection_that_is_cut_is_not_asked_again() -> None:
    async with ModelServer() as server:
        server.reply_cut(times=None)
        with pytest.raises(ProviderConnectionError):
            await ask(server)
        assert len(server.requests) == 1


async def test_nothing_is_sent_again_after_the_first_byte() -> None:
    async with ModelServer() as server:
        provider = create_provider(server.base_url)
        await provider.complete(ASK)
        server.reply_cut([build_event({"delta": {"content": "a"}})], times=None)
        with pytest.raises(ProviderConnectionError):
            await provider.complete(ASK)
        assert len(server.requests) == 2
        await provider.aclose()


async def test_json_in_answer_to_a_stream_request_has_the_total_limit_only() -> None:
    whole = json.dumps({"choices": [{"message": {"content": "slow"}}]}).encode()
    pieces: list[Piece] = [b" ", 0.3, whole[:20], 0.3, whole[20:]]
    async with ModelServer() as server:
        provider = create_provider(server.base_url, idle_timeout_seconds=0.1, total_timeout_seconds=5.0)
        server.reply_bytes(pieces, content_type="application/json")
        assert (await provider.complete(ASK)).content == "slow"
        await provider.aclose()
        provider = create_provider(server.base_url, idle_timeout_seconds=0.1, total_timeout_seconds=0.4)
        server.reply_bytes(pieces, content_type="application/json")
        with pytest.raises(ProviderTimeoutError) as raised:
            await provider.complete(ASK)
        assert raised.value.limit == "total_timeout_seconds"
        await provider.aclose()
