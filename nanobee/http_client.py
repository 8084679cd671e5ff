"""HTTP clients: httpx as the interface, aiohttp as the transport, built in this one place.

httpx's own pool costs several times the CPU with dozens of calls at once, and it leaks requests
that are cancelled. aiohttp's faults arrive coarsely mapped (refused, cut after the request and
a stale connection all look like a connect time-out), so `is_not_sent` looks at their cause.
"""

import logging
import ssl
import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import cast

import aiohttp
import anyio

from nanobee.errors import ConfigError
from nanobee.http_proxy import Proxy, find_env_proxy, import_socks, read_proxy

_HTTPX_COMMAND = "httpx._main"
# httpx takes this module's absence as "command line not installed"; with it (click, rich, pygments)
# the import costs more than twice as much. The mark is removed again below.
_is_hidden = "httpx" not in sys.modules and sys.modules.setdefault(_HTTPX_COMMAND, cast(ModuleType, None)) is None

import httpx  # noqa: E402
import httpx_aiohttp  # noqa: E402

if _is_hidden:
    del sys.modules[_HTTPX_COMMAND]

CONNECT_TIMEOUT_SECONDS = 10.0
"""Default for everything up to a usable connection: a free slot in the pool, TCP and TLS."""
READ_TIMEOUT_SECONDS = 60.0
"""Default for the silence between two pieces of an answer."""
WRITE_TIMEOUT_SECONDS = 60.0
"""Default for writing one request."""
KEEPALIVE_SECONDS = 15.0
"""How long an idle connection is kept; many servers close theirs after little more."""
MAX_CONNECTIONS = 100
"""Default size of a pool."""

DEFAULT_TIMEOUT = httpx.Timeout(
    connect=CONNECT_TIMEOUT_SECONDS,
    read=READ_TIMEOUT_SECONDS,
    write=WRITE_TIMEOUT_SECONDS,
    pool=CONNECT_TIMEOUT_SECONDS,
)
HTTP_ERRORS = (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError)
"""All that a request or the reading of its answer raises; what it means, `is_not_sent` tells."""

# A request's URL holds the token on some platforms, and httpx logs it at level INFO.
logging.getLogger("httpx").setLevel(logging.WARNING)


def create_client(
    *,
    base_url: str = "",
    headers: Mapping[str, str] | None = None,
    timeout: httpx.Timeout = DEFAULT_TIMEOUT,
    proxy: str | None = None,
    max_connections: int = MAX_CONNECTIONS,
) -> httpx.AsyncClient:
    """A client whose connections are opened at the first request, in the loop that makes it.

    It follows no redirects. `proxy` as in `create_transport`.

    Raises:
        ConfigError: `proxy` cannot be used.
    """
    return httpx.AsyncClient(
        base_url=base_url,
        headers=headers,
        timeout=timeout,
        transport=create_transport(proxy=proxy, max_connections=max_connections),
        trust_env=False,
    )


def create_transport(*, proxy: str | None = None, max_connections: int = MAX_CONNECTIONS) -> httpx.AsyncBaseTransport:
    """The transport of `create_client`, for libraries that build their httpx client themselves.

    Args:
        proxy: `http://`, `https://`, `socks4://`, `socks5://` or `socks5h://`, with credentials
            if it needs some. None takes the environment's proxies, and NO_PROXY with them.
        max_connections: the most connections at once, for plain and for TLS addresses each.

    Raises:
        ConfigError: `proxy` is not such an address, or SOCKS needs the extra `socks`.
    """
    return _Transport(None if proxy is None else read_proxy(proxy), max_connections)


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


@cache
def _tls_context() -> ssl.SSLContext:
    """Loading the certificates costs some 20 ms, so only the first TLS address pays for it."""
    return httpx.create_ssl_context()


@cache
def _plain_context() -> ssl.SSLContext:
    """Stands in where no TLS is spoken; it trusts nobody."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class _Transport(httpx.AsyncBaseTransport):
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
        limit = _bound_connect(request)
        pool = self._pool(proxy, request.url.scheme == "https" or (proxy is not None and proxy.is_tls))
        try:
            with anyio.fail_after(limit):
                return await _send(pool, request)
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


async def _send(pool: httpx_aiohttp.AiohttpTransport, request: httpx.Request) -> httpx.Response:
    """Send over one pool. Errors come without the texts of the layers below, which may quote a token."""
    kind: type[httpx.TransportError]
    try:
        return await pool.handle_async_request(request)
    except (httpx.TransportError, aiohttp.ClientError) as error:
        kind = type(error) if isinstance(error, httpx.TransportError) else httpx.RemoteProtocolError
        is_unsent = is_not_sent(error) or _is_socks_fault(error)
        reason = _describe(error.__cause__ or error)
    except Exception as error:
        # A SOCKS proxy's own refusals are not aiohttp's errors.
        if not _is_socks_fault(error):
            raise
        kind, is_unsent, reason = httpx.ProxyError, True, _describe(error)
    raise kind(reason, request=request) from (UnsentError(reason) if is_unsent else None)


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
