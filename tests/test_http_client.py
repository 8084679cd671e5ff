"""Real loopback sockets for each fault, because what aiohttp calls it is what is under test."""

import asyncio
import base64
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

import aiohttp
import anyio
import anyio.lowlevel
import httpx
import pytest

from nanobee.errors import ConfigError
from nanobee.http_client import HTTP_ERRORS, create_client, create_transport, is_not_sent

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SHORT = httpx.Timeout(0.05)


@asynccontextmanager
async def open_server(handler: Handler) -> AsyncIterator[int]:
    """A loopback server; the port is given, and its connections end with the block."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handler(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)


async def read_head(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            await reader.readexactly(int(line.split(b":")[1]))
    return head


async def answer_ok(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        await read_head(reader)
        writer.write(OK)
        await writer.drain()


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_head(reader)
    writer.transport.abort()


async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer, and close the connection when the second request comes."""
    await read_head(reader)
    writer.write(OK)
    await writer.drain()
    await read_head(reader)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def post(port: int, timeout: httpx.Timeout = SHORT) -> httpx.Response:
    async with create_client(timeout=timeout) as client:
        return await client.post(f"http://127.0.0.1:{port}/bot123:SECRET/x", content=b"{}")


async def test_an_answer_comes_back() -> None:
    async with open_server(answer_ok) as port:
        assert (await post(port, httpx.Timeout(5))).text == "ok"


async def test_a_refused_connection_was_not_sent() -> None:
    with pytest.raises(httpx.ConnectError) as raised:
        await post(free_port())
    assert is_not_sent(raised.value)


async def test_an_unknown_name_was_not_sent() -> None:
    async with create_client() as client:
        with pytest.raises(httpx.ConnectError) as raised:
            await client.post("http://nothing.invalid/", content=b"{}")
    assert is_not_sent(raised.value)


async def test_a_connect_time_out_was_not_sent() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        try:
            with pytest.raises(httpx.ConnectTimeout) as raised:
                await post(full.getsockname()[1])
        finally:
            for one in waiting:
                one.close()
    assert is_not_sent(raised.value)
    assert "SECRET" not in f"{raised.value!r} {raised.value.__cause__!r}"


async def test_a_full_pool_was_not_sent() -> None:
    async with (
        open_server(hang) as port,
        create_client(max_connections=1, timeout=httpx.Timeout(0.05, read=5)) as client,
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.get, f"http://127.0.0.1:{port}/")
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(httpx.ConnectTimeout) as raised:
                await client.post(f"http://127.0.0.1:{port}/", content=b"{}")
            tasks.cancel_scope.cancel()
    assert is_not_sent(raised.value)


async def test_the_pool_limit_is_not_below_the_connect_limit() -> None:
    """python-telegram-bot waits one second for the pool; aiohttp takes that for the whole connect."""
    async with open_server(hang) as port:
        timeout = httpx.Timeout(connect=0.3, pool=0.01, read=5, write=5)
        async with create_client(max_connections=1, timeout=timeout) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.get, f"http://127.0.0.1:{port}/")
            await anyio.wait_all_tasks_blocked()
            started = anyio.current_time()
            with pytest.raises(httpx.ConnectTimeout):
                await client.post(f"http://127.0.0.1:{port}/", content=b"{}")
            tasks.cancel_scope.cancel()
        assert anyio.current_time() - started >= 0.25


async def test_a_cut_before_the_answer_is_unclear_and_no_connect_fault() -> None:
    async with open_server(cut) as port:
        with pytest.raises(httpx.ReadError) as raised:
            await post(port)
    assert not is_not_sent(raised.value)


async def test_a_stale_connection_is_unclear() -> None:
    async with open_server(answer_once) as port, create_client() as client:
        await client.post(f"http://127.0.0.1:{port}/", content=b"1")
        with pytest.raises(httpx.ReadError) as raised:
            await client.post(f"http://127.0.0.1:{port}/", content=b"2")
    assert not is_not_sent(raised.value)


