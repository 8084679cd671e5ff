"""The search for model servers: what counts as one, whatever else stands behind the ports."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio
import pytest

from nanobee.providers.catalog import LocalServer
from nanobee.providers.probe import (
    PROBE_SECONDS,
    ProbeError,
    ServedModel,
    build_request,
    describe_model,
    find_local_server,
    is_whole,
    list_models,
    parse_answer,
    parse_model_list,
    rank_models,
)
from nanobee.testing.model_server import ModelServer

SLACK_SECONDS = 2.0
"""What a busy machine may add to a bound."""


@dataclass
class RawServer:
    """Answers a path with exact bytes, and each other one with silence."""

    answers: Mapping[str, bytes]
    keeps_open: bool = False
    port: int = 0
    heads: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):  # the client has gone
            await self.answer(reader, writer)
        writer.close()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head.decode())
        answer = self.answers.get(head.split(b" ")[1].decode())
        if answer is None:
            await reader.read()
        else:
            writer.write(answer)
            await writer.drain()
            if self.keeps_open:
                await reader.read()


@asynccontextmanager
async def run_server(answers: Mapping[str, bytes], *, keeps_open: bool = False) -> AsyncGenerator[RawServer]:
    server = RawServer(answers, keeps_open)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    async with listener:
        yield server


def http(body: str | bytes, status: str = "200 OK", *headers: str) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode() + data


def models(*names: str) -> bytes:
    return http(json.dumps({"object": "list", "data": [{"id": name} for name in names]}))


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def at(port: int, name: str = "vllm", *, is_ollama: bool = False) -> LocalServer:
    return LocalServer(name=name, title=name, port=port, is_ollama=is_ollama)


GARBAGE = {
    "a page": http("<!doctype html><html><body>hello</body></html>", "200 OK", "Content-Type: text/html"),
    "not found": http('{"object": "list", "data": []}', "404 Not Found"),
    "a redirect": http("", "302 Found", "Location: http://192.0.2.1/v1/models"),
    "nothing": b"",
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "another JSON": http('{"message": "hello"}'),
    "a bare list": http('["gpt"]'),
    "a list of texts": http('{"object": "list", "data": ["gpt"]}'),
    "data of another kind": http('{"object": "list", "data": {"id": "gpt"}}'),
    "cut JSON": http('{"object": "list", "data": [{"id": "gp'),
    "deep JSON": http("[" * 100_000),
    "broken text": http(b'{"object": "list", "data": [{"id": "\xff\xfe"}]}'),
    "broken chunks": http("zz\r\nhello", "200 OK", "Transfer-Encoding: chunked"),
    "no model": http('{"object": "list", "data": null}'),
    "no chat model": models("nomic-embed-text:latest", "bge-m3"),
    "names for no screen": models("a\x1b[2Jb", "", "   ", "x" * 500),
}


@pytest.mark.parametrize("answer", GARBAGE.values(), ids=GARBAGE.keys())
async def test_garbage_on_a_port_is_no_model_server(answer: bytes) -> None:
    async with run_server({"/v1/models": answer}) as server:
        with anyio.fail_after(SLACK_SECONDS + PROBE_SECONDS):
            assert await find_local_server([at(server.port)]) is None


async def test_an_endless_answer_is_given_up_within_the_time() -> None:
    async with run_server({"/v1/models": http("x" * 8_000_000)}, keeps_open=True) as server:
        with anyio.fail_after(SLACK_SECONDS + PROBE_SECONDS):
            assert await find_local_server([at(server.port)]) is None


async def test_silent_and_closed_ports_cost_the_bound_once_and_hide_nobody() -> None:
    async with AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(run_server({})) for _ in range(3)]
        good = await stack.enter_async_context(run_server({"/v1/models": models("qwen3")}))
        servers = [
            *(at(server.port, "silent") for server in silent),
            at(closed_port(), "closed"),
            at(good.port, "good"),
        ]
        started = anyio.current_time()
        found = await find_local_server(servers)
        assert anyio.current_time() - started < PROBE_SECONDS + SLACK_SECONDS
    assert found is not None
    assert (found.server.name, found.model.name) == ("good", "qwen3")


async def test_the_search_ends_without_waiting_for_servers_that_come_after_one_that_answered() -> None:
    async with run_server({"/v1/models": models("first")}) as good, run_server({}) as silent:
        with anyio.fail_after(SLACK_SECONDS):
            found = await find_local_server([at(good.port), at(silent.port)], seconds=60)
    assert found is not None
    assert found.model.name == "first"


async def test_the_order_of_the_servers_decides_and_not_their_speed() -> None:
    async with run_server({"/v1/models": models("slow")}) as one, run_server({"/v1/models": models("quick")}) as two:
        found = await find_local_server([at(one.port, "one"), at(two.port, "two")])
    assert found is not None
    assert found.server.name == "one"


async def test_an_answer_is_read_from_a_connection_that_stays_open() -> None:
    body = models("kept").partition(b"\r\n\r\n")[2]
    answer = http(body, "200 OK", f"Content-Length: {len(body)}")
    async with run_server({"/v1/models": answer}, keeps_open=True) as server:
        with anyio.fail_after(SLACK_SECONDS):
            assert await list_models(f"http://127.0.0.1:{server.port}/v1", seconds=60) == (ServedModel("kept"),)


async def test_the_scripted_model_server_is_found() -> None:
    async with ModelServer(models=["text-embedding-3-small", "test-model"]) as server:
        found = await find_local_server([at(int(server.base_url.rpartition(":")[2].removesuffix("/v1")))])
    assert found is not None
    assert found.model == ServedModel("test-model")


@pytest.mark.parametrize(
    ("entry", "context_tokens"),
    [
        ({"max_model_len": 32_768}, 32_768),
        ({"meta": {"n_ctx": 4_096, "n_ctx_train": 131_072}}, 4_096),
        ({"meta": None}, None),
        ({"max_model_len": "many"}, None),
        ({"max_model_len": True}, None),
        ({"max_model_len": -1}, None),
    ],
)
def test_the_window_is_what_the_server_says_it_is(entry: dict[str, object], context_tokens: int | None) -> None:
    assert parse_model_list({"object": "list", "data": [{"id": "m", **entry}]}) == (ServedModel("m", context_tokens),)


def test_chat_models_come_in_the_servers_order_with_second_choices_last() -> None:
    names = ["nomic-embed-text", "gpt-oss:120b-cloud", "codellama:code", "qwen3:8b", "whisper-1", "llama3.2:latest"]
    ranked = rank_models([ServedModel(name) for name in names])
    assert [model.name for model in ranked] == ["qwen3:8b", "llama3.2:latest", "gpt-oss:120b-cloud", "codellama:code"]


class Ollama(RawServer):
    """Tells each model's capabilities too."""

    def __init__(self, capabilities: Mapping[str, object]) -> None:
        super().__init__({"/v1/models": models(*capabilities)})
        self.capabilities = capabilities

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        answer = self.answers["/v1/models"]
        if head.startswith(b"POST /api/show "):
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            name = json.loads(await reader.readexactly(length))["model"]
            told = self.capabilities[name]
            if told is None:
                await reader.read()
            answer = http(json.dumps({"capabilities": told}))
        writer.write(answer)


