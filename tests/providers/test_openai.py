import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.abc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from nanobee.chat import (
    ChatMessage,
    Completion,
    CompletionRequest,
    Delta,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolChoice,
    ToolSpec,
    Usage,
)
from nanobee.config import OpenAISettings
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
from nanobee.providers.openai import OpenAIProvider
from nanobee.testing.model_replies import Break, Piece, build_event
from nanobee.testing.model_server import ModelServer

KEY = "sk-canary-0123456789"
ASK = CompletionRequest("test-model", (ChatMessage("user", "hi"),))
DONE = b"data: [DONE]\n\n"
STOP = build_event({"delta": {}, "finish_reason": "stop"})
USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}\n\n'


def create_provider(base_url: str, **limits: Any) -> OpenAIProvider:
    values: dict[str, Any] = {"kind": "openai", "base_url": base_url, "api_key": SecretStr(KEY), **limits}
    return OpenAIProvider("main", OpenAISettings(**values))


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def provider(server: ModelServer) -> AsyncIterator[OpenAIProvider]:
    provider = create_provider(server.base_url)
    yield provider
    await provider.aclose()


async def ask(server: ModelServer, request: CompletionRequest = ASK, **limits: Any) -> Completion:
    provider = create_provider(server.base_url, **limits)
    try:
        with anyio.fail_after(10):
            return await provider.complete(request)
    finally:
        await provider.aclose()


def text_event(text: str) -> bytes:
    return build_event({"delta": {"content": text}})


async def test_an_answer_is_streamed_and_given_back_whole(server: ModelServer, provider: OpenAIProvider) -> None:
    server.reply_text("Hello there, friend.", reasoning="be kind")
    deltas: list[Delta] = []
    completion = await provider.complete(ASK, deltas.append)
    assert completion.content == "Hello there, friend."
    assert completion.reasoning == "be kind"
    assert completion.finish_reason is FinishReason.STOP
    assert completion.model == "test-model"
    assert completion.usage.input_tokens > 0
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == ["Hello ", "there, ", "friend."]
    assert "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta)) == "be kind"


async def test_a_fragment_is_given_out_before_the_next_one_comes(server: ModelServer, provider: OpenAIProvider) -> None:
    first_seen = anyio.Event()
    server.reply_bytes([text_event("a"), first_seen, text_event("b"), STOP])

    def on_delta(delta: Delta) -> None:
        first_seen.set()

    with anyio.fail_after(5):
        assert (await provider.complete(ASK, on_delta)).content == "ab"


async def test_the_key_and_the_kind_of_answer_are_in_the_head(server: ModelServer, provider: OpenAIProvider) -> None:
    await provider.complete(ASK)
    headers = server.requests[0].headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["content-type"] == "application/json"
    assert headers["accept-encoding"] == "identity"


async def test_without_a_key_no_header_is_sent(server: ModelServer) -> None:
    await ask(server, api_key=None)
    assert "authorization" not in server.requests[0].headers


async def test_one_connection_serves_call_after_call(server: ModelServer, provider: OpenAIProvider) -> None:
    for _ in range(3):
        await provider.complete(ASK)
    assert server.connections == 1


async def test_a_closed_provider_opens_a_new_client(server: ModelServer, provider: OpenAIProvider) -> None:
    await provider.complete(ASK)
    await provider.aclose()
    assert (await provider.complete(ASK)).content == "echo: hi"


async def test_an_answer_that_is_not_streamed_is_understood(server: ModelServer) -> None:
    server.reply_calls(("read_file", {"path": "a"}), text="Looking.")
    completion = await ask(server, stream=False)
    assert server.requests[0].json.get("stream") is None
    assert completion.content == "Looking."
    assert completion.tool_calls[0].arguments == '{"path": "a"}'


async def test_json_in_answer_to_a_stream_request_is_understood(server: ModelServer, provider: OpenAIProvider) -> None:
    whole = {"choices": [{"message": {"content": "好 day"}, "finish_reason": "length"}], "usage": {"prompt_tokens": 4}}
    body = json.dumps(whole, ensure_ascii=False).encode()
    server.reply_bytes([body[:40], body[40:]], content_type="application/json; charset=utf-8")
    deltas: list[Delta] = []
    completion = await provider.complete(ASK, deltas.append)
    assert completion == Completion("好 day", finish_reason=FinishReason.LENGTH, usage=Usage(4))
    assert deltas == [TextDelta("好 day")]