async def test_silence_after_the_request_is_unclear() -> None:
    async with open_server(hang) as port:
        with pytest.raises(httpx.ReadTimeout) as raised:
            await post(port)
    assert not is_not_sent(raised.value)


async def test_a_request_that_is_not_taken_is_bounded_and_unclear() -> None:
    async def take_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await anyio.sleep_forever()

    async with open_server(take_nothing) as port, create_client(timeout=SHORT) as client:
        with anyio.fail_after(5), pytest.raises(httpx.TimeoutException) as raised:
            await client.post(f"http://127.0.0.1:{port}/", content=b"x" * 50_000_000)
    assert not is_not_sent(raised.value)


async def test_a_large_request_arrives_whole() -> None:
    sent = bytes(range(256)) * 8192
    got: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert f"content-length: {len(sent)}\r\n".encode() in head
        got.append(await reader.readexactly(len(sent)))
        writer.write(OK)
        await writer.drain()

    async with open_server(take) as port, create_client() as client:
        await client.post(f"http://127.0.0.1:{port}/", content=sent)
    assert got == [sent]


@pytest.mark.parametrize("framing", [b"Content-Length: 99", b"Transfer-Encoding: chunked"])
async def test_a_cut_in_the_body_is_unclear(framing: bytes) -> None:
    async def cut_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n5\r\nhello\r\n")
        await writer.drain()

    async with open_server(cut_body) as port:
        with pytest.raises(HTTP_ERRORS) as raised:
            await post(port)
    assert not is_not_sent(raised.value)


async def test_an_answer_that_is_not_http_is_unclear() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"SSH-2.0-nothing\r\n\r\n")
        await writer.drain()

    async with open_server(babble) as port:
        with pytest.raises(httpx.RemoteProtocolError) as raised:
            await post(port)
    assert not is_not_sent(raised.value)
    assert "SECRET" not in f"{raised.value!r} {raised.value.__cause__!r}"


def test_a_raw_aiohttp_error_is_unclear() -> None:
    assert not is_not_sent(aiohttp.ClientError("whatever"))
    assert not is_not_sent(aiohttp.ServerDisconnectedError())


def test_the_cause_counts_whatever_is_wrapped_around_it() -> None:
    wrapped = RuntimeError("a library's own error")
    wrapped.__cause__ = aiohttp.ConnectionTimeoutError()
    assert is_not_sent(wrapped)
    assert not is_not_sent(RuntimeError("from nowhere"))


@pytest.mark.parametrize("address", ["ftp://127.0.0.1/", "127.0.0.1/x", "http:///x"])
async def test_an_address_that_is_none_was_not_sent(address: str) -> None:
    async with create_client() as client:
        with pytest.raises(HTTP_ERRORS) as raised:
            await client.get(address)
    assert is_not_sent(raised.value)


async def test_a_closed_transport_opens_again() -> None:
    transport = create_transport()
    async with open_server(answer_ok) as port:
        for _ in range(2):
            async with httpx.AsyncClient(transport=transport) as client:
                assert (await client.get(f"http://127.0.0.1:{port}/")).text == "ok"


async def test_connections_are_reused_and_cookies_are_not_kept() -> None:
    heads: list[bytes] = []
    connections = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            heads.append(await read_head(reader))
            writer.write(OK.replace(b"\r\n\r\n", b"\r\nSet-Cookie: a=b; Path=/\r\n\r\n"))
            await writer.drain()

    transport = create_transport()
    async with open_server(count) as port:
        for _ in range(3):
            async with httpx.AsyncClient(transport=transport) as client:
                await client.get(f"http://127.0.0.1:{port}/")
                transport.aclose = anyio.lowlevel.checkpoint  # type: ignore[method-assign]
        del transport.aclose
        await transport.aclose()
    assert connections == 1
    assert not any(b"cookie" in head.lower() for head in heads)


