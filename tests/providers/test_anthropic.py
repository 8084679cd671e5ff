"""The Messages API over a real connection: field bugs O-01 to O-08, thinking, caching, windows."""

import json
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

from nanobee.chat import (
    ChatMessage,
    Completion,
    CompletionRequest,
    Delta,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    Thinking,
    ToolCallDelta,
    ToolChoice,
    ToolSpec,
    Usage,
)
from nanobee.config import AnthropicSettings
from nanobee.errors import (
    ContextLengthError,
    MalformedAnswerError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    RequestRefusedError,
    ServerFaultError,
)
from nanobee.providers import answer_clock, model_client
from nanobee.providers.anthropic import AnthropicProvider
from nanobee.providers.anthropic_wire import BINDING_BETA
from nanobee.testing.anthropic_history import StrictMessages
from nanobee.testing.anthropic_replies import (
    build_block,
    build_error,
    build_event,
    build_message,
    call_block,
    redacted_block,
    text_block,
    thinking_block,
)
from nanobee.testing.anthropic_server import AnthropicServer
from nanobee.testing.model_replies import Answer, Break, Piece

KEY = "sk-ant-canary-0123456789"
HAIKU = "claude-haiku-5-5"
OLD = "claude-sonnet-4-5"
ASK = CompletionRequest(HAIKU, (ChatMessage("system", "Be short."), ChatMessage("user", "hi")))
READ = ToolSpec("read_file", "Read it.", {"type": "object", "properties": {"path": {"type": "string"}}})
START = build_event(
    "message_start", message={"id": "m", "type": "message", "model": HAIKU, "content": [], "usage": {"input_tokens": 7}}
)
END = build_event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3})
STOP = build_event("message_stop")


def create_provider(base_url: str, **limits: Any) -> AnthropicProvider:
    values: dict[str, Any] = {"kind": "anthropic", "base_url": base_url, "api_key": SecretStr(KEY), **limits}
    return AnthropicProvider("claude", AnthropicSettings(**values))


@pytest.fixture
async def server() -> AsyncIterator[AnthropicServer]:
    async with AnthropicServer() as server:
        yield server


@pytest.fixture
async def provider(server: AnthropicServer) -> AsyncIterator[AnthropicProvider]:
    provider = create_provider(server.base_url)
    yield provider
    await provider.aclose()


async def ask(server: AnthropicServer, request: CompletionRequest = ASK, **limits: Any) -> Completion:
    provider = create_provider(server.base_url, **limits)
    try:
        with anyio.fail_after(10):
            return await provider.complete(request)
    finally:
        await provider.aclose()


def grow(index: int, **delta: str) -> bytes:
    return build_event("content_block_delta", index=index, delta=delta)


def text_event(text: str) -> bytes:
    return grow(0, type="text_delta", text=text)


OPEN_TEXT = build_event("content_block_start", index=0, content_block={"type": "text", "text": ""})
CLOSE = build_event("content_block_stop", index=0)


def stream(*texts: str) -> list[Piece]:
    return [START, OPEN_TEXT, *map(text_event, texts), CLOSE, END, STOP]


def then(completion: Completion, *results: str) -> tuple[ChatMessage, ...]:
    """The history of a step: what was said, and its calls' results."""
    calls = zip(completion.tool_calls, results, strict=True)
    return (
        ChatMessage(
            "assistant",
            completion.content,
            completion.tool_calls,
            reasoning=completion.reasoning,
            echo=completion.echo,
        ),
        *(ChatMessage("tool", result, tool_call_id=call.id) for call, result in calls),
    )


async def test_an_answer_is_streamed_and_given_back_whole(server: AnthropicServer, provider: AnthropicProvider) -> None:
    server.reply_text("Hello there, friend.", thinking="be kind")
    deltas: list[Delta] = []
    completion = await provider.complete(ASK, deltas.append)
    assert (completion.content, completion.reasoning) == ("Hello there, friend.", "be kind")
    assert (completion.finish_reason, completion.model) == (FinishReason.STOP, HAIKU)
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == "Hello there, friend."
    assert "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta)) == "be kind"


