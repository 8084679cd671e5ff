"""A chat-completions answer, put together from its chunks, without I/O.

Whatever a server leaves out, writes null or of another type is read as absent: only what can
be understood reaches the completion.
"""

import json
from collections.abc import Mapping, Sequence

from nanobee.chat import (
    Completion,
    Delta,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    Usage,
)
from nanobee.errors import MalformedAnswerError
from nanobee.messages import Json, JsonObject
from nanobee.providers.assembler import CallFragment, ToolCallAssembler
from nanobee.providers.dialect import COMMON, Dialect
from nanobee.providers.faults import read_error, sort_refusal
from nanobee.providers.json_reading import read_json
from nanobee.providers.openai_echo import EchoCollector
from nanobee.providers.sse import ServerEvent
from nanobee.providers.surrogates import SurrogateJoiner
from nanobee.providers.think_tags import ThinkTagSplitter

_DONE = "[DONE]"
_FINISH_REASONS: Mapping[str, FinishReason] = {
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
}
_FAILED = frozenset({"error", "insufficient_system_resource", "network_error"})
"""Finish reasons that mean that the server broke the answer off."""


class AnswerAssembler:
    """Puts one answer together; deltas come out as chunks go in."""

    def __init__(self, who: str, secret: str = "", dialect: Dialect = COMMON, source: str = "") -> None:
        self._who = who
        self._secret = secret
        self._source = source
        self._text = ThinkTagSplitter(begins_in_thought=dialect.begins_in_thought) if dialect.has_think_tags else None
        self._plain: list[str] = []
        self._text_joiner = SurrogateJoiner()
        self._reasoning: list[str] = []
        self._reasoning_joiner = SurrogateJoiner()
        self._calls = ToolCallAssembler()
        self._echo = EchoCollector()
        self._has_text = False
        self._has_calls = False
        self._finish: FinishReason | None = None
        self._usage = Usage()
        self._model = ""
        self._has_choice = False
        self._is_accounted = False
        """Usage came in a chunk of its own, which is a server's last."""
        self.has_started = False
        """Whether any text, reasoning or part of a call has come."""
        self.is_ended = False
        """Whether the server has marked the end; nothing but usage follows."""

    def take_event(self, event: ServerEvent) -> list[Delta]:
        """Take a streamed event.

        Raises:
            ProviderError: the event tells of an error, or is not JSON.
        """
        if event.data.strip() == _DONE:
            self.is_ended = True
            return []
        chunk = read_json(event.data)
        if not isinstance(chunk, dict):
            if event.name in ("", "message", "error"):
                raise MalformedAnswerError(f"{self._who} sent a piece of an answer that is not JSON.")
            return []  # `event: ping` and the like carry what they please
        if event.name == "error" and not chunk.get("error"):
            chunk = {"error": chunk}
        return self.feed(chunk)

    def feed(self, chunk: JsonObject) -> list[Delta]:
        """Take a streamed chunk.

        Raises:
            ProviderError: the server reports an error inside the stream.
        """
        return self._feed(chunk, is_whole=False)

    def take_whole(self, value: JsonObject) -> list[Delta]:
        """Take an answer that was not streamed.

        Raises:
            ProviderError: it is an error.
        """
        deltas = self._feed(value, is_whole=True)
        self.is_ended = True
        return deltas

    def is_whole(self, *, is_framed: bool) -> bool:
        """Tell a stream that is complete from one that was cut where the transport saw no fault.

        Without any end mark, text is believed when the transport's own framing was whole; a tool
        call never is, because half of one could be run.
        """
        return self.is_ended or self._is_accounted or (is_framed and self._has_text and not self._has_calls)

    def finish(self) -> list[Delta]:
        """What was held back, now that nothing follows."""
        deltas = self._take_text(self._text_joiner.finish())
        if self._text is not None:
            deltas += self._text.finish(is_cut=self._finish is FinishReason.LENGTH)
        self._reasoning.append(self._reasoning_joiner.finish())
        return deltas

    def completion(self) -> Completion:
        """The whole answer, after `finish`; without text and calls where the model gave none.

        Raises:
            MalformedAnswerError: nothing in what came was an answer.
        """
        if not self._has_choice:
            raise MalformedAnswerError(f"{self._who} sent an answer with nothing in it.")
        finish = self._finish or FinishReason.STOP
        kept = self._calls.calls(is_cut=finish is FinishReason.LENGTH)
        if finish is FinishReason.CONTENT_FILTER:
            kept = {}  # it was broken off somewhere
        if finish is FinishReason.STOP and kept:
            finish = FinishReason.TOOL_CALLS
        thought = "".join(self._reasoning) + (self._text.thought if self._text is not None else "")
        return Completion(
            content="".join(self._plain) + (self._text.text if self._text is not None else ""),
            tool_calls=tuple(kept.values()),
            finish_reason=finish,
            reasoning=thought if thought.strip() else None,
            usage=self._usage,
            model=self._model,
            echo=self._echo.echo(self._source, tuple(kept)),
        )

    def _feed(self, chunk: JsonObject, *, is_whole: bool) -> list[Delta]:
        if error := chunk.get("error"):
            raise sort_refusal(read_error(error), self._who, self._secret)
        model = chunk.get("model")
        if isinstance(model, str):
            self._model = model
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._usage = read_usage(usage)
            self._is_accounted = self._has_choice and choice is None
        if not isinstance(choice, dict):
            return []
        self._has_choice = True
        return self._feed_choice(choice, is_whole=is_whole)

    def _feed_choice(self, choice: JsonObject, *, is_whole: bool) -> list[Delta]:
        usage = choice.get("usage")
        if isinstance(usage, dict):
            self._usage = read_usage(usage)
        message = choice.get("delta") or choice.get("message")
        deltas = self._feed_message(message, is_whole=is_whole) if isinstance(message, dict) else []
        self.has_started = self.has_started or bool(deltas) or self._has_text
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            if reason in _FAILED:
                raise sort_refusal(read_error(choice.get("error")), self._who, self._secret)
            self._finish = _FINISH_REASONS.get(reason, FinishReason.STOP)
            self.is_ended = True
        return deltas

    def _feed_message(self, message: JsonObject, *, is_whole: bool) -> list[Delta]:
        deltas: list[Delta] = []
        content = message.get("content")
        details = self._echo.feed_details(message.get("reasoning_details"))
        reasoning = message.get("reasoning_content") or message.get("reasoning") or details or _read_thinking(content)
        if isinstance(reasoning, str) and (text := self._reasoning_joiner.feed(reasoning)):
            if self._text is not None:
                self._text.expect_no_thought()
            self._reasoning.append(text)
            deltas.append(ReasoningDelta(text))
        deltas += self._take_text(self._text_joiner.feed(_read_text(content) or _read_text(message.get("refusal"))))
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            for position, call in enumerate(calls):
                if isinstance(call, dict):
                    self._has_calls = True
                    delta = self._calls.feed(_read_fragment(call, position if is_whole else None))
                    self._echo.note_call_extra(delta.key, call.get("extra_content"))
                    deltas.append(delta)
        return deltas

    def _take_text(self, text: str) -> list[Delta]:
        if not text:
            return []
        self._has_text = True
        if self._text is not None:
            return self._text.feed(text)
        self._plain.append(text)
        return [TextDelta(text)]


