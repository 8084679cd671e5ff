"""HTTP clients: httpx as the interface, aiohttp as the transport, built in this one place.

httpx's own pool costs several times the CPU with dozens of calls at once, and it leaks requests
that are cancelled.
"""

from collections.abc import Mapping

import aiohttp

from nanobee.http_proxy import read_proxy
from nanobee.http_transport import Transport, httpx, is_not_sent

__all__ = ["DEFAULT_TIMEOUT", "HTTP_ERRORS", "create_client", "create_transport", "httpx", "is_not_sent"]

CONNECT_TIMEOUT_SECONDS = 10.0
"""Default for everything up to a usable connection: a free slot in the pool, TCP and TLS."""
READ_TIMEOUT_SECONDS = 60.0
"""Default for the silence between two pieces of an answer."""
WRITE_TIMEOUT_SECONDS = 60.0
"""Default for writing one request."""
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
    return Transport(None if proxy is None else read_proxy(proxy), max_connections)
