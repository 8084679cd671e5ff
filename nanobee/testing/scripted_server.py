"""ScriptedServer: a model server on loopback that answers as scripted; what it speaks is its subclass's."""

import asyncio
import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.lowlevel

from nanobee.testing.model_replies import Answer, Break, Piece, RecordedRequest, Reply, RequestBody

CLOSE_SECONDS = 5.0
"""How long closing waits for the connections' tasks."""

When = Callable[[RequestBody], bool]


class ScriptedServer(ABC):
    """An async context; replies are used in the order in which they were given, else it echoes.

    Every `reply_*` takes `when` (a predicate on the request's body), `times` (how many requests,
    None for all) and `hold` (an event that is waited for before the reply goes out).
    """

    def __init__(self, *, port: int = 0, delay_seconds: float = 0.0, fail_on_violation: bool = True) -> None:
        self.requests: list[RecordedRequest] = []
        """Completion requests, in the order in which they came."""
        self.violations: list[str] = []
        """What broke the API's rules."""
        self.open_answers = 0
        """Requests whose answers are not complete yet."""
        self.connections = 0
        """Connections that were ever opened."""
        self.address = ""
        """`http://` with host and port."""
        self._port = port
        self._delay_seconds = delay_seconds
        self._fail_on_violation = fail_on_violation
        self._replies: list[Reply] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._change = anyio.Event()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, backlog=1024)
        self.address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        if kind is None and self.violations and self._fail_on_violation:
            raise AssertionError("requests broke the API's rules:\n" + "\n".join(self.violations))

    async def wait_requests(self, count: int) -> None:
        """Return once `count` completion requests have come; bound it with `anyio.fail_after`."""
        while len(self.requests) < count:
            await self._change.wait()

    async def wait_answered(self) -> None:
        """Return once no request waits for the rest of its answer: all were sent, or their clients left."""
        while self.open_answers:
            await self._change.wait()

    def reply_built(
        self,
        build: Callable[[RequestBody], Answer],
        *,
        when: When | None = None,
        times: int | None = None,
        hold: anyio.Event | None = None,
    ) -> Reply:
        """Answer with what `build` makes of each request; all of them unless told otherwise."""
        return self._add(Reply(build, when, times, hold))

    def reply_bytes(
        self,
        pieces: Sequence[Piece],
        *,
        content_type: str = "text/event-stream",
        is_chunked: bool = True,
        when: When | None = None,
        times: int | None = 1,
        hold: anyio.Event | None = None,
    ) -> Reply:
        """Answer with exactly these bytes, each piece written on its own."""
        answer = Answer(tuple(pieces), content_type, is_chunked=is_chunked)
        return self._add(Reply(lambda request: answer, when, times, hold))

    def reply_status(
        self,
        status: int,
        body: Mapping[str, Any] | str = "",
        *,
        headers: Mapping[str, str] | None = None,
        when: When | None = None,
        times: int | None = 1,
        hold: anyio.Event | None = None,
    ) -> Reply:
        """Answer with a status and a JSON object, or with a page of HTML."""
        is_page = isinstance(body, str)
        written = body if isinstance(body, str) else json.dumps(body)
        answer = Answer(
            (written.encode(),), "text/html" if is_page else "application/json", status, dict(headers or {})
        )
        return self._add(Reply(lambda request: answer, when, times, hold))

    def reply_hang(self, after: Sequence[Piece] = (), *, when: When | None = None, times: int | None = 1) -> Reply:
        """Send the head of a stream and these pieces, then nothing."""
        return self.reply_bytes([*after, Break.HANG], when=when, times=times)

    def reply_cut(self, after: Sequence[Piece] = (), *, when: When | None = None, times: int | None = 1) -> Reply:
        """Reset the connection after these pieces of a stream; without any, before the head."""
        return self.reply_bytes([*after, Break.CUT], when=when, times=times)

    @abstractmethod
    def _route(self, method: str, request: RecordedRequest) -> Answer | None:
        """The answer to a small question; None where the request is a model call."""

    @abstractmethod
    def _check(self, request: RecordedRequest) -> Sequence[str]:
        """The rules that a call breaks, each as one line."""

    @abstractmethod
    def _refuse(self, problem: str) -> Answer:
        """What a call that breaks a rule is answered with."""

    @abstractmethod
    def _echo(self, body: RequestBody) -> Answer:
        """The answer where the script has none."""

    @abstractmethod
    def _note(self, request: RecordedRequest, answer: Answer) -> None:
        """Called before an answer is sent, for what later requests are held to."""

    def _add(self, reply: Reply) -> Reply:
        self._replies.append(reply)
        return reply

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the server is closing
        finally:
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = RecordedRequest(path, headers, body)
        small = self._route(method, request)
        if small is not None:
            return await _send(writer, reader, small)
        self.requests.append(request)
        self.open_answers += 1
        self._tell_change()
        try:
            answer = await self._choose(request)
            is_kept = await _send(writer, reader, answer)
        finally:
            self.open_answers -= 1
            self._tell_change()
        if answer.loses_next:
            await reader.read(1)
        return is_kept and not answer.loses_next

    def _tell_change(self) -> None:
        change, self._change = self._change, anyio.Event()
        change.set()

    async def _choose(self, request: RecordedRequest) -> Answer:
        broken = self._check(request)
        if broken:
            self.violations.extend(broken)
            return self._refuse(broken[0])
        body = request.json
        if self._delay_seconds:
            await anyio.sleep(self._delay_seconds)
        reply = next((reply for reply in self._replies if reply.when is None or reply.when(body)), None)
        if reply is None:
            return self._echo(body)
        if reply.times is not None:
            reply.times -= 1
            if reply.times <= 0:
                self._replies.remove(reply)
        reply.asked.set()
        if reply.hold is not None:
            await reply.hold.wait()
        answer = reply.build(body)
        self._note(request, answer)
        return answer


def json_answer(status: int, value: object) -> Answer:
    """A JSON value as it goes over the wire."""
    return Answer((json.dumps(value).encode(),), "application/json", status)


async def _send(writer: asyncio.StreamWriter, reader: asyncio.StreamReader, answer: Answer) -> bool:
    """Send an answer; returns whether the connection can take another request."""
    if answer.pieces[:1] == (Break.CUT,):
        writer.transport.abort()
        return False
    lines = [f"HTTP/1.1 {answer.status} Scripted", f"Content-Type: {answer.content_type}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    lines.append("Transfer-Encoding: chunked" if answer.is_chunked else "Connection: close")
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    for piece in answer.pieces:
        if isinstance(piece, anyio.Event):
            await piece.wait()
        elif isinstance(piece, float | int):
            await anyio.sleep(piece)
        elif piece is Break.CUT:
            writer.transport.abort()
            return False
        elif piece is Break.HANG:
            await reader.read(1)
            return False
        elif isinstance(piece, bytes) and piece:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if answer.is_chunked else piece)
            await writer.drain()
            await anyio.lowlevel.checkpoint()  # lets a client in the same loop read this piece alone
    if answer.is_chunked:
        writer.write(b"0\r\n\r\n")
    await writer.drain()
    return answer.is_chunked