@pytest.mark.parametrize("stream", [True, False])
async def test_all_kinds_of_block_are_read_streamed_or_not(server: AnthropicServer, stream: bool) -> None:
    server.reply_calls(("read_file", {"path": "好"}), ("list", {}), text="Looking.", thinking="hm")
    completion = await ask(server, stream=stream)
    assert completion.content == "Looking."
    assert [(call.name, json.loads(call.arguments)) for call in completion.tool_calls] == [
        ("read_file", {"path": "好"}),
        ("list", {}),
    ]
    assert completion.finish_reason is FinishReason.TOOL_CALLS
    assert completion.echo is not None


async def test_the_head_holds_key_and_version_and_a_beta_only_where_it_is_needed(server: AnthropicServer) -> None:
    await ask(server)
    await ask(server, CompletionRequest(OLD, ASK.messages))
    headers = server.requests[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in headers
    assert headers["anthropic-beta"] == BINDING_BETA
    assert "anthropic-beta" not in server.requests[1].headers


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/"])
async def test_the_address_may_end_with_the_version_or_not(server: AnthropicServer, tail: str) -> None:
    provider = create_provider(server.base_url + tail)
    assert (await provider.complete(ASK)).content == "echo: hi"
    await provider.aclose()


async def test_usage_counts_what_the_cache_held_and_took(server: AnthropicServer) -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 1}
    start = build_event("message_start", message={"model": HAIKU, "content": [], "usage": usage})
    final = {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}, "cache_read_input_tokens": None}
    end = build_event("message_delta", delta={"stop_reason": "end_turn"}, usage=final)
    server.reply_bytes([start, OPEN_TEXT, text_event("ok"), CLOSE, end, STOP])
    completion = await ask(server)
    assert completion.usage == Usage(125, 9, cached_tokens=100, reasoning_tokens=4, cache_write_tokens=20)


async def test_the_prompt_and_the_history_are_cached_up_to_the_last_two_user_messages(server: AnthropicServer) -> None:
    history = [message for at in range(3) for message in (ChatMessage("user", f"q{at}"), ChatMessage("assistant", "a"))]
    await ask(server, CompletionRequest(HAIKU, (*ASK.messages[:1], *history, ChatMessage("user", "now")), (READ,)))
    body = server.requests[0].json
    assert "cache_control" in body["system"][-1]
    assert "cache_control" not in body["tools"][-1]
    cached = [m["content"][0]["text"] for m in body["messages"] if "cache_control" in m["content"][-1]]
    assert cached == ["q2", "now"]


# O-01: an empty answer comes back as what it is.


@pytest.mark.parametrize("texts", [[], [""], ["  \n"]])
async def test_o01_an_empty_answer_has_no_text_and_no_calls(server: AnthropicServer, texts: list[str]) -> None:
    server.reply_bytes(stream(*texts) if texts else [START, END, STOP])
    completion = await ask(server)
    assert completion.content.strip() == ""
    assert completion.tool_calls == ()
    assert completion.finish_reason is FinishReason.STOP


async def test_o01c_reasoning_alone_is_no_answer(server: AnthropicServer) -> None:
    server.reply_text("", thinking="what to say")
    completion = await ask(server)
    assert (completion.content, completion.reasoning) == ("", "what to say")


async def test_o01_a_refused_history_is_an_error_and_no_answer(server: AnthropicServer) -> None:
    server.reply_status(400, build_error("invalid_request_error", "messages: at least one message is required"))
    with pytest.raises(RequestRefusedError, match="at least one message"):
        await ask(server)


async def test_o01_what_was_stored_as_nothing_is_not_sent(server: AnthropicServer) -> None:
    blank = ChatMessage("assistant", " \n")
    messages = (ChatMessage("user", ""), blank, ChatMessage("user", "q"), ChatMessage("assistant", "a"))
    await ask(server, CompletionRequest(HAIKU, (*messages, ChatMessage("user", "now"))))
    first = server.requests[0].messages[0]["content"]
    assert [block["text"] for block in first] == ["(empty message)", "q"]


