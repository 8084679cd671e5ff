"""Asks model servers which models they serve, over a plain socket.

The HTTP library stays out of it: it costs more than the whole search, and a search that finds
nothing would have loaded it for nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream

from nanobee.providers.catalog import LocalServer, is_chat_model, is_second_choice

PROBE_SECONDS = 0.5
"""For all servers on this machine together."""
LIST_SECONDS = 3.0
"""For the model list of one server that somebody has named."""
_MAX_ANSWER_BYTES = 4 * 1024 * 1024
_MAX_HEAD_BYTES = 64 * 1024
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_MAX_NAME_CHARS = 200
_MAX_CAPABILITY_CALLS = 8


class ProbeError(Exception):
    """Nothing that serves models answered. Its text is for us, it holds no address."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model in a server's list."""

    name: str
    context_tokens: int | None = None
    """The window that the server gives it, where it tells."""
    takes_tools: bool | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A server on this machine, and the model to use of it."""

    server: LocalServer
    model: ServedModel


async def find_local_server(servers: Sequence[LocalServer], seconds: float = PROBE_SECONDS) -> Found | None:
    """Ask all of them side by side, and take the first in their order that serves a chat model.

    It takes no longer than `seconds`, whatever stands behind the ports, and ends as soon as a
    server has answered that comes before all silent ones.
    """
    answers: dict[int, ServedModel | None] = {}

    async def ask(index: int) -> None:
        answers[index] = await _find_model(servers[index], seconds)
        if _is_settled(answers, len(servers)):
            scope.cancel()

    with anyio.move_on_after(seconds) as scope:
        async with anyio.create_task_group() as tasks:
            for index in range(len(servers)):
                tasks.start_soon(ask, index)
    for index in sorted(answers):
        model = answers[index]
        if model is not None:
            return Found(servers[index], model)
    return None


def _is_settled(answers: dict[int, ServedModel | None], count: int) -> bool:
    """Whether the first server that serves a model is known, and none before it is still silent."""
    for index in range(count):
        if index not in answers:
            return False
        if answers[index] is not None:
            return True
    return True


async def _find_model(server: LocalServer, seconds: float) -> ServedModel | None:
    # The two parts leave a rest, so that a server that is too busy to tell more is used all the same.
    list_seconds, capability_seconds = (0.5 * seconds, 0.4 * seconds) if server.is_ollama else (seconds, 0.0)
    try:
        models = rank_models(await list_models(server.base_url, seconds=list_seconds))
    except ProbeError:
        return None
    if models and server.is_ollama:
        models = await _ask_capabilities(server, models, capability_seconds)
    return models[0] if models else None


async def describe_model(server: LocalServer, name: str, seconds: float = PROBE_SECONDS) -> ServedModel:
    """What the server tells about one of its models; no more than the name where it does not answer."""
    try:
        listed = await list_models(server.base_url, seconds=seconds / 2)
    except ProbeError:
        return ServedModel(name)
    model = next((model for model in listed if model.name in (name, f"{name}:latest")), ServedModel(name))
    if server.is_ollama:
        model = next(iter(await _ask_capabilities(server, [model], seconds / 2)), model)
    return replace(model, name=name)


async def _ask_capabilities(
    server: LocalServer, models: Sequence[ServedModel], seconds: float
) -> tuple[ServedModel, ...]:
    """What Ollama says about the best of its models: those that chat, the ones with tools first."""
    told: dict[int, ServedModel | None] = {}

    async def ask(index: int) -> None:
        body = json.dumps({"model": models[index].name}).encode()
        try:
            answer = await _fetch_json(f"http://{server.host}:{server.port}/api/show", body=body)
        except (OSError, anyio.BrokenResourceError, ProbeError):
            return
        capabilities = answer.get("capabilities") if isinstance(answer, dict) else None
        if isinstance(capabilities, list):
            can_chat = "completion" in capabilities
            told[index] = replace(models[index], takes_tools="tools" in capabilities) if can_chat else None

    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as tasks:
            for index in range(min(len(models), _MAX_CAPABILITY_CALLS)):
                tasks.start_soon(ask, index)
    known = (told.get(index, model) for index, model in enumerate(models))
    return tuple(sorted((model for model in known if model is not None), key=lambda model: model.takes_tools is False))


async def list_models(
    base_url: str, *, api_key: str | None = None, seconds: float = LIST_SECONDS
) -> tuple[ServedModel, ...]:
    """The models that a server lists, in its order.

    Raises:
        ProbeError: nothing answers there in time, or what answers does not serve models.
    """
    try:
        with anyio.fail_after(seconds):
            return parse_model_list(await _fetch_json(f"{base_url.rstrip('/')}/models", api_key=api_key))
    except (OSError, anyio.BrokenResourceError, TimeoutError) as error:
        raise ProbeError(type(error).__name__) from None


def parse_model_list(answer: object) -> tuple[ServedModel, ...]:
    """Read the answer to `GET /v1/models`. Names that people could not read are left out.

    Raises:
        ProbeError: it is not such an answer.
    """
    if not isinstance(answer, dict) or answer.get("object") != "list" or "data" not in answer:
        raise ProbeError("not a model list")
    # A server that has no model yet sends null.
    entries = answer["data"] or []
    if not isinstance(entries, list):
        raise ProbeError("not a model list")
    return tuple(model for entry in entries if (model := _read_entry(entry)) is not None)


def _read_entry(entry: object) -> ServedModel | None:
    if not isinstance(entry, dict):
        raise ProbeError("not a model list")
    name = entry.get("id")
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name.strip()) <= _MAX_NAME_CHARS:
        return None
    meta = entry.get("meta")
    # vLLM's word first, then llama.cpp's.
    for tokens in (entry.get("max_model_len"), meta.get("n_ctx") if isinstance(meta, dict) else None):
        if type(tokens) is int and tokens > 0:
            return ServedModel(name, tokens)
    return ServedModel(name)


def rank_models(models: Sequence[ServedModel]) -> tuple[ServedModel, ...]:
    """The chat models among them, the server's own order kept (Ollama lists the newest first)."""
    chat = (model for model in models if is_chat_model(model.name))
    return tuple(sorted(chat, key=lambda model: is_second_choice(model.name)))


