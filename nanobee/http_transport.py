"""The transport under every HTTP client: aiohttp's, with its faults told apart.

aiohttp's faults arrive coarsely mapped at httpx (refused, cut after the request and a stale
connection all look like a connect time-out), so they are sorted here by their cause.
"""

import logging
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from functools import cache
from types import ModuleType
from typing import cast

import aiohttp
import anyio

from nanobee.errors import ConfigError
from nanobee.http_proxy import Proxy, find_env_proxy, import_socks

_HTTPX_COMMAND = "httpx._main"
# httpx takes this module's absence as "command line not installed"; with it (click, rich, pygments)
# the import costs more than twice as much. The mark is removed again below. Our other modules take
# `httpx` from here, so that none of them imports it first.
_is_hidden = "httpx" not in sys.modules and sys.modules.setdefault(_HTTPX_COMMAND, cast(ModuleType, None)) is None

import httpx  # noqa: E402
import httpx_aiohttp  # noqa: E402

if _is_hidden:
    del sys.modules[_HTTPX_COMMAND]

__all__ = ["Transport", "UnsentError", "httpx", "is_not_sent"]

KEEPALIVE_SECONDS = 15.0
"""How long an idle connection is kept; many servers close theirs after little more."""
PIECE_BYTES = 256 * 1024
"""Larger request bodies are written in pieces of this size."""

# A request's URL holds the token on some platforms, and httpx logs it at level INFO.
logging.getLogger("httpx").setLevel(logging.WARNING)


def is_not_sent(error: BaseException) -> bool:
    """Whether the request surely did not arrive; False means that the outcome is unknown.

    Takes what a client raised, or what another library raised from it: causes are followed.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, _NOT_SENT):
            return True
        seen = seen.__cause__
    return False


class UnsentError(Exception):
    """The cause of a client's error whose request did not arrive.

    It stands in for aiohttp's own error, whose text may quote the address and with it a token.
    """


_NOT_SENT = (
    UnsentError,
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
    aiohttp.NonHttpUrlClientError,
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
)
_KINDS: tuple[tuple[type[aiohttp.ClientError], type[httpx.TransportError]], ...] = (
    (aiohttp.ConnectionTimeoutError, httpx.ConnectTimeout),
    (aiohttp.ServerTimeoutError, httpx.ReadTimeout),
    (aiohttp.ClientProxyConnectionError, httpx.ProxyError),
    (aiohttp.ClientHttpProxyError, httpx.ProxyError),
    (aiohttp.ClientConnectorError, httpx.ConnectError),
    (aiohttp.ClientConnectionError, httpx.ReadError),
)
"""The first that fits."""


@cache
def _tls_context() -> ssl.SSLContext:
    """Loading the certificates costs some 20 ms, so only the first TLS address pays for it."""
    return httpx.create_ssl_context()


@cache
def _plain_context() -> ssl.SSLContext:
    """Stands in where no TLS is spoken; it trusts nobody."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Transport(httpx.AsyncBaseTransport):
    """Picks the proxy, bounds the sending, and opens one pool a proxy and kind of address.

    The environment's proxies are looked up here and not by aiohttp, whose `trust_env` also reads
    .netrc and then refuses every request that brings its own Authorization header.
    Closing it closes the pools; a later request opens new ones, so that a library can reuse it.
    """

    def __init__(self, proxy: Proxy | None, max_connections: int) -> None:
        self._proxy = proxy
        self._max_connections = max_connections
        self._pools: dict[tuple[Proxy | None, bool], httpx_aiohttp.AiohttpTransport] = {}
        self._env_proxies: dict[tuple[str, bytes], Proxy | None] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.scheme not in ("http", "https") or not request.url.host:
            raise httpx.UnsupportedProtocol("the address is not http:// or https:// with a host", request=request)
        if request.url.userinfo:
            # httpx has made a header of it; aiohttp would make a second one.
            request.url = request.url.copy_with(userinfo=b"")
        proxy = self._proxy if self._proxy is not None else await self._env_proxy(request.url)
        is_tls = request.url.scheme == "https"
        if proxy is not None and not is_tls:
            # Without a tunnel the proxy reads the request itself.
            request.headers.update(proxy.headers)
        limit = _bound_connect(request)
        pool = self._pool(proxy, is_tls or (proxy is not None and proxy.is_tls))
        try:
            with anyio.fail_after(limit):
                return await _send(pool, _in_pieces(request))
        except TimeoutError:
            raise httpx.WriteTimeout("the request was not taken in time", request=request) from None

    async def aclose(self) -> None:
        pools = list(self._pools.values())
        self._pools.clear()
        for pool in pools:
            await pool.aclose()

    def _pool(self, proxy: Proxy | None, is_tls: bool) -> httpx_aiohttp.AiohttpTransport:
        key = (proxy, is_tls)
        pool = self._pools.get(key)
        if pool is None or (isinstance(pool.client, aiohttp.ClientSession) and pool.client.closed):
            pool = self._pools[key] = self._open_pool(proxy, is_tls)
        return pool

    def _open_pool(self, proxy: Proxy | None, is_tls: bool) -> httpx_aiohttp.AiohttpTransport:
        context = _tls_context() if is_tls else _plain_context()
        by_request = None
        if proxy is not None and not proxy.is_socks:
            by_request = httpx.Proxy(proxy.url, headers=proxy.headers)
        return httpx_aiohttp.AiohttpTransport(
            verify=context,
            proxy=by_request,
            client=self._session_factory(proxy, context),
        )

    def _session_factory(self, proxy: Proxy | None, context: ssl.SSLContext) -> Callable[[], aiohttp.ClientSession]:
        def create_session() -> aiohttp.ClientSession:
            connector: aiohttp.BaseConnector
            if proxy is not None and proxy.is_socks:
                connector = import_socks().ProxyConnector.from_url(
                    proxy.url, ssl=context, limit=self._max_connections, keepalive_timeout=KEEPALIVE_SECONDS
                )
            else:
                connector = aiohttp.TCPConnector(
                    ssl=context, limit=self._max_connections, keepalive_timeout=KEEPALIVE_SECONDS
                )
            return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

        return create_session

    async def _env_proxy(self, url: httpx.URL) -> Proxy | None:
        key = (url.scheme, url.netloc)
        if key not in self._env_proxies:
            try:
                self._env_proxies[key] = await find_env_proxy(f"{url.scheme}://{url.netloc.decode('ascii')}")
            except ConfigError as error:
                reason = error.problems[0].reason
                raise httpx.ProxyError(f"the environment's proxy: {reason}") from UnsentError(reason)
        return self._env_proxies[key]