@pytest.mark.parametrize("content_type", ["text/plain", "application/octet-stream", "Text/Event-Stream; charset=utf-8"])
async def test_a_stream_under_another_name_is_understood(server: ModelServer, content_type: str) -> None:
    server.reply_bytes([b": hi\n\n", text_event("ab"), STOP, DONE], content_type=content_type)
    assert (await ask(server)).content == "ab"


async def test_a_forced_call_and_a_schema_reach_the_server(server: ModelServer, provider: OpenAIProvider) -> None:
    tool = ToolSpec("save", "Save it.", {"type": "object", "properties": {}})
    request = CompletionRequest("m", ASK.messages, (tool,), ToolChoice.FORCED, {"type": "object"}, 9, 0.5)
    await provider.complete(request)
    body = server.requests[0].json
    assert body["tool_choice"] == {"type": "function", "function": {"name": "save"}}
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert (body["max_tokens"], body["temperature"]) == (9, 0.5)


async def test_r6_halves_of_characters_do_not_reach_the_server(server: ModelServer, provider: OpenAIProvider) -> None:
    await provider.complete(CompletionRequest("m", (ChatMessage("user", "a\ud83d b\ud83d\ude00"),)))
    assert server.violations == []
    assert server.requests[0].messages[0]["content"] == "a\ufffd b😀"


# O-01: an empty answer comes back as what it is, so that the agent can see its shape.


@pytest.mark.parametrize("content", [None, "", "  \n"])
async def test_o01_an_empty_answer_has_no_text_and_no_calls(server: ModelServer, content: str | None) -> None:
    server.reply_bytes([build_event({"delta": {"role": "assistant", "content": content}}), STOP, DONE])
    completion = await ask(server)
    assert completion.content.strip() == ""
    assert completion.tool_calls == ()
    assert completion.finish_reason is FinishReason.STOP


async def test_o01c_reasoning_alone_is_no_answer(server: ModelServer) -> None:
    server.reply_text("", reasoning="what to say")
    completion = await ask(server)
    assert completion.content == ""
    assert completion.reasoning == "what to say"


async def test_o01_a_refused_history_is_an_error_and_no_answer(server: ModelServer) -> None:
    server.reply_status(400, {"error": {"message": "content is empty", "type": "invalid_request_error"}})
    with pytest.raises(RequestRefusedError, match="content is empty"):
        await ask(server)


# O-02: which call a fragment belongs to.

A, B = '{"path": "a.txt"}', '{"path": "b.txt"}'


def call_event(index: int | None, call_id: str | None, name: str | None, arguments: str) -> bytes:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return build_event({"delta": {"tool_calls": [{"index": index, "id": call_id, "function": function}]}})


def o02_stream(variant: str) -> list[bytes]:
    match variant:
        case "a":
            return [
                event
                for call_id, arguments in (("c1", A), ("c2", B))
                for event in (
                    call_event(0, call_id, "read_file", ""),
                    *(call_event(0, call_id, None, char) for char in arguments),
                )
            ]
        case "b":
            return [
                event
                for index, arguments in ((0, A), (1, B))
                for event in (
                    call_event(index, None, "read_file", ""),
                    call_event(index, None, None, arguments[:5]),
                    call_event(index, None, None, arguments[5:]),
                )
            ]
        case "c":
            return [
                event
                for index, arguments in ((0, A), (1, B))
                for event in (
                    call_event(index, f"c{index}", "read_file", ""),
                    call_event(index, "", None, arguments[:5]),
                    call_event(index, "", None, arguments[5:]),
                )
            ]
    return [
        call_event(0, "c1", "read_file", A[:5]),
        call_event(1, "c2", "read_file", B[:5]),
        call_event(0, None, None, A[5:]),
        call_event(1, None, None, B[5:]),
    ]


@pytest.mark.parametrize("variant", ["a", "b", "c", "e"])
async def test_o02_two_parallel_calls_stay_two(server: ModelServer, variant: str) -> None:
    finish = build_event({"delta": {}, "finish_reason": "tool_calls"})
    server.reply_bytes([*o02_stream(variant), finish, DONE])
    completion = await ask(server)
    assert [(call.name, call.arguments) for call in completion.tool_calls] == [("read_file", A), ("read_file", B)]
    assert len({call.id for call in completion.tool_calls} - {""}) == 2
    assert completion.finish_reason is FinishReason.TOOL_CALLS


async def test_o02d_a_call_with_empty_arguments_has_an_empty_object(server: ModelServer) -> None:
    server.reply_calls(("list_dir", ""), call_ids=["c1"])
    assert (await ask(server)).tool_calls == (ToolCall("c1", "list_dir", "{}"),)


