"""What a server's refusal means: its status and code, sorted into our errors.

Sorted by status and code alone: words in a message are for people, they change, and a model's
own text may hold them. What is quoted from a server is short, without markup and without keys.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from nanobee.errors import (
    ContextLengthError,
    ProviderAuthError,
    ProviderError,
    RateLimitError,
    RequestRefusedError,
    ServerFaultError,
)
from nanobee.messages import Json, JsonObject
from nanobee.providers.json_reading import read_json

MAX_QUOTE_CHARS = 200
"""How much of a server's own words is shown to people."""

NOT_FOUND = 404

_MARKUP = re.compile(r"<[a-zA-Z!/?]")

_CODES: Mapping[str, type[ProviderError]] = {
    "context_length_exceeded": ContextLengthError,
    "exceed_context_size_error": ContextLengthError,
    "context_window_exceeded": ContextLengthError,
    "model_context_window_exceeded": ContextLengthError,
    "request_too_large": ContextLengthError,
    "rate_limit_exceeded": RateLimitError,
    "rate_limit_error": RateLimitError,
    "rate_limit_reached_error": RateLimitError,
    "too_many_requests": RateLimitError,
    "insufficient_quota": RateLimitError,
    "exceeded_current_quota_error": RateLimitError,
    "billing_hard_limit_reached": RateLimitError,
    "invalid_api_key": ProviderAuthError,
    "invalid_authentication_error": ProviderAuthError,
    "incorrect_api_key_error": ProviderAuthError,
    "authentication_error": ProviderAuthError,
    "permission_error": ProviderAuthError,
    "permission_denied_error": ProviderAuthError,
    "account_deactivated": ProviderAuthError,
    "model_not_found": RequestRefusedError,
    "server_error": ServerFaultError,
    "internal_server_error": ServerFaultError,
    "internal_error": ServerFaultError,
    "api_error": ServerFaultError,
    "overloaded_error": ServerFaultError,
    "engine_overloaded_error": ServerFaultError,
    "service_unavailable": ServerFaultError,
    "unavailable_error": ServerFaultError,
}

_STATUSES: Mapping[int, type[ProviderError]] = {
    401: ProviderAuthError,
    402: RateLimitError,
    403: ProviderAuthError,
    408: ServerFaultError,
    409: ServerFaultError,
    413: ContextLengthError,
    425: ServerFaultError,
    429: RateLimitError,
}

_MEANINGS: Mapping[type[ProviderError], str] = {
    ProviderAuthError: "does not accept the API key, or it has no right to this model",
    RateLimitError: "takes no more calls for now: too many, or out of quota",
    ContextLengthError: "says that the request is longer than the model's window",
    RequestRefusedError: "refuses this request",
    ServerFaultError: "has trouble of its own",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A server's own account of why it gave no answer."""

    status: int
    """0 where it came inside a stream and named none."""
    codes: tuple[str, ...] = ()
    """Its `code` and `type`, in this order."""
    message: str = ""
    retry_after_seconds: float | None = None


def read_refusal(status: int, body: bytes, retry_after_seconds: float | None = None) -> Refusal:
    """Read an error answer; a body that is not JSON says nothing beyond its status."""
    value = read_json(body)
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return Refusal(status, retry_after_seconds=retry_after_seconds)
    error = value.get("error", value)
    found = read_error(error)
    return Refusal(status, found.codes, found.message, retry_after_seconds)


def read_error(error: Json) -> Refusal:
    """Read an error object as it stands in an error answer or inside a stream."""
    if isinstance(error, str):
        return Refusal(0, message=error)
    if not isinstance(error, dict):
        return Refusal(0)
    code = error.get("code")
    status = code if isinstance(code, int) and 400 <= code <= 599 else 0
    codes = tuple(word.lower() for word in (code, error.get("type")) if isinstance(word, str))
    return Refusal(status, codes, _message(error))


def sort_refusal(refusal: Refusal, who: str, secret: str = "") -> ProviderError:
    """The error of our tree that a refusal is; `who` names the server to people."""
    kind = _kind(refusal)
    status = f" ({refusal.status})" if refusal.status else ""
    text = f"{who} {_MEANINGS[kind]}{status}"
    # A server that refuses a key likes to repeat it.
    quote = "" if kind is ProviderAuthError else quote_server(refusal.message, secret)
    text = f"{text}: {quote}" if quote else f"{text}."
    if kind is RateLimitError:
        return RateLimitError(text, refusal.retry_after_seconds)
    if kind is ServerFaultError:
        return ServerFaultError(text, refusal.retry_after_seconds)
    if kind is RequestRefusedError:
        return RequestRefusedError(text, is_missing=refusal.status == NOT_FOUND)
    return kind(text)


def quote_server(message: str, secret: str = "") -> str:
    """A server's words as people may read them: one short line, empty if they are markup."""
    if _MARKUP.search(message):
        return ""
    if secret:
        message = message.replace(secret, "***")
    line = " ".join("".join(char if char.isprintable() else " " for char in message[:4000]).split())
    return line if len(line) <= MAX_QUOTE_CHARS else line[: MAX_QUOTE_CHARS - 1] + "…"


def read_retry_after(
    headers: Mapping[str, str], now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> float | None:
    """The server's own wait in seconds, from a number or a date; None where it gave none."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) * scale
        except ValueError:
            continue
        return max(0.0, seconds) if math.isfinite(seconds) else None
    try:
        at = parsedate_to_datetime(headers.get("retry-after", ""))
    except (TypeError, ValueError):
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0.0, (at - now()).total_seconds())


def _kind(refusal: Refusal) -> type[ProviderError]:
    for code in refusal.codes:
        if code in _CODES:
            return _CODES[code]
    if refusal.status in _STATUSES:
        return _STATUSES[refusal.status]
    return RequestRefusedError if 300 <= refusal.status < 500 else ServerFaultError


def _message(error: JsonObject) -> str:
    for key in ("message", "detail", "error_msg", "msg"):
        value = error.get(key)
        if isinstance(value, str):
            return value
    return ""