class _Pieces(httpx.AsyncByteStream):
    """A large request body, handed over in pieces so that the loop is not held up."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._content), PIECE_BYTES):
            yield self._content[start : start + PIECE_BYTES]


def _in_pieces(request: httpx.Request) -> httpx.Request:
    if not isinstance(request.stream, httpx.ByteStream) or len(request.content) <= PIECE_BYTES:
        return request
    return httpx.Request(
        request.method,
        request.url,
        headers=request.headers,
        stream=_Pieces(request.content),
        extensions=request.extensions,
    )


class _Body(httpx.AsyncByteStream):
    """The body of an answer, with our translation of what breaks it."""

    def __init__(self, stream: httpx.AsyncByteStream, request: httpx.Request) -> None:
        self._stream = stream
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                yield chunk
            return
        except (httpx.TransportError, aiohttp.ClientError) as error:
            fault = _translate(error, self._request)
        raise fault

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
            return
        except (httpx.TransportError, aiohttp.ClientError) as error:
            fault = _translate(error, self._request)
        raise fault


async def _send(pool: httpx_aiohttp.AiohttpTransport, request: httpx.Request) -> httpx.Response:
    try:
        response = await pool.handle_async_request(request)
        response.stream = _Body(cast(httpx.AsyncByteStream, response.stream), request)
        return response
    except (httpx.TransportError, aiohttp.ClientError) as error:
        fault = _translate(error, request)
        is_unsent = is_not_sent(error) or _is_socks_fault(error)
    except Exception as error:
        # A SOCKS proxy's own refusals are not aiohttp's errors.
        if not _is_socks_fault(error):
            raise
        fault, is_unsent = httpx.ProxyError(_describe(error), request=request), True
    raise fault from (UnsentError(str(fault)) if is_unsent else None)


def _translate(error: httpx.TransportError | aiohttp.ClientError, request: httpx.Request) -> httpx.TransportError:
    """httpx's error for what aiohttp says, without the texts of the layers below, which may quote a token."""
    cause = error.__cause__ or error
    kind = type(error) if isinstance(error, httpx.TransportError) else httpx.RemoteProtocolError
    for cause_kind, its_kind in _KINDS:
        if isinstance(cause, cause_kind):
            kind = its_kind
            break
    return kind(_describe(cause), request=request)


def _bound_connect(request: httpx.Request) -> float | None:
    """Keep the pool's limit above the connect limit, and return the bound for sending the request.

    aiohttp applies the pool's limit to the whole connect, TLS too, and knows none for writing.
    """
    limits = request.extensions.get("timeout")
    if not limits:
        return None
    connect, pool = limits.get("connect"), limits.get("pool")
    if pool is not None and (connect is None or connect > pool):
        pool = connect
        request.extensions = {**request.extensions, "timeout": {**limits, "pool": pool}}
    parts = (pool, limits.get("write"), limits.get("read"))
    return None if None in parts else sum(parts)


def _is_socks_fault(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if type(seen).__module__.startswith(("python_socks", "aiohttp_socks")):
            return True
        seen = seen.__cause__
    return False


def _describe(error: BaseException) -> str:
    """The kind and the system's reason: `ClientConnectorError: Connect call failed`."""
    reason = error.strerror if isinstance(error, OSError) else None
    return f"{type(error).__name__}: {reason}" if reason else type(error).__name__