# O-02: which call a fragment belongs to.


def open_call(index: int, call_id: str, name: str = "read_file") -> bytes:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return build_event("content_block_start", index=index, content_block=block)


def arguments(index: int, text: str) -> bytes:
    return grow(index, type="input_json_delta", partial_json=text)


def close(index: int) -> bytes:
    return build_event("content_block_stop", index=index)


A, B = '{"path": "a.txt"}', '{"path": "b.txt"}'
CALLED = build_event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 3})
FIRST = [arguments(0, A[:4]), arguments(0, A[4:])]
SECOND = [arguments(1, B[:4]), arguments(1, B[4:])]
O02_STREAMS: dict[str, list[bytes]] = {
    "a": [
        *(open_call(0, "c1"), *(arguments(0, char) for char in A), close(0)),
        *(open_call(0, "c2"), *(arguments(0, char) for char in B), close(0)),
    ],
    "b": [open_call(0, ""), *FIRST, close(0), open_call(1, ""), *SECOND, close(1)],
    "e": [
        *(open_call(0, "c1"), open_call(1, "c2")),
        *(FIRST[0], SECOND[0], FIRST[1], SECOND[1]),
        *(close(0), close(1)),
    ],
    "a start that comes twice": [
        *(open_call(0, "c1"), open_call(0, "c1"), *FIRST, close(0)),
        *(open_call(1, "c2"), *SECOND, close(1)),
    ],
}


@pytest.mark.parametrize("variant", O02_STREAMS)
async def test_o02_two_parallel_calls_stay_two(server: AnthropicServer, variant: str) -> None:
    server.reply_bytes([START, *O02_STREAMS[variant], CALLED, STOP])
    completion = await ask(server)
    assert [(call.name, call.arguments) for call in completion.tool_calls] == [("read_file", A), ("read_file", B)]
    assert len({call.id for call in completion.tool_calls} - {""}) == 2


async def test_o02c_calls_under_one_id_get_ids_of_their_own(server: AnthropicServer) -> None:
    server.reply_bytes(
        [START, open_call(0, "c"), arguments(0, A), close(0), open_call(1, "c"), arguments(1, B), close(1), CALLED]
    )
    completion = await ask(server)
    assert len({call.id for call in completion.tool_calls}) == 2


async def test_o02d_a_call_with_empty_arguments_has_an_empty_object(server: AnthropicServer) -> None:
    server.reply_bytes([START, open_call(0, "c", "list_dir"), arguments(0, ""), close(0), CALLED, STOP])
    assert (await ask(server)).tool_calls[0].arguments == "{}"


async def test_call_fragments_are_given_out_as_they_come(server: AnthropicServer, provider: AnthropicProvider) -> None:
    server.reply_bytes([START, *O02_STREAMS["e"], CALLED, STOP])
    deltas: list[Delta] = []
    await provider.complete(ASK, deltas.append)
    assert [(delta.key, delta.name) for delta in deltas if isinstance(delta, ToolCallDelta)] == [
        (0, "read_file"),
        (1, "read_file"),
        (0, ""),
        (1, ""),
        (0, ""),
        (1, ""),
    ]


# O-03: a call that the output limit cut.


async def test_o03_a_call_cut_by_the_output_limit_says_so_and_stays_broken(server: AnthropicServer) -> None:
    cut = build_event("message_delta", delta={"stop_reason": "max_tokens"}, usage={"output_tokens": 3})
    server.reply_bytes([START, open_call(0, "c1"), arguments(0, '{"path": "a.md", "content": "ha'), cut, STOP])
    completion = await ask(server)
    assert completion.finish_reason is FinishReason.LENGTH
    assert completion.tool_calls[0].arguments == '{"path": "a.md", "content": "ha'