def read_usage(usage: JsonObject) -> Usage:
    """Tokens, with the two places where servers tell of cached ones."""
    prompt, output = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    cached = _read_count(prompt, "cached_tokens")
    return Usage(
        input_tokens=_read_count(usage, "prompt_tokens"),
        output_tokens=_read_count(usage, "completion_tokens"),
        cached_tokens=cached or _read_count(usage, "prompt_cache_hit_tokens") or _read_count(usage, "cached_tokens"),
        reasoning_tokens=_read_count(output, "reasoning_tokens"),
    )


def _read_count(value: Json, key: str) -> int:
    count = value.get(key) if isinstance(value, dict) else None
    return count if isinstance(count, int) and count > 0 else 0


def _read_fragment(call: JsonObject, position: int | None) -> CallFragment:
    index, call_id, function = call.get("index"), call.get("id"), call.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return CallFragment(
        index=index if isinstance(index, int) else position,
        id=call_id if isinstance(call_id, str) else "",
        name=name if isinstance(name, str) else "",
        arguments=arguments if isinstance(arguments, str) else "",
    )


def _read_text(content: Json) -> str:
    """Text that comes plain or as a list of parts."""
    if isinstance(content, str):
        return content
    return _join_parts(content, "text") if isinstance(content, list) else ""


def _read_thinking(content: Json) -> str:
    """Reasoning that comes as a part of the content."""
    return _join_parts(content, "thinking") if isinstance(content, list) else ""


def _join_parts(parts: Sequence[Json], kind: str) -> str:
    texts: list[str] = []
    for part in parts:
        if isinstance(part, dict) and part.get("type", "text") == kind:
            value = part.get(kind)
            texts.append(value if isinstance(value, str) else _read_text(value))
    return "".join(texts)
