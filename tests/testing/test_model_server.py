import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest

from nanobee.http_client import create_client
from nanobee.testing.model_replies import Break, RequestBody
from nanobee.testing.model_server import ModelServer
from nanobee.testing.strict_history import StrictHistory

HI = [{"role": "user", "content": "hi"}]
BROKEN = [{"role": "assistant", "content": "hi"}]


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with create_client() as client:
        yield client


async def post(
    client: httpx.AsyncClient, server: ModelServer, messages: object = HI, *, stream: bool = False
) -> httpx.Response:
    body = {"model": "m", "messages": messages, "stream": stream}
    with anyio.fail_after(10):
        return await client.post(f"{server.base_url}/chat/completions", json=body)


def message_of(response: httpx.Response) -> Any:
    return response.json()["choices"][0]["message"]


def says(text: str) -> Any:
    def match(request: RequestBody) -> bool:
        return bool(request["messages"][-1]["content"] == text)

    return match


async def test_it_echoes_without_a_script(client: httpx.AsyncClient) -> None:
    async with ModelServer() as server:
        assert message_of(await post(client, server))["content"] == "echo: hi"


async def test_replies_are_used_in_their_order(client: httpx.AsyncClient) -> None:
    async with ModelServer() as server:
        server.reply_text("one")
        server.reply_text("two", times=2)
        said = [message_of(await post(client, server))["content"] for _ in range(4)]
    assert said == ["one", "two", "two", "echo: hi"]


async def test_a_reply_can_choose_its_request(client: httpx.AsyncClient) -> None:
    async with ModelServer() as server:
        server.reply_text("for b", when=says("b"))
        server.reply_text("for all", times=None)
        said = [
            message_of(await post(client, server, [{"role": "user", "content": text}]))["content"] for text in "abb"
        ]
    assert said == ["for all", "for b", "for all"]


