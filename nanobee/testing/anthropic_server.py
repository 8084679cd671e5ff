"""AnthropicServer: a Messages API server on loopback that answers as scripted and records what it is asked.

Each request is held to StrictMessages: what breaks it is answered with 400 and remembered, so that
a test cannot pass over it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from nanobee.testing.anthropic_history import StrictMessages
from nanobee.testing.anthropic_replies import Block, build_error, build_message, call_block, text_block, thinking_block
from nanobee.testing.model_replies import Answer, RecordedRequest, Reply, RequestBody
from nanobee.testing.scripted_server import ScriptedServer, When, json_answer


class AnthropicServer(ScriptedServer):
    """Speaks the Anthropic Messages API."""

    def __init__(
        self,
        *,
        port: int = 0,
        windows: Mapping[str, int] | None = None,
        history: StrictMessages | None = None,
        delay_seconds: float = 0.0,
        fail_on_violation: bool = True,
    ) -> None:
        super().__init__(port=port, delay_seconds=delay_seconds, fail_on_violation=fail_on_violation)
        self._windows = dict(windows or {})
        """By model, how many tokens it takes; a token is four bytes here."""
        self._history = history or StrictMessages()
        self.lookups: list[RecordedRequest] = []
        """Requests that were no model calls."""

    @property
    def base_url(self) -> str:
        """Up to where `/v1/messages` follows."""
        return self.address

    def reply_text(
        self,
        text: str,
        *,
        thinking: str = "",
        stop_reason: str | None = None,
        when: When | None = None,
        times: int | None = 1,
        hold: anyio.Event | None = None,
    ) -> Reply:
        """Answer with text."""
        blocks = [*([thinking_block(thinking)] if thinking else ()), *([text_block(text)] if text else ())]
        return self.reply_blocks(blocks, stop_reason=stop_reason, when=when, times=times, hold=hold)

    def reply_calls(
        self,
        *calls: tuple[str, Mapping[str, Any]],
        text: str = "",
        thinking: str = "",
        stop_reason: str | None = None,
        when: When | None = None,
        times: int | None = 1,
        hold: anyio.Event | None = None,
    ) -> Reply:
        """Answer with tool calls, given as name and arguments."""
        blocks = [*([thinking_block(thinking)] if thinking else ()), *([text_block(text)] if text else ())]

        def build(request: RequestBody) -> Answer:
            place = len(request.get("messages", ()))
            made = [call_block(name, arguments, f"toolu_{place}_{at}") for at, (name, arguments) in enumerate(calls)]
            return build_message(request, [*blocks, *made], stop_reason=stop_reason)

        return self._add(Reply(build, when, times, hold))

    def reply_blocks(
        self,
        blocks: Sequence[Block],
        *,
        stop_reason: str | None = None,
        when: When | None = None,
        times: int | None = 1,
        hold: anyio.Event | None = None,
    ) -> Reply:
        """Answer with exactly these blocks."""
        return self._add(
            Reply(lambda request: build_message(request, blocks, stop_reason=stop_reason), when, times, hold)
        )

    def _route(self, method: str, request: RecordedRequest) -> Answer | None:
        if method == "POST" and request.path == "/v1/messages":
            return None
        self.lookups.append(request)
        if method == "POST" and request.path == "/v1/messages/count_tokens":
            return json_answer(200, {"input_tokens": len(request.body) // 4})
        model = request.path.removeprefix("/v1/models/")
        if method == "GET" and model in self._windows:
            return json_answer(200, {"type": "model", "id": model, "max_input_tokens": self._windows[model]})
        return json_answer(404, build_error("not_found_error", "no such path"))

    def _check(self, request: RecordedRequest) -> Sequence[str]:
        return self._history.check(request.body)

    def _refuse(self, problem: str) -> Answer:
        return json_answer(400, build_error("invalid_request_error", problem))

    def _echo(self, body: RequestBody) -> Answer:
        texts = [
            block["text"]
            for message in body["messages"]
            if message["role"] == "user" and not isinstance(message["content"], str)
            for block in message["content"]
            if block["type"] == "text"
        ]
        return build_message(body, [text_block(f"echo: {texts[-1] if texts else ''}")])

    def _note(self, request: RecordedRequest, answer: Answer) -> None:
        self._history.remember(request.json, answer.blocks)