async def test_call_fragments_are_given_out_as_they_come(server: ModelServer, provider: OpenAIProvider) -> None:
    server.reply_bytes([*o02_stream("e"), STOP, DONE])
    deltas: list[Delta] = []
    await provider.complete(ASK, deltas.append)
    assert [(delta.key, delta.name) for delta in deltas if isinstance(delta, ToolCallDelta)] == [
        (0, "read_file"),
        (1, "read_file"),
        (0, ""),
        (1, ""),
    ]


async def test_o03_a_call_cut_by_the_output_limit_says_so(server: ModelServer) -> None:
    server.reply_calls(("write_file", '{"path": "a.md", "content": "cut in the mid'), finish="length")
    completion = await ask(server)
    assert completion.finish_reason is FinishReason.LENGTH
    assert completion.tool_calls[0].name == "write_file"


# O-04: how a stream may be framed.

O04_STREAMS: dict[str, list[bytes]] = {
    "a bare comment": [b":\n\n", text_event("好的"), b":\n", STOP, USAGE, DONE],
    "a ping comment": [b": ping\n\n", text_event("好的"), b": ping\n\n", STOP, USAGE, DONE],
    "a ping after an id": [b"id: 1\n" + text_event("好的"), b": ping\n\n", b"\n", STOP, USAGE, DONE],
    "crlf": [(text_event("好的") + STOP + USAGE + DONE).replace(b"\n", b"\r\n")],
    "cr": [(text_event("好的") + STOP + USAGE + DONE).replace(b"\n", b"\r")],
    "no space": [(text_event("好的") + STOP + USAGE + DONE).replace(b"data: ", b"data:")],
    "a ping event": [
        b"event: ping\ndata: now\n\n",
        b'event: ping\ndata: {"type": "ping"}\n\n',
        text_event("好的"),
        STOP,
        USAGE,
    ],
    "a cut character": [text_event("好的")[:-30], text_event("好的")[-30:], STOP, USAGE, DONE],
    "a done with blanks": [text_event("好的"), STOP, USAGE, b"data:  [DONE] \n\n"],
    "no done": [text_event("好的"), STOP, USAGE],
    "no last blank line": [text_event("好的"), STOP, USAGE.rstrip()],
    "no end mark but usage": [text_event("好的"), USAGE],
    "a null usage before": [text_event("好的").replace(b'"choices"', b'"usage": null, "choices"'), STOP, USAGE, DONE],
}


@pytest.mark.parametrize("name", O04_STREAMS)
async def test_o04_a_stream_is_read_to_the_character(server: ModelServer, name: str) -> None:
    server.reply_bytes(O04_STREAMS[name])
    assert await ask(server) == Completion("好的", usage=Usage(7, 3))


async def test_o04_a_character_split_over_two_writes_is_one(server: ModelServer, provider: OpenAIProvider) -> None:
    event = text_event("好")
    at = event.index("好".encode()) + 1
    half_is_sent = anyio.Event()
    server.reply_bytes([text_event("a"), event[:at], half_is_sent, event[at:], STOP, DONE])

    def on_delta(delta: Delta) -> None:
        half_is_sent.set()

    with anyio.fail_after(5):
        assert (await provider.complete(ASK, on_delta)).content == "a好"


async def test_text_without_any_end_mark_is_believed_when_http_framed_it(server: ModelServer) -> None:
    server.reply_bytes([text_event("ab")])
    assert (await ask(server)).content == "ab"


async def test_text_without_any_end_mark_is_cut_when_nothing_framed_it(server: ModelServer) -> None:
    server.reply_bytes([text_event("ab")], is_chunked=False)
    with pytest.raises(ProviderConnectionError, match="broke off"):
        await ask(server)


async def test_a_call_without_any_end_mark_is_never_believed(server: ModelServer) -> None:
    server.reply_bytes([call_event(0, "c", "write_file", '{"path": "a"}')])
    with pytest.raises(ProviderConnectionError, match="broke off"):
        await ask(server)


@pytest.mark.parametrize("after", [[], [text_event("ab")]])
async def test_a_cut_connection_is_a_connection_error(server: ModelServer, after: list[Piece]) -> None:
    server.reply_cut(after)
    with pytest.raises(ProviderConnectionError, match="broke the connection"):
        await ask(server)


async def test_a_cut_after_the_end_takes_nothing_away(server: ModelServer) -> None:
    server.reply_cut([text_event("ab"), STOP])
    assert (await ask(server)).content == "ab"