async def test_credentials_in_an_address_make_one_header() -> None:
    heads: list[bytes] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await read_head(reader))
        writer.write(OK)
        await writer.drain()

    async with open_server(keep) as port, create_client() as client:
        await client.get(f"http://me:pass@127.0.0.1:{port}/")
    assert heads[0].count(b"Basic " + base64.b64encode(b"me:pass")) == 1
    assert b"me:pass@" not in heads[0]


async def test_netrc_does_not_break_a_request_with_its_own_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login a password b\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    async with open_server(answer_ok) as port, create_client(headers={"Authorization": "Bearer k"}) as client:
        assert (await client.get(f"http://127.0.0.1:{port}/")).status_code == 200


@asynccontextmanager
async def open_proxy(heads: list[bytes]) -> AsyncIterator[int]:
    """An HTTP proxy that answers plain requests itself and refuses tunnels."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await read_head(reader)
        heads.append(head)
        writer.write(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n" if head.startswith(b"CONNECT") else OK)
        await writer.drain()

    async with open_server(serve) as port:
        yield port


async def test_a_proxy_setting_is_used_with_its_credentials() -> None:
    heads: list[bytes] = []
    async with open_proxy(heads) as port, create_client(proxy=f"http://me:p%40ss@127.0.0.1:{port}") as client:
        assert (await client.get("http://model.invalid/v1/models")).text == "ok"
    assert heads[0].startswith(b"GET http://model.invalid/v1/models ")
    assert b"proxy-authorization: basic " + base64.b64encode(b"me:p@ss").lower() in heads[0].lower()


async def test_a_proxy_that_refuses_the_tunnel_was_not_sent() -> None:
    heads: list[bytes] = []
    async with open_proxy(heads) as port, create_client(proxy=f"http://me:pass@127.0.0.1:{port}") as client:
        with pytest.raises(httpx.ProxyError) as raised:
            await client.post("https://model.invalid/SECRET", content=b"{}")
    assert heads[0].startswith(b"CONNECT model.invalid:443 ")
    assert b"proxy-authorization: basic " + base64.b64encode(b"me:pass").lower() in heads[0].lower()
    assert is_not_sent(raised.value)
    assert "SECRET" not in f"{raised.value!r} {raised.value.__cause__!r}"


async def test_a_proxy_that_is_not_there_was_not_sent() -> None:
    async with create_client(proxy=f"http://127.0.0.1:{free_port()}") as client:
        with pytest.raises(httpx.ProxyError) as raised:
            await client.post("http://model.invalid/", content=b"{}")
    assert is_not_sent(raised.value)


@pytest.fixture
def no_env_proxy(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


async def test_the_environments_proxy_is_used(no_env_proxy: pytest.MonkeyPatch) -> None:
    heads: list[bytes] = []
    async with open_proxy(heads) as port:
        no_env_proxy.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        async with create_client() as client:
            await client.get("http://model.invalid/a")
            await client.get("http://model.invalid/b")
    assert [head.split()[1] for head in heads] == [b"http://model.invalid/a", b"http://model.invalid/b"]


async def test_no_proxy_goes_around_the_environments_proxy(no_env_proxy: pytest.MonkeyPatch) -> None:
    heads: list[bytes] = []
    async with open_proxy(heads) as port:
        no_env_proxy.setenv("http_proxy", f"http://127.0.0.1:{port}")
        no_env_proxy.setenv("no_proxy", "model.invalid")
        async with create_client() as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("http://model.invalid/a")
    assert heads == []


async def test_a_server_on_this_machine_is_never_behind_the_environments_proxy(
    no_env_proxy: pytest.MonkeyPatch,
) -> None:
    heads: list[bytes] = []
    async with open_proxy(heads) as proxy_port, open_server(answer_ok) as port:
        no_env_proxy.setenv("http_proxy", f"http://127.0.0.1:{proxy_port}")
        async with create_client() as client:
            assert (await client.get(f"http://127.0.0.1:{port}/")).text == "ok"
            assert (await client.get(f"http://localhost:{port}/")).text == "ok"
    assert heads == []


async def test_an_environments_proxy_that_cannot_be_used_is_not_gone_around(no_env_proxy: pytest.MonkeyPatch) -> None:
    no_env_proxy.setenv("ALL_PROXY", "gopher://127.0.0.1:1")
    async with create_client() as client:
        with pytest.raises(httpx.ProxyError, match="not a proxy address") as raised:
            await client.get("http://model.invalid/a")
    assert is_not_sent(raised.value)


@pytest.mark.parametrize("proxy", ["", "127.0.0.1:80", "gopher://h:1", "http://", "http://h:port", "http://h:99999"])
def test_a_proxy_setting_that_is_none_is_refused(proxy: str) -> None:
    with pytest.raises(ConfigError, match="not a proxy address"):
        create_client(proxy=proxy)


def test_socks_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp_socks", None)
    with pytest.raises(ConfigError, match="extra `socks`"):
        create_transport(proxy="socks5://127.0.0.1:1080")


@pytest.fixture
def aiohttp_socks() -> ModuleType:
    module: ModuleType = pytest.importorskip("aiohttp_socks", reason="the extra `socks` is not installed")
    return module


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
async def test_a_socks_proxy_is_used(aiohttp_socks: ModuleType, scheme: str) -> None:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(b"\x05\x00")
        *_, kind = await reader.readexactly(4)
        assert kind == 3  # a name: the proxy resolves it
        asked.append(await reader.readexactly((await reader.readexactly(1))[0]))
        await reader.readexactly(2)
        writer.write(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")
        await read_head(reader)
        writer.write(OK)
        await writer.drain()

    async with open_server(serve) as port, create_client(proxy=f"{scheme}://127.0.0.1:{port}") as client:
        assert (await client.get("http://model.invalid/")).text == "ok"
    assert asked == [b"model.invalid"]


async def refuse_socks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    _, methods = await reader.readexactly(2)
    await reader.readexactly(methods)
    writer.write(b"\x05\xff")
    await writer.drain()


async def test_a_socks_proxy_that_refuses_was_not_sent(aiohttp_socks: ModuleType) -> None:
    async with open_server(refuse_socks) as port, create_client(proxy=f"socks5://127.0.0.1:{port}") as client:
        with pytest.raises(httpx.TransportError) as raised:
            await client.post("http://model.invalid/", content=b"{}")
    assert is_not_sent(raised.value)


async def test_a_socks_proxy_that_is_not_there_was_not_sent(aiohttp_socks: ModuleType) -> None:
    async with create_client(proxy=f"socks5://127.0.0.1:{free_port()}") as client:
        with pytest.raises(httpx.TransportError) as raised:
            await client.post("http://model.invalid/", content=b"{}")
    assert is_not_sent(raised.value)


async def test_a_socks_proxy_that_hangs_was_not_sent(aiohttp_socks: ModuleType) -> None:
    async with open_server(hang) as port, create_client(proxy=f"socks5://127.0.0.1:{port}", timeout=SHORT) as client:
        with pytest.raises(httpx.TransportError) as raised:
            await client.post("http://model.invalid/", content=b"{}")
    assert is_not_sent(raised.value)


async def test_a_cancelled_request_closes_its_connection() -> None:
    gone = anyio.Event()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        await reader.read()
        gone.set()

    async with open_server(watch) as port, create_client() as client:
        with anyio.move_on_after(0.05):
            await client.get(f"http://127.0.0.1:{port}/")
        with anyio.fail_after(5):
            await gone.wait()


@pytest.mark.parametrize("module", ["nanobee.http_client", "nanobee.providers.openai"])
def test_importing_it_loads_no_command_line(module: str) -> None:
    code = f"import {module}, sys; print([m for m in ('rich', 'pygments') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.strip() == "[]"
    code = "import nanobee.http_client, httpx._main; print(httpx._main.main)"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
