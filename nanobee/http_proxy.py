"""Proxies: what a setting or the environment says about how to reach an address."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from ipaddress import ip_address
from types import ModuleType
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio.to_thread

from nanobee.errors import ConfigError, ConfigProblem

_HTTP_SCHEMES = ("http", "https")
_SOCKS_SCHEMES = ("socks4", "socks5", "socks5h")


@dataclass(frozen=True)
class Proxy:
    """One proxy."""

    url: str
    """With credentials for SOCKS; without them for HTTP, where they are in `headers`."""
    authorization: str | None = field(default=None, repr=False)
    """The value of the header Proxy-Authorization."""

    @cached_property
    def is_socks(self) -> bool:
        """Whether it needs the package aiohttp-socks."""
        return self.url.startswith("socks")

    @cached_property
    def is_tls(self) -> bool:
        """Whether the proxy itself is spoken to over TLS."""
        return self.url.startswith("https:")

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers for the proxy."""
        return {} if self.authorization is None else {"Proxy-Authorization": self.authorization}


def read_proxy(address: str) -> Proxy:
    """Read a proxy's address.

    Raises:
        ConfigError: it is none, or it is a SOCKS address and the extra `socks` is not installed.
    """
    parts = _split(address)
    if parts is None:
        raise _proxy_error("not a proxy address (http://, https://, socks4://, socks5:// or socks5h://)")
    if parts.scheme in _SOCKS_SCHEMES:
        import_socks()
        # Names are resolved by the proxy in any case, which is what the `h` asks for.
        scheme = parts.scheme.removesuffix("h")
        return Proxy(parts._replace(scheme=scheme, path="", query="", fragment="").geturl())
    # aiohttp's own parameter for credentials is deprecated, so they become a header here.
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], path="", query="", fragment="")
    return Proxy(bare.geturl(), _authorization(parts))


def is_proxy_address(address: str) -> bool:
    """Whether `read_proxy` takes it, given the extra `socks`."""
    return _split(address) is not None


def has_socks() -> bool:
    """Whether the extra `socks` is installed; it is not loaded here."""
    return find_spec("aiohttp_socks") is not None


def import_socks() -> ModuleType:
    """The package aiohttp_socks.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import aiohttp_socks
    except ImportError:
        raise _proxy_error("SOCKS proxies need the package aiohttp-socks (extra `socks`)") from None
    return aiohttp_socks


async def find_env_proxy(url: str) -> Proxy | None:
    """The environment's proxy for an address, NO_PROXY minded; this machine is never behind one.

    Raises:
        ConfigError: the environment names a proxy that cannot be used. Going around one that
            somebody has set would be worse than not going.
    """
    parts = urlsplit(url)
    proxies = getproxies()
    address = proxies.get(parts.scheme) or proxies.get("all")
    if not address or _is_loopback(parts.hostname or ""):
        return None
    # Outside Linux the bypass list may ask a name server.
    if await anyio.to_thread.run_sync(proxy_bypass, parts.netloc.rpartition("@")[2]):
        return None
    return read_proxy(address if "://" in address else f"http://{address}")


def _split(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        is_usable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if is_usable and parts.scheme in _HTTP_SCHEMES + _SOCKS_SCHEMES else None


def _authorization(parts: SplitResult) -> str | None:
    if parts.username is None:
        return None
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + b64encode(credentials.encode()).decode("ascii")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _proxy_error(reason: str) -> ConfigError:
    return ConfigError([ConfigProblem(source="proxy", path="", reason=reason)])
