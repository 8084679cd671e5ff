"""ModelServer: a chat-completions server on loopback that answers as scripted and records what it is asked.

Each request's history is held to StrictHistory: what breaks it is answered with 400 and remembered,
so that a test cannot pass over it. `python -m nanobee.testing.model_server` runs one that echoes.
"""

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from nanobee.testing.model_replies import Answer, RecordedRequest, Reply, RequestBody, build_answer, build_echo
from nanobee.testing.scripted_server import ScriptedServer, When, json_answer
from nanobee.testing.strict_history import StrictHistory


class ModelServer(ScriptedServer):
    """Speaks the OpenAI chat-completions API."""

    def __init__(
        self,
        *,
        port: int = 0,
        models: Sequence[str] = ("test-model",),
        history: StrictHistory | None = None,
        delay_seconds: float = 0.0,
        fail_on_violation: bool = True,
    ) -> None:
        super().__init__(port=port, delay_seconds=delay_seconds, fail_on_violation=fail_on_violation)
        self._models = tuple(models)
        self._history = history or StrictHistory()

    @property
    def base_url(self) -> str:
        """Up to and including `/v1`."""
        return f"{self.address}/v1"

    def reply_text(
        self,
        text: str,
        *,
        reasoning: str = "",
        finish: str | None = None,
        when: When | None = None,
        times: int | None = 1,
        hold: anyio.Event | None = None,
    ) -> Reply:
        """Answer with text, word by word where the request asks for a stream."""

        def build(request: RequestBody) -> Answer:
            return build_answer(request, text=text, reasoning=reasoning, finish=finish)

        return self._add(Reply(build, when, times, hold))

    def reply_calls(
        self,
        *calls: tuple[str, Mapping[str, Any] | str],
        text: str | None = None,
        reasoning: str = "",
        finish: str | None = None,
        call_ids: Sequence[str] | None = None,
        when: When | None = None,
        times: int | None = 1,
        hold: anyio.Event | None = None,
    ) -> Reply:
        """Answer with tool calls, given as name and arguments (a mapping, or raw JSON text)."""
        written = [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in calls]

        def build(request: RequestBody) -> Answer:
            return build_answer(
                request, text=text, calls=written, reasoning=reasoning, finish=finish, call_ids=call_ids
            )

        return self._add(Reply(build, when, times, hold))

    def _route(self, method: str, request: RecordedRequest) -> Answer | None:
        if method == "GET" and request.path.endswith("/models"):
            models = {"object": "list", "data": [{"id": name, "object": "model"} for name in self._models]}
            return json_answer(200, models)
        if method != "POST" or not request.path.endswith("/chat/completions"):
            return json_answer(404, {"error": {"message": "no such path"}})
        return None

    def _check(self, request: RecordedRequest) -> Sequence[str]:
        return self._history.check(request.body)

    def _refuse(self, problem: str) -> Answer:
        return json_answer(400, {"error": {"message": problem, "type": "invalid_request_error", "code": None}})

    def _echo(self, body: RequestBody) -> Answer:
        return build_echo(body)

    def _note(self, request: RecordedRequest, answer: Answer) -> None:
        self._history.remember(answer.calls, answer.reasoning)


async def _run(port: int, delay_seconds: float) -> None:
    async with ModelServer(port=port, delay_seconds=delay_seconds, fail_on_violation=False) as server:
        sys.stdout.write(json.dumps({"url": server.base_url}) + "\n")
        sys.stdout.flush()
        await anyio.sleep_forever()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a server that echoes until it is interrupted; prints one JSON line with its address."""
    parser = argparse.ArgumentParser(prog="nanobee.testing.model_server", description=main.__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--delay", type=float, default=0.0, metavar="SECONDS", help="wait before each answer")
    options = parser.parse_args(arguments)
    with contextlib.suppress(KeyboardInterrupt):
        anyio.run(_run, options.port, options.delay)


if __name__ == "__main__":
    main()
