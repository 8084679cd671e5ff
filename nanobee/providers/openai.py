"""OpenAIProvider: any server that speaks the OpenAI chat-completions API."""

import re

import anyio

from nanobee.chat import Completion, CompletionRequest
from nanobee.config import OpenAISettings
from nanobee.errors import (
    ConfigError,
    ConfigProblem,
    MalformedAnswerError,
    ProviderConnectionError,
    ProviderError,
)
from nanobee.http_client import HTTP_ERRORS, create_client, httpx, is_not_sent
from nanobee.providers.answer_clock import AnswerClock, timeout_error
from nanobee.providers.faults import quote_server, read_refusal, read_retry_after, sort_refusal
from nanobee.providers.json_reading import read_json
from nanobee.providers.openai_answer import AnswerAssembler
from nanobee.providers.openai_wire import Dialect, build_body, encode_body, find_dialect
from nanobee.providers.provider import OnDelta, ignore_delta
from nanobee.providers.sse import ServerEvent, SseDecoder

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""The largest answer that is read when it does not come as a stream."""
MAX_STREAM_BYTES = 128 * 1024 * 1024
"""The longest stream that is read: its events are many times larger than the text in them."""
MAX_REFUSAL_BYTES = 64 * 1024
"""How much of an error answer is read; the rest of a page is of no use."""

_DONE = "[DONE]"
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,40}/[\w.+-]{1,40}")
_SSE_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")


class OpenAIProvider:
    """Asks one server; it opens its client at the first call and keeps its connections.

    It asks once: what to do about an error is its caller's to decide.

    Raises:
        ConfigError: the address, the key or the proxy cannot be used.
    """

    def __init__(self, name: str, settings: OpenAISettings, dialect: Dialect | None = None) -> None:
        self._settings = settings
        self._secret = _read_key(name, settings)
        self._url = _read_url(name, settings)
        self._who = f"Provider {name} ({self._url.host[:60]})"
        self._dialect = dialect or find_dialect(self._url.host)
        self._slots = anyio.Semaphore(settings.max_calls, fast_acquire=True)
        try:
            self._client = self._create_client()
        except ConfigError as error:
            raise _config_error(name, "proxy", error.problems[0].reason) from None

    async def complete(self, request: CompletionRequest, on_delta: OnDelta = ignore_delta) -> Completion:
        """Ask the model once.

        Raises:
            ProviderError: one of its kinds.
        """
        body = encode_body(build_body(request, self._dialect, stream=self._settings.stream))
        await self._take_slot()
        try:
            answer = await self._ask(body, on_delta)
        finally:
            self._slots.release()
        return answer.completion()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _take_slot(self) -> None:
        seconds = self._settings.total_timeout_seconds
        try:
            with anyio.fail_after(seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise timeout_error(self._who, "total_timeout_seconds", seconds) from None

    async def _ask(self, body: bytes, on_delta: OnDelta) -> AnswerAssembler:
        answer = AnswerAssembler(self._who, self._secret)
        clock = AnswerClock(self._settings)
        try:
            with clock.scope:
                await self._exchange(body, answer, clock, on_delta)
        except HTTP_ERRORS as error:
            # Whatever breaks after the end breaks nothing of the answer.
            if not answer.is_ended:
                raise self._translate(error) from error
        if clock.scope.cancelled_caught and not answer.is_ended:
            raise clock.error(self._who)
        return answer

    async def _exchange(self, body: bytes, answer: AnswerAssembler, clock: AnswerClock, on_delta: OnDelta) -> None:
        if self._client.is_closed:
            self._client = self._create_client()
        async with self._client.stream("POST", self._url, content=body) as response:
            if response.status_code != 200:
                raise await self._refusal(response)
            if "text/event-stream" in response.headers.get("content-type", "").lower():
                await self._read_stream(response, answer, clock, on_delta)
            else:
                await self._read_whole(response, answer, clock, on_delta)

    async def _read_stream(
        self, response: httpx.Response, answer: AnswerAssembler, clock: AnswerClock, on_delta: OnDelta
    ) -> None:
        decoder = SseDecoder()
        received = 0
        async for chunk in response.aiter_bytes():
            received += len(chunk)
            if received > MAX_STREAM_BYTES:
                raise MalformedAnswerError(f"{self._who} sent more than an answer can be.")
            events = decoder.feed(chunk)
            for event in events:
                self._take_event(event, answer, on_delta)
            # Comments and empty events keep a connection open, but they are no sign of an answer.
            if events and (answer.has_started or answer.is_ended):
                clock.go_on(is_ended=answer.is_ended)
        for event in decoder.finish():
            self._take_event(event, answer, on_delta)
        self._check_end(answer, is_framed=_is_framed(response))

    async def _read_whole(
        self, response: httpx.Response, answer: AnswerAssembler, clock: AnswerClock, on_delta: OnDelta
    ) -> None:
        """Read an answer that is not marked as a stream: JSON, or events under a wrong name."""
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            clock.go_on(is_ended=False)
            if len(body) > MAX_ANSWER_BYTES:
                raise MalformedAnswerError(f"{self._who} sent more than an answer can be.")
        body = body.lstrip()
        if body.startswith(_SSE_STARTS):
            decoder = SseDecoder()
            for event in [*decoder.feed(bytes(body)), *decoder.finish()]:
                self._take_event(event, answer, on_delta)
            self._check_end(answer, is_framed=_is_framed(response))
            return
        value = read_json(bytes(body))
        if not isinstance(value, dict):
            found = _MEDIA_TYPE.match(response.headers.get("content-type", ""))
            kind = f" ({found[0]})" if found else ""
            raise MalformedAnswerError(f"{self._who} sent something that is not an answer{kind}.")
        for delta in answer.feed_whole(value):
            on_delta(delta)

    def _take_event(self, event: ServerEvent, answer: AnswerAssembler, on_delta: OnDelta) -> None:
        if event.data.strip() == _DONE:
            answer.end()
            return
        chunk = read_json(event.data)
        if not isinstance(chunk, dict):
            if event.name in ("", "message", "error"):
                raise MalformedAnswerError(f"{self._who} sent a piece of an answer that is not JSON.")
            return  # `event: ping` and the like carry what they please
        if event.name == "error" and not chunk.get("error"):
            chunk = {"error": chunk}
        for delta in answer.feed(chunk):
            on_delta(delta)

    def _check_end(self, answer: AnswerAssembler, *, is_framed: bool) -> None:
        """Tell a stream that is complete from one that was cut where the transport saw no fault.

        Without any end mark, text is believed when the transport's own framing was whole; a tool
        call never is, because half of one could be run.
        """
        if answer.is_ended or answer.is_accounted or (is_framed and answer.is_text_only):
            return
        if answer.has_started:
            raise ProviderConnectionError(f"{self._who} broke off in the middle of an answer.")

    async def _refusal(self, response: httpx.Response) -> ProviderError:
        body = await _read_beginning(response)
        refusal = read_refusal(response.status_code, body, read_retry_after(response.headers))
        return sort_refusal(refusal, self._who, self._secret)

    def _translate(self, error: Exception) -> ProviderError:
        if isinstance(error, httpx.ConnectTimeout):
            return timeout_error(self._who, "connect_timeout_seconds", self._settings.connect_timeout_seconds)
        if isinstance(error, httpx.DecodingError):
            return MalformedAnswerError(f"{self._who} sent an answer that cannot be decompressed.")
        if is_not_sent(error):
            return ProviderConnectionError(f"{self._who} cannot be reached: {quote_server(str(error))}")
        return ProviderConnectionError(f"{self._who} broke the connection before its answer was complete.")

    def _create_client(self) -> httpx.AsyncClient:
        headers = {
            "Accept": "text/event-stream, application/json" if self._settings.stream else "application/json",
            # A compressed stream waits in the compressor.
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        if self._secret:
            headers["Authorization"] = f"Bearer {self._secret}"
        seconds = self._settings.connect_timeout_seconds
        return create_client(
            headers=headers,
            timeout=httpx.Timeout(None, connect=seconds, pool=seconds),
            proxy=self._settings.proxy,
            max_connections=self._settings.max_calls,
        )


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


def _read_url(name: str, settings: OpenAISettings) -> httpx.URL:
    try:
        url = httpx.URL(settings.base_url.rstrip("/") + "/chat/completions")
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise _config_error(name, "base_url", "not an address that begins with http:// or https://")
    return url


def _read_key(name: str, settings: OpenAISettings) -> str:
    key = settings.api_key.get_secret_value().strip() if settings.api_key is not None else ""
    if not (key.isascii() and key.isprintable()):
        raise _config_error(name, "api_key", "holds characters that no key has")
    return key


def _config_error(name: str, key: str, reason: str) -> ConfigError:
    return ConfigError([ConfigProblem(source="config", path=f"providers.{name}.{key}", reason=reason)])
