"""ModelClient: one model call over HTTP: its slot, its time-outs, its stream, its faults.

What the bytes mean is for an `Answer` to say; each API has its own.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

import anyio

from nanobee.chat import Delta
from nanobee.config import HttpProviderSettings
from nanobee.errors import (
    ConfigError,
    ConfigProblem,
    MalformedAnswerError,
    ProviderConnectionError,
    ProviderError,
)
from nanobee.http_client import HTTP_ERRORS, create_client, httpx, is_not_sent
from nanobee.messages import JsonObject
from nanobee.providers.answer_clock import AnswerClock, timeout_error
from nanobee.providers.faults import quote_server, read_refusal, read_retry_after, sort_refusal
from nanobee.providers.json_reading import read_json
from nanobee.providers.provider import OnDelta
from nanobee.providers.sse import ServerEvent, SseDecoder

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""The largest answer that is read when it does not come as a stream."""
MAX_STREAM_BYTES = 128 * 1024 * 1024
"""The longest stream that is read: its events are many times larger than the text in them."""
MAX_REFUSAL_BYTES = 64 * 1024
"""How much of an error answer is read; the rest of a page is of no use."""
LOOKUP_SECONDS = 10.0
"""For a question beside the call itself, such as how large a window is."""

_MEDIA_TYPE = re.compile(r"[\w.+-]{1,40}/[\w.+-]{1,40}")
_SSE_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")


class Answer(Protocol):
    """Puts one answer together; deltas come out as events go in. Without I/O."""

    @property
    def has_started(self) -> bool:
        """Whether any text, reasoning or part of a call has come."""
        ...

    @property
    def is_ended(self) -> bool:
        """Whether the server has marked the end; nothing but usage follows."""
        ...

    def take_event(self, event: ServerEvent) -> Sequence[Delta]:
        """Take a streamed event.

        Raises:
            ProviderError: the event tells of an error, or cannot be one of this API.
        """
        ...

    def take_whole(self, value: JsonObject) -> Sequence[Delta]:
        """Take an answer that was not streamed.

        Raises:
            ProviderError: it is an error.
        """
        ...

    def is_whole(self, *, is_framed: bool) -> bool:
        """Whether a stream that has ended is complete; `is_framed`: the transport would have seen a cut."""
        ...

    def finish(self) -> Sequence[Delta]:
        """What was held back, now that nothing follows."""
        ...