async def test_o03_a_call_cut_before_its_arguments_is_not_one_without_any(server: AnthropicServer) -> None:
    cut = build_event("message_delta", delta={"stop_reason": "max_tokens"}, usage={})
    server.reply_bytes([START, open_call(0, "c1"), open_call(1, "c2"), cut, STOP])
    for call in (await ask(server)).tool_calls:
        with pytest.raises(ValueError, match="Expecting"):
            json.loads(call.arguments)


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("something_new", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("pause_turn", FinishReason.LENGTH),
        ("refusal", FinishReason.CONTENT_FILTER),
    ],
)
async def test_stop_reasons_are_mapped(server: AnthropicServer, wire: str, reason: FinishReason) -> None:
    server.reply_text("so", stop_reason=wire)
    assert (await ask(server)).finish_reason is reason


async def test_calls_of_an_answer_that_was_broken_off_by_a_filter_are_not_run(server: AnthropicServer) -> None:
    server.reply_calls(("read_file", {"path": "a"}), text="I", stop_reason="refusal")
    completion = await ask(server)
    assert (completion.content, completion.tool_calls) == ("I", ())
    assert completion.finish_reason is FinishReason.CONTENT_FILTER


# O-04: how a stream may be framed.

O04_STREAMS: dict[str, list[Piece]] = {
    "comments and pings": [b":\n\n", START, build_event("ping"), b": ping\n\n", *stream("好", "的")[1:]],
    "a ping without data of ours": [b"event: ping\ndata: \n\n", b"event: ping\ndata: [DONE]\n\n", *stream("好的")],
    "an id before a comment": [b"id: 1\n" + START, b": ping\n\n", b"\n", *stream("好的")[1:]],
    "crlf": [b"".join(piece for piece in stream("好的") if isinstance(piece, bytes)).replace(b"\n", b"\r\n")],
    "no space": [b"".join(piece for piece in stream("好的") if isinstance(piece, bytes)).replace(b"data: ", b"data:")],
    "no names of events": [
        piece.split(b"\n", 1)[1] if isinstance(piece, bytes) else piece for piece in stream("好", "的")
    ],
    "a cut character": [START, OPEN_TEXT, text_event("好的")[:-12], text_event("好的")[-12:], CLOSE, END, STOP],
    "no stop": stream("好的")[:-1],
    "a new event": [START, build_event("wonder", of="the world"), *stream("好的")[1:]],
}


@pytest.mark.parametrize("name", O04_STREAMS)
async def test_o04_a_stream_is_read_to_the_character(server: AnthropicServer, name: str) -> None:
    server.reply_bytes(O04_STREAMS[name])
    completion = await ask(server)
    assert (completion.content, completion.usage) == ("好的", Usage(7, 3))


async def test_text_without_an_end_mark_is_believed_when_it_is_closed_and_http_framed_it(
    server: AnthropicServer,
) -> None:
    server.reply_bytes([START, OPEN_TEXT, text_event("ab"), CLOSE])
    assert (await ask(server)).content == "ab"
    for cut in ([START, OPEN_TEXT, text_event("ab")], [START, open_call(0, "c"), arguments(0, A), close(0)]):
        server.reply_bytes(cut)
        with pytest.raises(ProviderConnectionError, match="broke off"):
            await ask(server)


@pytest.mark.parametrize("after", [[], [START], [START, OPEN_TEXT, text_event("ab")]])
async def test_a_cut_connection_is_a_connection_error(server: AnthropicServer, after: list[Piece]) -> None:
    server.reply_cut(after)
    with pytest.raises(ProviderConnectionError, match="broke the connection"):
        await ask(server)


@pytest.mark.parametrize("empty", [[], [build_event("ping")], [STOP]])
async def test_a_stream_with_nothing_in_it_is_no_answer(server: AnthropicServer, empty: list[Piece]) -> None:
    server.reply_bytes(empty)
    with pytest.raises(MalformedAnswerError):
        await ask(server)


async def test_a_piece_that_is_no_json_is_no_answer(server: AnthropicServer) -> None:
    server.reply_bytes([START, b"event: content_block_delta\ndata: {broken\n\n"])
    with pytest.raises(MalformedAnswerError):
        await ask(server)