OLLAMA_CASES: dict[str, tuple[dict[str, object], ServedModel | None]] = {
    "the newest": ({"a": ["completion", "tools"], "b": ["completion", "tools"]}, ServedModel("a", None, True)),
    "one with tools": ({"a": ["completion"], "b": ["completion", "tools"]}, ServedModel("b", None, True)),
    "one without tools": ({"a": ["completion"]}, ServedModel("a", None, False)),
    "never one that only embeds": ({"mxbai": ["embedding"], "b": ["completion"]}, ServedModel("b", None, False)),
    "none of those that embed": ({"mxbai": ["embedding"]}, None),
    "one that it does not tell about": ({"a": None}, ServedModel("a")),
    "one of an older version": ({"a": "unknown"}, ServedModel("a")),
}


@pytest.mark.parametrize(("capabilities", "expected"), OLLAMA_CASES.values(), ids=OLLAMA_CASES.keys())
async def test_of_ollamas_models_is_taken(capabilities: dict[str, object], expected: ServedModel | None) -> None:
    ollama = Ollama(capabilities)
    async with await asyncio.start_server(ollama.serve, "127.0.0.1", 0) as listener:
        found = await find_local_server([at(listener.sockets[0].getsockname()[1], is_ollama=True)])
    assert (found.model if found else None) == expected


async def test_a_named_model_keeps_the_name_by_which_it_was_called() -> None:
    ollama = Ollama({"qwen3:latest": ["completion"]})
    async with await asyncio.start_server(ollama.serve, "127.0.0.1", 0) as listener:
        server = at(listener.sockets[0].getsockname()[1], is_ollama=True)
        assert await describe_model(server, "qwen3") == ServedModel("qwen3", None, takes_tools=False)
    assert await describe_model(server, "qwen3") == ServedModel("qwen3")


async def test_a_key_goes_with_the_question() -> None:
    async with run_server({"/v1/models": models("m")}) as server:
        await list_models(f"http://127.0.0.1:{server.port}/v1/", api_key="sk-test")
        assert "\r\nAuthorization: Bearer sk-test\r\n" in server.heads[0]


@pytest.mark.parametrize(
    "base_url", ["", "127.0.0.1:8000/v1", "ftp://127.0.0.1/v1", "http:///v1", "http://[::1/v1", "http://127.0.0.1:x/v1"]
)
async def test_what_is_no_address_is_not_asked(base_url: str) -> None:
    with pytest.raises(ProbeError):
        await list_models(base_url)


@pytest.mark.parametrize("key", ["sk\r\nX-Evil: 1", "sk-ключ"])
def test_a_key_cannot_add_lines_to_a_request(key: str) -> None:
    with pytest.raises(ProbeError) as caught:
        build_request("/v1/models", "127.0.0.1", key, None)
    assert key not in str(caught.value)


def chunked(*parts: str) -> bytes:
    return b"".join(b"%x;note\r\n%s\r\n" % (len(part), part.encode()) for part in [*parts, ""])


CHUNKED: dict[str, Callable[[], bytes]] = {
    "whole": lambda: chunked('{"a": 1}'),
    "in pieces": lambda: chunked('{"a"', ": 1}"),
    "without its end": lambda: chunked('{"a": 1}').removesuffix(b"0;note\r\n\r\n"),
}


@pytest.mark.parametrize("body", CHUNKED.values(), ids=CHUNKED.keys())
def test_chunks_are_joined(body: Callable[[], bytes]) -> None:
    assert parse_answer(http(body(), "200 OK", "Transfer-Encoding: chunked")) == {"a": 1}


def test_an_answer_is_whole_when_its_announced_length_has_come() -> None:
    answer = http("{}", "200 OK", "content-length: 2")
    assert is_whole(answer)
    assert not is_whole(answer[:-1])
    assert not is_whole(http("{}"))
    assert not is_whole(http("{}", "200 OK", "Content-Length: two"))


def test_an_answer_in_chunks_is_whole_with_its_last_one() -> None:
    answer = http(b"2\r\n{}\r\n0\r\n\r\n", "200 OK", "transfer-encoding: Chunked")
    assert is_whole(answer)
    assert not is_whole(answer[:-1])