class ModelClient:
    """Asks one server; it opens its connections at the first call and keeps them.

    It asks once: what to do about an error is its caller's to decide. Only a kept connection that
    the server has closed meanwhile is replaced by a new one, as long as no byte of an answer came.

    Raises:
        ConfigError: the address or the proxy cannot be used.
    """

    def __init__(self, name: str, settings: HttpProviderSettings, url: str, headers: Mapping[str, str]) -> None:
        self._name = name
        self._settings = settings
        self._url = _read_url(name, url)
        self._headers = headers
        self.who = f"Provider {name} ({self._url.host[:60]})"
        """Names the server to people."""
        self.secret = read_key(settings)
        """Is blotted out of whatever the server says."""
        self._slots = anyio.Semaphore(settings.max_calls, fast_acquire=True)
        self._has_connected = False
        self._client = self._create_client()

    @property
    def netloc(self) -> str:
        """Host and port."""
        return self._url.netloc.decode("ascii")

    async def ask(
        self, body: bytes, answer: Answer, on_delta: OnDelta, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send one call and read its answer to the end.

        Raises:
            ProviderError: one of its kinds.
        """
        await self._take_slot()
        try:
            await self._ask(body, answer, on_delta, headers or {})
        finally:
            self._slots.release()
        for delta in answer.finish():
            on_delta(delta)

    async def look_up(self, url: str, body: bytes | None = None) -> JsonObject:
        """Ask the same server something small; empty where it does not answer with an object."""
        try:
            with anyio.move_on_after(LOOKUP_SECONDS):
                response = await self._client.request("GET" if body is None else "POST", url, content=body)
                value = read_json(response.content)
                if response.status_code == 200 and isinstance(value, dict):
                    return value
        except HTTP_ERRORS:
            pass  # the question was not the caller's own
        return {}

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _take_slot(self) -> None:
        seconds = self._settings.total_timeout_seconds
        try:
            with anyio.fail_after(seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise timeout_error(self.who, "total_timeout_seconds", seconds) from None

    async def _ask(self, body: bytes, answer: Answer, on_delta: OnDelta, headers: Mapping[str, str]) -> None:
        clock = AnswerClock(self._settings)
        try:
            with clock.scope:
                await self._exchange(body, answer, clock, on_delta, headers)
        except HTTP_ERRORS as error:
            # Whatever breaks after the end breaks nothing of the answer.
            if not answer.is_ended:
                raise self._translate(error) from error
        if clock.scope.cancelled_caught and not answer.is_ended:
            raise clock.error(self.who)

    async def _exchange(
        self, body: bytes, answer: Answer, clock: AnswerClock, on_delta: OnDelta, headers: Mapping[str, str]
    ) -> None:
        response = await self._send(body, headers)
        try:
            if response.status_code != 200:
                raise await self._refusal(response)
            if "text/event-stream" in response.headers.get("content-type", "").lower():
                await self._read_stream(response, answer, clock, on_delta)
            else:
                clock.expect_whole()
                await self._read_whole(response, answer, on_delta)
        finally:
            await response.aclose()

    async def _send(self, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """The head of the response. A server may have closed a kept connection without a word (llama.cpp does
        after each stream): then the first call into it is lost, and sent again once."""
        if self._client.is_closed:
            self._client = self._create_client()
        may_be_stale = self._has_connected
        try:
            response = await self._post(body, headers)
        except (httpx.ReadError, httpx.RemoteProtocolError, httpx.WriteError):
            if not may_be_stale:
                raise
            response = await self._post(body, headers)
        self._has_connected = True
        return response

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        request = self._client.build_request("POST", self._url, content=body, headers=headers)
        return await self._client.send(request, stream=True)

    async def _read_stream(
        self, response: httpx.Response, answer: Answer, clock: AnswerClock, on_delta: OnDelta
    ) -> None:
        decoder = SseDecoder()
        received = 0
        async for chunk in response.aiter_bytes():
            received += len(chunk)
            if received > MAX_STREAM_BYTES:
                raise MalformedAnswerError(f"{self.who} sent more than an answer can be.")
            events = decoder.feed(chunk)
            _take(events, answer, on_delta)
            # Comments and empty events keep a connection open, but they are no sign of an answer.
            if events and (answer.has_started or answer.is_ended):
                clock.go_on(is_ended=answer.is_ended)
        _take(decoder.finish(), answer, on_delta)
        self._check_end(answer, response)

    async def _read_whole(self, response: httpx.Response, answer: Answer, on_delta: OnDelta) -> None:
        """Read an answer that is not marked as a stream: JSON, or events under a wrong name."""
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                raise MalformedAnswerError(f"{self.who} sent more than an answer can be.")
        body = body.lstrip()
        if body.startswith(_SSE_STARTS):
            decoder = SseDecoder()
            _take([*decoder.feed(bytes(body)), *decoder.finish()], answer, on_delta)
            self._check_end(answer, response)
            return
        value = read_json(bytes(body))
        if not isinstance(value, dict):
            found = _MEDIA_TYPE.match(response.headers.get("content-type", ""))
            kind = f" ({found[0]})" if found else ""
            raise MalformedAnswerError(f"{self.who} sent something that is not an answer{kind}.")
        for delta in answer.take_whole(value):
            on_delta(delta)

    def _check_end(self, answer: Answer, response: httpx.Response) -> None:
        if answer.has_started and not answer.is_whole(is_framed=_is_framed(response)):
            raise ProviderConnectionError(f"{self.who} broke off in the middle of an answer.")

    async def _refusal(self, response: httpx.Response) -> ProviderError:
        body = await _read_beginning(response)
        refusal = read_refusal(response.status_code, body, read_retry_after(response.headers))
        return sort_refusal(refusal, self.who, self.secret)

    def _translate(self, error: Exception) -> ProviderError:
        if isinstance(error, httpx.ConnectTimeout):
            return timeout_error(self.who, "connect_timeout_seconds", self._settings.connect_timeout_seconds)
        if isinstance(error, httpx.DecodingError):
            return MalformedAnswerError(f"{self.who} sent an answer that cannot be decompressed.")
        if is_not_sent(error):
            return ProviderConnectionError(f"{self.who} cannot be reached: {quote_server(str(error))}")
        return ProviderConnectionError(f"{self.who} broke the connection before its answer was complete.")

    def _create_client(self) -> httpx.AsyncClient:
        headers = {
            "Accept": "text/event-stream, application/json" if self._settings.stream else "application/json",
            # A compressed stream waits in the compressor.
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            **self._headers,
        }
        seconds = self._settings.connect_timeout_seconds
        try:
            return create_client(
                headers=headers,
                timeout=httpx.Timeout(None, connect=seconds, pool=seconds),
                proxy=self._settings.proxy,
                max_connections=self._settings.max_calls,
            )
        except ConfigError as error:
            raise _config_error(self._name, "proxy", error.problems[0].reason) from None


def read_key(settings: HttpProviderSettings) -> str:
    """The API key, empty where there is none."""
    return settings.api_key.get_secret_value().strip() if settings.api_key is not None else ""


def _take(events: Sequence[ServerEvent], answer: Answer, on_delta: OnDelta) -> None:
    for event in events:
        for delta in answer.take_event(event):
            on_delta(delta)


async def _read_beginning(response: httpx.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) >= MAX_REFUSAL_BYTES:
            break
    return bytes(body[:MAX_REFUSAL_BYTES])


def _is_framed(response: httpx.Response) -> bool:
    """Whether the transport could tell a cut body from a whole one."""
    return "content-length" in response.headers or "chunked" in response.headers.get("transfer-encoding", "")


def _read_url(name: str, url: str) -> httpx.URL:
    try:
        return httpx.URL(url)
    except httpx.InvalidURL:
        raise _config_error(name, "base_url", "not an address that begins with http:// or https://") from None


def _config_error(name: str, key: str, reason: str) -> ConfigError:
    return ConfigError([ConfigProblem(source="config", path=f"providers.{name}.{key}", reason=reason)])