@pytest.mark.parametrize(
    ("kind", "error"),
    [("overloaded_error", ServerFaultError), ("rate_limit_error", RateLimitError), ("api_error", ServerFaultError)],
)
async def test_an_error_inside_the_stream_tells_its_kind_after_text_was_shown(
    server: AnthropicServer, provider: AnthropicProvider, kind: str, error: type[ProviderError]
) -> None:
    failed = build_event("error", error={"type": kind, "message": "Overloaded"})
    server.reply_bytes([START, OPEN_TEXT, text_event("ab"), failed])
    deltas: list[Delta] = []
    with pytest.raises(error):
        await provider.complete(ASK, deltas.append)
    assert deltas == [TextDelta("ab")]


# O-05: thinking goes back with its calls, unchanged.


@pytest.mark.parametrize("model", [HAIKU, "claude-opus-5-5", "claude-sonnet-5", OLD, "deepseek-v4-pro"])
async def test_o05_thinking_comes_back_unchanged_with_its_calls(server: AnthropicServer, model: str) -> None:
    server.reply_blocks(
        [
            thinking_block("first 思考"),
            redacted_block("EncryptedData=="),
            text_block("Looking. "),
            call_block("read_file", {"path": "a"}, "toolu_1"),
            thinking_block("", "only-a-signature"),
            call_block("read_file", {"path": "b"}, "toolu_2"),
        ]
    )
    thinking = Thinking(True, 2_000)
    messages: tuple[ChatMessage, ...] = ASK.messages
    provider = create_provider(server.base_url)
    first = await provider.complete(CompletionRequest(model, messages, (READ,), thinking=thinking))
    messages = (*messages, *then(first, "A", "B"))
    server.reply_text("Done.", thinking="second")
    last = await provider.complete(CompletionRequest(model, messages, (READ,), thinking=thinking))
    sent = server.requests[1].messages[1]["content"]
    assert [block["type"] for block in sent] == [
        "thinking",
        "redacted_thinking",
        "text",
        "tool_use",
        "thinking",
        "tool_use",
    ]
    messages = (*messages, *then(last), ChatMessage("user", "and now?"))
    await provider.complete(CompletionRequest(model, messages, (READ,), thinking=thinking))
    await provider.aclose()
    assert server.violations == []
    assert server.requests[2].messages[3]["content"][0]["thinking"] == "second"


async def test_o05_thinking_that_another_server_signed_is_not_sent(server: AnthropicServer) -> None:
    async with AnthropicServer() as other:
        other.reply_calls(("read_file", {"path": "a"}), thinking="mine")
        first = await ask(other, CompletionRequest(OLD, ASK.messages, (READ,), thinking=Thinking(True)))
    request = CompletionRequest(OLD, (*ASK.messages, *then(first, "A")), (READ,), thinking=Thinking(True))
    await ask(server, request)
    body = server.requests[0].json
    assert [block["type"] for block in body["messages"][1]["content"]] == ["tool_use"]
    assert "thinking" not in body  # a budget cannot begin in the middle of a tool turn


async def test_o05_where_the_text_has_changed_the_thinking_still_goes_back(server: AnthropicServer) -> None:
    server.reply_blocks(
        [text_block("One."), thinking_block("hm"), text_block("Two."), call_block("read_file", {}, "toolu_1")]
    )
    first = await ask(server, CompletionRequest("claude-sonnet-5", ASK.messages, (READ,)))
    said, result = then(first, "A")
    changed = ChatMessage("assistant", "Else.", said.tool_calls, reasoning=said.reasoning, echo=said.echo)
    await ask(server, CompletionRequest("claude-sonnet-5", (*ASK.messages, changed, result), (READ,)))
    sent = server.requests[1].messages[1]["content"]
    assert [block["type"] for block in sent] == ["thinking", "text", "tool_use"]