async def _fetch_json(url: str, *, api_key: str | None = None, body: bytes | None = None) -> object:
    """One request and its answer; the caller bounds the time."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ProbeError("not an address") from None
    if not host or parts.scheme not in ("http", "https"):
        raise ProbeError("not an address")
    try:
        stream = await _open_stream(host, port, is_tls=parts.scheme == "https")
    except UnicodeError:
        raise ProbeError("not an address") from None
    async with stream:
        await stream.send(build_request(parts.path, parts.netloc.rpartition("@")[2], api_key, body))
        return parse_answer(await _read_answer(stream))


async def _open_stream(host: str, port: int | None, *, is_tls: bool) -> ByteStream:
    if is_tls:
        return await anyio.connect_tcp(host, port or 443, tls=True, tls_standard_compatible=False)
    return await anyio.connect_tcp(host, port or 80)


def build_request(path: str, host: str, api_key: str | None, body: bytes | None) -> bytes:
    """HTTP/1.0, so that hardly anybody answers in chunks or keeps the connection.

    Raises:
        ProbeError: a part of it cannot stand in a request.
    """
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.0", f"Host: {host}", "Accept: application/json"]
    if api_key:
        lines.append(f"Authorization: Bearer {api_key}")
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    head = "\r\n".join(lines)
    if not head.isascii() or not all(line.isprintable() for line in lines):
        raise ProbeError("cannot be sent")
    return head.encode("ascii") + b"\r\n\r\n" + (body or b"")


async def _read_answer(stream: ByteStream) -> bytes:
    answer = b""
    while not is_whole(answer):
        try:
            answer += await stream.receive()
        except anyio.EndOfStream:
            break
        if len(answer) > _MAX_ANSWER_BYTES or (b"\r\n\r\n" not in answer and len(answer) > _MAX_HEAD_BYTES):
            raise ProbeError("too long")
    return answer


def is_whole(answer: bytes) -> bool:
    """Whether all that its head announces has come; without an announcement the connection's end tells."""
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    headers = _read_headers(head)
    length = headers.get(b"content-length", b"")
    if length.isdigit():
        return len(body) >= int(length)
    return headers.get(b"transfer-encoding") == b"chunked" and body.endswith(_LAST_CHUNK)


def parse_answer(answer: bytes) -> object:
    """The JSON value of a whole HTTP answer.

    Raises:
        ProbeError: it is not HTTP, not a success, or not JSON.
    """
    head, found, body = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].split(b" ")
    if not found or not status[0].startswith(b"HTTP/1.") or len(status) < 2:
        raise ProbeError("not HTTP")
    if status[1] != b"200":
        raise ProbeError("not a success")
    if _read_headers(head).get(b"transfer-encoding") == b"chunked":
        body = _join_chunks(body)
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise ProbeError("not JSON") from None


def _read_headers(head: bytes) -> dict[bytes, bytes]:
    pairs = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    return {name.strip().lower(): value.strip().lower() for name, _, value in pairs}


def _join_chunks(body: bytes) -> bytes:
    """For servers that answer HTTP/1.0 with HTTP/1.1's chunks."""
    joined = b""
    while body:
        size_line, _, rest = body.partition(b"\r\n")
        try:
            size = int(size_line.split(b";")[0], 16)
        except ValueError:
            raise ProbeError("broken chunks") from None
        if size <= 0:
            break
        joined, body = joined + rest[:size], rest[size + 2 :]
    return joined
