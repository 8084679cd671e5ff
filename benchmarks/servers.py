"""Loopback stand-ins for a model's server and the Telegram Bot API: they note when they are first asked."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HELD_POLL_SECONDS = 30.0
"""How long a poll for updates is held open, as Telegram does."""
BOT = {"id": 4242, "is_bot": True, "first_name": "bench", "username": "bench_bot"}


class Moment:
    """The first time that something happened, with what was measured right then."""

    def __init__(self, measure: Callable[[], float] = time.monotonic) -> None:
        self._measure = measure
        self._happened = threading.Event()
        self._value = 0.0

    def happen(self) -> None:
        if not self._happened.is_set():
            self._value = self._measure()
            self._happened.set()

    def wait(self, seconds: float) -> float:
        """The measured value, once it has happened."""
        if not self._happened.wait(seconds):
            raise TimeoutError(f"it did not happen within {seconds} s")
        return self._value


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        with suppress(ConnectionError):  # who asked was ended meanwhile
            super().handle()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def read_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def reply(self, body: bytes, content_type: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def _serving(handler: type[_Handler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def model_server(asked: Moment) -> Iterator[str]:
    """The address, up to `/v1`, of a model that answers everything with one word."""
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "fake"}
    said = {
        **chunk,
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "hello"}, "finish_reason": None}],
    }
    ended = {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in (said, ended)) + "data: [DONE]\n\n"

    class Model(_Handler):
        def do_POST(self) -> None:
            asked.happen()
            self.read_body()
            self.reply(stream.encode(), "text/event-stream")

    with _serving(Model) as url:
        yield f"{url}/v1"


@contextmanager
def telegram_server(polled: Moment) -> Iterator[str]:
    """The address of a Bot API in which nobody ever writes."""
    over = threading.Event()

    class Telegram(_Handler):
        def do_POST(self) -> None:
            self.read_body()
            method = self.path.rpartition("/")[2].partition("?")[0].lower()
            result: object = BOT if method == "getme" else True
            if method == "getupdates":
                polled.happen()
                over.wait(HELD_POLL_SECONDS)
                result = []
            self.reply(json.dumps({"ok": True, "result": result}).encode())

        do_GET = do_POST

    try:
        with _serving(Telegram) as url:
            yield url
    finally:
        over.set()