async def test_a_stream_that_stays_open_after_its_end_is_left(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_clock, "TAIL_TIMEOUT_SECONDS", 0.05)
    server.reply_hang([text_event("ab"), STOP])
    assert (await ask(server)).content == "ab"


@pytest.mark.parametrize("empty", [[], [b": ping\n\n"], [DONE], [b'data: {"choices": []}\n\n', DONE]])
async def test_a_stream_with_nothing_in_it_is_no_answer(server: ModelServer, empty: list[Piece]) -> None:
    server.reply_bytes(empty)
    with pytest.raises(MalformedAnswerError):
        await ask(server)


@pytest.mark.parametrize("broken", [b"data: {broken\n\n", b"data: 5\n\n", b"event: message\ndata: oh\n\n"])
async def test_a_piece_that_is_no_json_is_no_answer(server: ModelServer, broken: bytes) -> None:
    server.reply_bytes([text_event("ab"), broken])
    with pytest.raises(MalformedAnswerError):
        await ask(server)


@pytest.mark.parametrize(
    "error",
    [
        b'data: {"error": {"code": 429, "message": "slow down"}}\n\n',
        b'event: error\ndata: {"type": "rate_limit_error", "message": "slow down"}\n\n',
    ],
)
async def test_o08f_an_error_inside_a_stream_is_sorted(server: ModelServer, error: bytes) -> None:
    server.reply_bytes([text_event("ab"), error])
    with pytest.raises(RateLimitError, match="slow down"):
        await ask(server)


SCRIPT = b"".join(
    [
        b": ping\r\n\r\n",
        build_event({"delta": {"reasoning": "想想"}}).replace(b"\n", b"\r\n"),
        text_event("好的, 😀"),
        b"event: ping\ndata: {}\n\n",
        *o02_stream("e"),
        build_event({"delta": {}, "finish_reason": "tool_calls"}).replace(b"\n", b"\r"),
        USAGE,
        DONE,
    ]
)


@given(st.lists(st.integers(0, len(SCRIPT)), max_size=12))
@settings(max_examples=40, deadline=None)
def test_any_split_of_the_bytes_gives_the_same_completion(cuts: list[int]) -> None:
    cuts.sort()
    pieces = [SCRIPT[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(SCRIPT)], strict=True)]

    async def run() -> Completion:
        async with ModelServer() as server:
            server.reply_bytes(pieces)
            return await ask(server)

    assert anyio.run(run) == Completion(
        content="好的, 😀",
        tool_calls=(ToolCall("c1", "read_file", A), ToolCall("c2", "read_file", B)),
        finish_reason=FinishReason.TOOL_CALLS,
        reasoning="想想",
        usage=Usage(7, 3),
    )


# O-06: pages of HTML.

PAGE = "<!DOCTYPE html><html><body><h1>Bad gateway</h1>" + "<p>x</p>" * 28_000 + "</body></html>"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, RequestRefusedError), (200, MalformedAnswerError), (502, ServerFaultError), (403, ProviderAuthError)],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_o06_a_page_is_an_error_with_a_short_plain_text(
    server: ModelServer, status: int, kind: type[ProviderError], stream: bool
) -> None:
    server.reply_status(status, PAGE)
    with pytest.raises(kind) as raised:
        await ask(server, stream=stream)
    assert type(raised.value) is kind
    assert len(str(raised.value)) < 500
    assert "<" not in str(raised.value)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"\xff\xfe\x00"])
async def test_a_body_that_is_no_answer_is_malformed(server: ModelServer, body: bytes) -> None:
    server.reply_bytes([body], content_type="application/json")
    with pytest.raises(MalformedAnswerError):
        await ask(server)


async def test_an_answer_that_cannot_be_decompressed_is_malformed(server: ModelServer) -> None:
    server.reply_status(200, {"choices": []}, headers={"Content-Encoding": "gzip"})
    with pytest.raises(MalformedAnswerError, match="decompressed"):
        await ask(server)


async def test_a_whole_answer_without_bounds_is_left(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_client, "MAX_ANSWER_BYTES", 1000)
    server.reply_bytes([b"{" + b" " * 2000, Break.HANG], content_type="application/json")
    with pytest.raises(MalformedAnswerError, match="more than an answer can be"):
        await ask(server)