async def test_o05_a_changed_beginning_does_not_refuse_the_whole_request() -> None:
    async with AnthropicServer(history=StrictMessages(binds_thinking=True)) as server:
        server.reply_calls(("read_file", {"path": "a"}), thinking="bound")
        first = await ask(server, CompletionRequest("claude-opus-5-5", ASK.messages, (READ,)))
        messages = (ChatMessage("system", "Be long."), *ASK.messages[1:], *then(first, "A"))
        await ask(server, CompletionRequest("claude-opus-5-5", messages, (READ,)))
        assert server.violations == []
        assert server.requests[1].json["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}


async def test_thinking_is_left_out_where_thinking_is_off(server: AnthropicServer) -> None:
    server.reply_text("so", thinking="hm")
    first = await ask(server)
    messages = (*ASK.messages, *then(first), ChatMessage("user", "and?"))
    await ask(server, CompletionRequest(HAIKU, messages, thinking=Thinking(False)))
    body = server.requests[1].json
    assert body["thinking"] == {"type": "disabled"}
    assert [block["type"] for block in body["messages"][1]["content"]] == ["text"]


# O-06: a page is no answer.


@pytest.mark.parametrize(("status", "size"), [(404, 100), (502, 227_000)])
async def test_o06_a_page_makes_a_short_error_without_markup(server: AnthropicServer, status: int, size: int) -> None:
    server.reply_status(status, "<html><body>" + "no " * (size // 3) + "</body></html>")
    with pytest.raises(ProviderError) as raised:
        await ask(server)
    assert len(str(raised.value)) < 500
    assert "<" not in str(raised.value)


async def test_o06b_a_page_with_status_200_is_no_answer(server: AnthropicServer) -> None:
    server.reply_bytes([b"<html><body>Welcome</body></html>"], content_type="text/html")
    with pytest.raises(MalformedAnswerError, match="text/html"):
        await ask(server)


@pytest.mark.parametrize("value", [{}, {"content": None}, {"choices": []}, {"type": "message", "content": "text"}])
async def test_o06_json_of_another_api_is_no_answer(server: AnthropicServer, value: Any) -> None:
    server.reply_bytes([json.dumps(value).encode()], content_type="application/json")
    with pytest.raises(MalformedAnswerError):
        await ask(server, stream=False)


async def test_an_answer_that_is_too_large_is_not_read_to_the_end(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_client, "MAX_STREAM_BYTES", 1_000)
    server.reply_bytes(stream("x" * 2_000))
    with pytest.raises(MalformedAnswerError, match="more than an answer can be"):
        await ask(server)


# O-07: each limit by its name.


@pytest.mark.parametrize(
    ("pieces", "limit"),
    [
        ([], "first_token_timeout_seconds"),
        ([START, *[piece for _ in range(20) for piece in (build_event("ping"), 0.02)]], "first_token_timeout_seconds"),
        ([START, OPEN_TEXT, text_event("a")], "idle_timeout_seconds"),
        (
            [START, OPEN_TEXT, text_event("a"), *[piece for _ in range(20) for piece in (b": ping\n\n", 0.02)]],
            "idle_timeout_seconds",
        ),
        (
            [START, OPEN_TEXT, *[piece for _ in range(100) for piece in (0.02, text_event("a"))]],
            "total_timeout_seconds",
        ),
    ],
    ids=["nothing", "pings only", "silence", "comments", "no end"],
)
async def test_o07_a_limit_that_passes_is_named(server: AnthropicServer, pieces: list[Piece], limit: str) -> None:
    limits: dict[str, Any] = {
        "first_token_timeout_seconds": 0.15,
        "idle_timeout_seconds": 0.15,
        "total_timeout_seconds": 0.4,
    }
    server.reply_hang(pieces)
    with pytest.raises(ProviderTimeoutError, match=limit) as raised:
        await ask(server, **limits)
    assert raised.value.limit == limit


async def test_o07b_a_long_answer_is_not_silent(server: AnthropicServer) -> None:
    slow = [piece for at in range(8) for piece in (0.06, text_event(str(at)))]
    server.reply_bytes([START, OPEN_TEXT, *slow, CLOSE, END, STOP])
    assert (await ask(server, idle_timeout_seconds=0.4)).content == "01234567"


async def test_o07e_a_late_first_token_within_its_limit_is_no_silence(server: AnthropicServer) -> None:
    server.reply_bytes([START, 0.4, *stream("a")[1:]])
    assert (await ask(server, first_token_timeout_seconds=5, idle_timeout_seconds=0.3)).content == "a"


async def test_a_stream_that_stays_open_after_its_end_is_left(
    server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_clock, "TAIL_TIMEOUT_SECONDS", 0.05)
    server.reply_hang(stream("ab")[:-1])
    assert (await ask(server)).content == "ab"


# O-08: refusals by status and type.


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (400, "invalid_request_error", RequestRefusedError),
        (401, "authentication_error", ProviderAuthError),
        (402, "billing_error", RateLimitError),
        (403, "permission_error", ProviderAuthError),
        (404, "not_found_error", RequestRefusedError),
        (413, "request_too_large", ContextLengthError),
        (429, "rate_limit_error", RateLimitError),
        (500, "api_error", ServerFaultError),
        (504, "timeout_error", ServerFaultError),
        (529, "overloaded_error", ServerFaultError),
        (529, "", ServerFaultError),
    ],
)
async def test_o08_a_refusal_is_asked_once_and_sorted(
    server: AnthropicServer, status: int, kind: str, error: type[ProviderError]
) -> None:
    server.reply_status(status, build_error(kind, f"prompt is too long for {KEY}"))
    with pytest.raises(error) as raised:
        await ask(server)
    assert type(raised.value) is error
    assert len(server.requests) == 1
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(("status", "kind"), [(429, "rate_limit_error"), (529, "overloaded_error")])
async def test_o08_the_servers_wait_goes_with_the_error(server: AnthropicServer, status: int, kind: str) -> None:
    server.reply_status(status, build_error(kind), headers={"retry-after": "3600"})
    with pytest.raises(ProviderError) as raised:
        await ask(server)
    assert isinstance(raised.value, RateLimitError | ServerFaultError)
    assert raised.value.retry_after_seconds == 3600


# A request that is too long has no code of its own: it is counted.

LONG = CompletionRequest(OLD, (ChatMessage("user", "word " * 40_000),))


async def ask_too_long(request: CompletionRequest, windows: dict[str, int]) -> tuple[ProviderError, list[str]]:
    async with AnthropicServer(windows=windows) as server:
        server.reply_status(400, build_error("invalid_request_error", "prompt is too long: 50000 tokens > 40000"))
        with pytest.raises(ProviderError) as raised:
            await ask(server, request)
        return raised.value, [lookup.path for lookup in server.lookups]


async def test_a_refused_request_beyond_the_models_window_is_too_long() -> None:
    error, lookups = await ask_too_long(LONG, {OLD: 40_000})
    assert isinstance(error, ContextLengthError)
    assert lookups == ["/v1/messages/count_tokens", f"/v1/models/{OLD}"]


@pytest.mark.parametrize("windows", [{OLD: 60_000}, {}])
async def test_a_refused_request_within_the_window_was_refused_for_another_reason(windows: dict[str, int]) -> None:
    error, _ = await ask_too_long(LONG, windows)
    assert type(error) is RequestRefusedError


async def test_a_short_request_is_not_counted() -> None:
    error, lookups = await ask_too_long(CompletionRequest(OLD, ASK.messages), {OLD: 1})
    assert type(error) is RequestRefusedError
    assert lookups == []


# What else a request may hold.


async def test_a_forced_call_a_schema_and_a_user_reach_the_server(server: AnthropicServer) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
    request = CompletionRequest(
        HAIKU, ASK.messages, (READ,), ToolChoice.FORCED, response_schema=schema, max_tokens=9, user="u-1"
    )
    await ask(server, request)
    body = server.requests[0].json
    assert body["tool_choice"] == {"type": "tool", "name": "read_file"}
    assert body["output_config"]["format"]["schema"] == {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    assert (body["max_tokens"], body["metadata"]) == (9, {"user_id": "u-1"})


async def test_a_schema_is_refused_where_the_model_cannot_hold_it(server: AnthropicServer) -> None:
    with pytest.raises(RequestRefusedError, match="schema"):
        await ask(
            server, CompletionRequest("claude-3-5-haiku-latest", ASK.messages, response_schema={"type": "object"})
        )
    assert server.requests == []


async def test_a_history_with_calls_and_no_tools_defines_what_it_names(server: AnthropicServer) -> None:
    server.reply_calls(("read file!", {"path": "a"}))
    first = await ask(server, CompletionRequest(HAIKU, ASK.messages, (READ,)))
    await ask(server, CompletionRequest(HAIKU, (*ASK.messages, *then(first, ""), ChatMessage("user", "Summarize."))))
    body = server.requests[1].json
    assert body["tools"] == [{"name": "read_file_", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "none"}
    results = body["messages"][2]["content"]
    assert [block["type"] for block in results] == ["tool_result", "text"]
    assert "content" not in results[0]


async def test_r6_halves_of_characters_do_not_reach_the_server(server: AnthropicServer) -> None:
    await ask(server, CompletionRequest(HAIKU, (ChatMessage("user", "a\ud83d b\ud83d\ude00"),)))
    assert server.requests[0].messages[0]["content"][0]["text"] == "a\ufffd b😀"


async def test_halves_of_a_character_in_two_events_are_one_character(server: AnthropicServer) -> None:
    halves = [json.dumps({"type": "text_delta", "text": half}) for half in ("a\ud83d", "\ude00b")]
    events = [f'data: {{"type":"content_block_delta","index":0,"delta":{half}}}\n\n'.encode() for half in halves]
    server.reply_bytes([START, OPEN_TEXT, *events, CLOSE, END, STOP])
    assert (await ask(server)).content == "a😀b"


async def test_a_whole_block_at_its_start_is_read(server: AnthropicServer) -> None:
    block = {"type": "tool_use", "id": "c", "name": "read_file", "input": {"path": "a"}}
    said = {"type": "text", "text": "so"}
    server.reply_bytes(
        [
            START,
            build_event("content_block_start", index=0, content_block=said),
            build_event("content_block_start", index=1, content_block=block),
            close(1),
            CALLED,
        ]
    )
    completion = await ask(server)
    assert (completion.content, completion.tool_calls[0].arguments) == ("so", '{"path": "a"}')


async def test_blocks_of_an_unknown_kind_are_left_out(server: AnthropicServer) -> None:
    strange = [
        build_event("content_block_start", index=0, content_block={"type": "server_tool_use", "id": "s"}),
        build_event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": "{}"}),
        build_event("content_block_start", index=None, content_block=None),
        build_event("content_block_delta", index=7, delta=None),
        build_event("content_block_stop"),
    ]
    server.reply_bytes([START, *strange, *build_block(1, text_block("so")), END, STOP])
    assert await ask(server) == Completion("so", model=HAIKU, usage=Usage(7, 3))


async def test_a_call_without_a_name_is_no_answer(server: AnthropicServer) -> None:
    server.reply_bytes([START, open_call(0, "c", ""), close(0), CALLED])
    with pytest.raises(MalformedAnswerError):
        await ask(server)


async def test_a_kept_connection_that_is_gone_is_replaced_before_the_first_byte(server: AnthropicServer) -> None:
    server.reply_built(lambda request: _losing_the_next(build_message(request, [text_block("first")])), times=1)
    provider = create_provider(server.base_url)
    assert (await provider.complete(ASK)).content == "first"
    assert (await provider.complete(ASK)).content == "echo: hi"
    await provider.aclose()


def _losing_the_next(answer: Answer) -> Answer:
    return replace(answer, loses_next=True)


async def test_a_server_that_is_not_there_is_a_connection_error() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    provider = create_provider(f"http://127.0.0.1:{port}")
    with pytest.raises(ProviderConnectionError, match="cannot be reached"):
        await provider.complete(ASK)
    await provider.aclose()


async def test_a_break_after_the_end_takes_nothing_away(server: AnthropicServer) -> None:
    server.reply_bytes([*stream("ab")[:-1], Break.CUT])
    assert (await ask(server)).content == "ab"