async def test_a_stream_is_sent_where_one_is_asked_for(client: httpx.AsyncClient) -> None:
    async with ModelServer() as server:
        server.reply_text("one two")
        response = await post(client, server, stream=True)
    assert response.headers["content-type"] == "text/event-stream"
    events = [line.removeprefix("data: ") for line in response.text.split("\n") if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    texts = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"]]
    assert texts == ["", "one ", "two", ""]
    assert chunks[-1]["usage"]["completion_tokens"] > 0


@pytest.mark.parametrize("stream", [True, False])
async def test_calls_are_sent_with_ids_of_their_own(client: httpx.AsyncClient, stream: bool) -> None:
    async with ModelServer() as server:
        server.reply_calls(("a", {"x": 1}), ("b", '{"raw'), text="Looking.")
        text = (await post(client, server, stream=stream)).text
    assert '"call_1_0"' in text
    assert '"call_1_1"' in text
    assert json.dumps('{"x": 1}') in text


async def test_bytes_are_sent_as_they_are(client: httpx.AsyncClient) -> None:
    async with ModelServer() as server:
        server.reply_bytes([b"a", b"", b"\xff"], content_type="x/y", is_chunked=False)
        response = await post(client, server)
    assert response.content == b"a\xff"
    assert response.headers["content-type"] == "x/y"


@pytest.mark.parametrize(("body", "kind"), [({"error": "no"}, "application/json"), ("<html>", "text/html")])
async def test_a_status_is_sent_with_its_body(client: httpx.AsyncClient, body: Any, kind: str) -> None:
    async with ModelServer() as server:
        server.reply_status(429, body, headers={"Retry-After": "7"})
        response = await post(client, server)
    assert (response.status_code, response.headers["content-type"]) == (429, kind)
    assert response.headers["retry-after"] == "7"


async def test_a_held_reply_waits_for_its_event(client: httpx.AsyncClient) -> None:
    release = anyio.Event()
    got: list[str] = []
    async with ModelServer() as server:
        reply = server.reply_text("late", hold=release)

        async def ask() -> None:
            got.append(message_of(await post(client, server))["content"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            with anyio.fail_after(5):
                await reply.asked.wait()
            await anyio.wait_all_tasks_blocked()
            assert got == []
            assert server.open_answers == 1
            release.set()
        assert got == ["late"]
        await server.wait_answered()
        assert server.open_answers == 0


async def test_a_piece_that_is_an_event_holds_the_rest(client: httpx.AsyncClient) -> None:
    release = anyio.Event()
    async with ModelServer() as server:
        server.reply_bytes([b"first", release, b"second"])
        body = {"messages": HI}
        async with client.stream("POST", f"{server.base_url}/chat/completions", json=body) as response:
            chunks = response.aiter_bytes()
            assert await anext(chunks) == b"first"
            release.set()
            assert await anext(chunks) == b"second"


@pytest.mark.parametrize("after", [[], [b"a"]])
async def test_a_cut_resets_the_connection(client: httpx.AsyncClient, after: list[bytes]) -> None:
    async with ModelServer() as server:
        server.reply_cut(after)
        with pytest.raises(httpx.NetworkError):
            await post(client, server)


async def test_a_hanging_reply_ends_when_the_client_leaves(client: httpx.AsyncClient) -> None:
    async with ModelServer() as server:
        server.reply_hang([b"a"])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post, client, server)
            with anyio.fail_after(5):
                await server.wait_requests(1)
            tasks.cancel_scope.cancel()
        with anyio.fail_after(5):
            await server.wait_answered()


async def test_closing_ends_what_still_hangs() -> None:
    with anyio.fail_after(5):
        async with create_client() as client, anyio.create_task_group() as tasks:
            async with ModelServer() as server:
                server.reply_bytes([b"a", Break.HANG])
                tasks.start_soon(_expect_end, client, server)
                await server.wait_requests(1)


async def _expect_end(client: httpx.AsyncClient, server: ModelServer) -> None:
    with pytest.raises(httpx.TransportError):
        await post(client, server)


async def test_requests_are_recorded(client: httpx.AsyncClient) -> None:
    async with ModelServer() as server:
        await post(client, server)
        (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["content-type"] == "application/json"
    assert request.json["model"] == "m"
    assert request.messages == HI


async def test_a_broken_history_is_answered_with_400_and_fails_the_test(client: httpx.AsyncClient) -> None:
    async def run() -> httpx.Response:
        async with ModelServer() as server:
            server.reply_text("unused")
            return await post(client, server, BROKEN)

    with pytest.raises(AssertionError, match="R3"):
        await run()


async def test_a_broken_history_may_be_asked_for(client: httpx.AsyncClient) -> None:
    async with ModelServer(fail_on_violation=False) as server:
        response = await post(client, server, BROKEN)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("R3")
    assert [violation[:2] for violation in server.violations] == ["R3"]


async def test_a_broken_history_does_not_hide_the_tests_own_error(client: httpx.AsyncClient) -> None:
    async def run() -> None:
        async with ModelServer() as server:
            await post(client, server, BROKEN)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run()


async def test_it_holds_reasoning_to_the_calls_that_it_sent(client: httpx.AsyncClient) -> None:
    async with ModelServer(history=StrictHistory(reasoning=True), fail_on_violation=False) as server:
        server.reply_calls(("f", {}), reasoning="because")
        sent = message_of(await post(client, server))
        answered = [*HI, sent, {"role": "tool", "tool_call_id": sent["tool_calls"][0]["id"], "content": "x"}]
        assert (await post(client, server, answered)).status_code == 200
        del sent["reasoning_content"]
        assert (await post(client, server, answered)).status_code == 400


async def test_models_are_listed(client: httpx.AsyncClient) -> None:
    async with ModelServer(models=["a", "b"]) as server:
        models = (await client.get(f"{server.base_url}/models")).json()
    assert [model["id"] for model in models["data"]] == ["a", "b"]


async def test_another_path_is_not_found(client: httpx.AsyncClient) -> None:
    async with ModelServer() as server:
        assert (await client.get(f"{server.base_url}/nothing")).status_code == 404
        assert server.requests == []


async def test_it_runs_as_a_process_of_its_own(client: httpx.AsyncClient) -> None:
    command = [sys.executable, "-m", "nanobee.testing.model_server", "--delay", "0.01"]
    async with await anyio.open_process(command) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            with anyio.fail_after(20):
                url = json.loads(await process.stdout.receive())["url"]
                response = await client.post(f"{url}/chat/completions", json={"model": "m", "messages": HI})
        finally:
            process.terminate()
        errors = b"".join([piece async for piece in process.stderr])
    assert message_of(response)["content"] == "echo: hi"
    assert errors == b""