async def test_a_stream_without_bounds_is_left(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_client, "MAX_STREAM_BYTES", 1000)
    server.reply_hang([b": " + b"x" * 2000 + b"\n\n"])
    with pytest.raises(MalformedAnswerError, match="more than an answer can be"):
        await ask(server)


# O-07: each limit by its name.


def slow(count: int, seconds: float) -> list[Piece]:
    return [piece for at in range(count) for piece in (seconds, text_event(str(at % 10)))]


async def test_o07a_a_stream_that_never_begins_passes_the_first_token_limit(server: ModelServer) -> None:
    server.reply_hang()
    with pytest.raises(ProviderTimeoutError, match="first_token_timeout_seconds"):
        await ask(server, first_token_timeout_seconds=0.05, idle_timeout_seconds=5)


async def test_o07a_a_server_that_answers_nothing_at_all_passes_the_first_token_limit(server: ModelServer) -> None:
    server.reply_text("late", hold=anyio.Event())
    with pytest.raises(ProviderTimeoutError, match="first_token_timeout_seconds"):
        await ask(server, first_token_timeout_seconds=0.05)


@pytest.mark.parametrize(
    "noise", [b": ping\n\n", b"event: ping\ndata: {}\n\n", build_event({"delta": {"role": "assistant"}})]
)
async def test_o07a_signs_of_life_are_no_first_token(server: ModelServer, noise: bytes) -> None:
    server.reply_hang([piece for _ in range(20) for piece in (noise, 0.02)])
    with pytest.raises(ProviderTimeoutError, match="first_token_timeout_seconds"):
        await ask(server, first_token_timeout_seconds=0.1)


async def test_o07a_a_stream_that_falls_silent_passes_the_idle_limit(server: ModelServer) -> None:
    server.reply_hang([text_event("a")])
    with pytest.raises(ProviderTimeoutError, match="idle_timeout_seconds"):
        await ask(server, idle_timeout_seconds=0.05)


async def test_o07a_comments_do_not_keep_a_silent_stream_alive(server: ModelServer) -> None:
    server.reply_hang([text_event("a"), *[piece for _ in range(20) for piece in (b": ping\n\n", 0.02)]])
    with pytest.raises(ProviderTimeoutError, match="idle_timeout_seconds"):
        await ask(server, idle_timeout_seconds=0.1)


async def test_o07b_a_long_answer_is_not_silent(server: ModelServer) -> None:
    server.reply_bytes([*slow(10, 0.06), STOP, DONE])
    assert (await ask(server, idle_timeout_seconds=0.5)).content == "0123456789"


async def test_o07d_an_answer_without_end_passes_the_total_limit(server: ModelServer) -> None:
    server.reply_hang(slow(100, 0.02))
    with pytest.raises(ProviderTimeoutError, match="total_timeout_seconds"):
        await ask(server, idle_timeout_seconds=5, total_timeout_seconds=0.1)


async def test_o07e_a_late_first_token_within_its_limit_is_no_silence(server: ModelServer) -> None:
    server.reply_bytes([0.4, text_event("a"), STOP, DONE])
    assert (await ask(server, first_token_timeout_seconds=5, idle_timeout_seconds=0.3)).content == "a"


async def test_an_answer_that_comes_whole_has_the_total_limit_only(server: ModelServer) -> None:
    server.reply_bytes([0.1, b'{"choices": [{"message": {"content": "a"}}]}'], content_type="application/json")
    assert (await ask(server, stream=False, first_token_timeout_seconds=0.01)).content == "a"
    server.reply_hang()
    with pytest.raises(ProviderTimeoutError, match="total_timeout_seconds"):
        await ask(server, stream=False, total_timeout_seconds=0.05)


async def test_a_server_that_takes_no_connection_passes_the_connect_limit() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        provider = create_provider(f"http://127.0.0.1:{full.getsockname()[1]}/v1", connect_timeout_seconds=0.05)
        try:
            with pytest.raises(ProviderTimeoutError, match="connect_timeout_seconds"):
                await provider.complete(ASK)
        finally:
            await provider.aclose()
            for one in waiting:
                one.close()


@pytest.mark.parametrize("limit", ["first_token_timeout_seconds", "idle_timeout_seconds", "total_timeout_seconds"])
async def test_a_limit_that_passes_closes_the_connection_and_frees_the_slot(server: ModelServer, limit: str) -> None:
    server.reply_hang([text_event("a")] if limit == "idle_timeout_seconds" else [])
    provider = create_provider(server.base_url, max_calls=1, **{limit: 0.2})
    with anyio.fail_after(5):
        with pytest.raises(ProviderTimeoutError, match=limit):
            await provider.complete(ASK)
        await server.wait_answered()
        assert (await provider.complete(ASK)).content == "echo: hi"
    await provider.aclose()


