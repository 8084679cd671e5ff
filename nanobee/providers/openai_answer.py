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
from nanobee.providers.faults import read_error, sort_refusal
from nanobee.providers.surrogates import SurrogateJoiner

_FINISH_REASONS: Mapping[str, FinishReason] = {
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
}
_FAILED = frozenset({"error", "insufficient_system_resource"})
"""Finish reasons that mean that the server broke the answer off."""


class AnswerAssembler:
    """Puts one answer together; deltas come out as chunks go in."""

    def __init__(self, who: str, secret: str = "") -> None:
        self._who = who
        self._secret = secret
        self._text: list[str] = []
        self._text_joiner = SurrogateJoiner()
        self._reasoning: list[str] = []
        self._reasoning_joiner = SurrogateJoiner()
        self._calls = ToolCallAssembler()
        self._has_calls = False
        self._finish: FinishReason | None = None
        self._usage = Usage()
        self._model = ""
        self._has_choice = False
        self.has_started = False
        """Whether any text, reasoning or part of a call has come."""
        self.is_ended = False
        """Whether the server has marked the end; nothing but usage follows."""
        self.is_accounted = False
        """Whether usage came in a chunk of its own, which is a server's last."""

    @property
    def is_text_only(self) -> bool:
        """Whether it has text and no tool call."""
        return bool(self._text) and not self._has_calls

    def end(self) -> None:
        """The stream's own end mark has come."""
        self.is_ended = True

    def feed(self, chunk: JsonObject) -> list[Delta]:
        """Take a streamed chunk.

        Raises:
            ProviderError: the server reports an error inside the stream.
        """
        return self._feed(chunk, is_whole=False)

    def feed_whole(self, answer: JsonObject) -> list[Delta]:
        """Take an answer that was not streamed.

        Raises:
            ProviderError: it is an error.
        """
        deltas = self._feed(answer, is_whole=True)
        self.is_ended = True
        return deltas

    def completion(self) -> Completion:
        """The whole answer; without text and calls where the model gave none.

        Raises:
            MalformedAnswerError: nothing in what came was an answer.
        """
        if not self._has_choice:
            raise MalformedAnswerError(f"{self._who} sent an answer with nothing in it.")
        calls = self._calls.calls()
        finish = self._finish or FinishReason.STOP
        if finish is FinishReason.STOP and calls:
            finish = FinishReason.TOOL_CALLS
        return Completion(
            content="".join(self._text) + self._text_joiner.finish(),
            tool_calls=calls,
            finish_reason=finish,
            reasoning="".join(self._reasoning) + self._reasoning_joiner.finish() or None,
            usage=self._usage,
            model=self._model,
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
            self.is_accounted = self._has_choice and choice is None
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
        self.has_started = self.has_started or bool(deltas)
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
        reasoning = message.get("reasoning_content") or message.get("reasoning") or _read_thinking(content)
        if isinstance(reasoning, str) and (text := self._reasoning_joiner.feed(reasoning)):
            self._reasoning.append(text)
            deltas.append(ReasoningDelta(text))
        if text := self._text_joiner.feed(_read_text(content) or _read_text(message.get("refusal"))):
            self._text.append(text)
            deltas.append(TextDelta(text))
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            for position, call in enumerate(calls):
                if isinstance(call, dict):
                    self._has_calls = True
                    deltas.append(self._calls.feed(_read_fragment(call, position if is_whole else None)))
        return deltas


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