async def test_a_cancelled_call_closes_its_connection_and_frees_its_slot(server: ModelServer) -> None:
    server.reply_hang([text_event("a")])
    provider = create_provider(server.base_url, max_calls=1)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            await tasks.start(_complete_until_first_delta, provider)
            tasks.cancel_scope.cancel()
        await server.wait_answered()
        assert (await provider.complete(ASK)).content == "echo: hi"
    await provider.aclose()


async def _complete_until_first_delta(
    provider: OpenAIProvider, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    await provider.complete(ASK, lambda delta: task_status.started())


async def test_no_more_calls_at_once_than_the_setting_allows(server: ModelServer) -> None:
    release = anyio.Event()
    server.reply_text("ok", hold=release, times=None)
    provider = create_provider(server.base_url, max_calls=2)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(provider.complete, ASK)
            await server.wait_requests(2)
            await anyio.wait_all_tasks_blocked()
            assert len(server.requests) == 2
            release.set()
    assert len(server.requests) == 5
    await provider.aclose()


async def test_waiting_for_a_slot_is_bounded(server: ModelServer) -> None:
    server.reply_text("ok", hold=anyio.Event(), times=None)
    provider = create_provider(server.base_url, max_calls=1, total_timeout_seconds=0.5)
    limits: list[str] = []

    async def expect_time_out() -> None:
        try:
            await provider.complete(ASK)
        except ProviderTimeoutError as error:
            limits.append(error.limit)

    with anyio.fail_after(5):  # one after another, they would take ten
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(expect_time_out)
    assert limits == ["total_timeout_seconds"] * 20
    await provider.aclose()


# O-08: refusals by status and code.


async def test_o08_a_rate_limit_carries_the_servers_wait(server: ModelServer) -> None:
    server.reply_status(429, {"error": {"message": "slow down"}}, headers={"Retry-After": "3600"})
    with pytest.raises(RateLimitError) as raised:
        await ask(server)
    assert raised.value.retry_after_seconds == 3600


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, ProviderAuthError), (403, ProviderAuthError), (503, ServerFaultError), (422, RequestRefusedError)],
)
async def test_o08_a_refusal_is_asked_once_and_sorted(
    server: ModelServer, status: int, kind: type[ProviderError]
) -> None:
    server.reply_status(status, {"error": {"message": f"no: {KEY}", "code": None}})
    with pytest.raises(kind) as raised:
        await ask(server)
    assert len(server.requests) == 1
    assert KEY not in str(raised.value)


async def test_a_context_that_is_too_long_is_told_by_its_code(server: ModelServer) -> None:
    server.reply_status(400, {"error": {"message": "too long", "code": "context_length_exceeded"}})
    with pytest.raises(ContextLengthError):
        await ask(server)


async def test_an_error_with_status_200_is_an_error(server: ModelServer) -> None:
    server.reply_status(200, {"error": {"message": "gone", "code": 503}})
    with pytest.raises(ServerFaultError):
        await ask(server)


async def test_a_redirect_is_not_followed_with_the_key(server: ModelServer) -> None:
    async with ModelServer() as other:
        server.reply_status(307, "", headers={"Location": f"{other.base_url}/chat/completions"})
        with pytest.raises(RequestRefusedError):
            await ask(server)
        assert other.requests == []


async def test_a_server_that_is_not_there_is_a_connection_error() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    provider = create_provider(f"http://127.0.0.1:{port}/v1")
    with pytest.raises(ProviderConnectionError, match="cannot be reached: ClientConnectorError: Connect call failed"):
        await provider.complete(ASK)
    await provider.aclose()


async def test_blanks_around_a_pasted_key_do_no_harm(server: ModelServer) -> None:
    await ask(server, api_key=SecretStr(f" {KEY}\n"))
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("tail", ["", "/"])
async def test_a_slash_at_the_end_of_the_address_does_no_harm(server: ModelServer, tail: str) -> None:
    provider = create_provider(server.base_url + tail)
    await provider.complete(ASK)
    assert server.requests[0].path == "/v1/chat/completions"
    await provider.aclose()


async def test_an_error_of_the_callers_own_function_goes_through(server: ModelServer, provider: OpenAIProvider) -> None:
    def fail(delta: Delta) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await provider.complete(ASK, fail)
    assert (await provider.complete(ASK)).content == "echo: hi"
