"""A Messages API answer, put together from its events, without I/O.

Whatever a server leaves out, writes null or of another type is read as absent: only what can be
understood reaches the completion.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from nanobee.chat import Completion, Delta, FinishReason, ReasoningDelta, TextDelta, ToolCall, ToolCallDelta, Usage
from nanobee.errors import MalformedAnswerError
from nanobee.messages import Json, JsonObject
from nanobee.providers.anthropic_echo import CallPart, Part, RedactedPart, TextPart, ThinkingPart, pack_echo
from nanobee.providers.assembler import CUT_ARGUMENTS, free_id
from nanobee.providers.faults import read_error, sort_refusal
from nanobee.providers.json_reading import read_json
from nanobee.providers.sse import ServerEvent
from nanobee.providers.surrogates import SurrogateJoiner, clean_json_text

_FINISH_REASONS: Mapping[str, FinishReason] = {
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    # For tools that the server runs, of which we offer none: the answer is not complete.
    "pause_turn": FinishReason.LENGTH,
    "refusal": FinishReason.CONTENT_FILTER,
}
_TOKENS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
_DELTA_TEXTS: Mapping[str, str] = {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}
"""By the kind of block, the key of its deltas."""


@dataclass(slots=True)
class _Block:
    kind: str
    key: int
    """Tells the calls of the answer apart."""
    index: Json
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    seal: str = ""
    """The signature, or the encrypted thinking itself."""
    joiner: SurrogateJoiner = field(default_factory=SurrogateJoiner)
    is_closed: bool = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class AnthropicAnswer:
    """Puts one answer together; deltas come out as events go in."""

    def __init__(self, who: str, secret: str = "", source: str = "") -> None:
        self._who = who
        self._secret = secret
        self._source = source
        self._blocks: list[_Block] = []
        self._finish: FinishReason | None = None
        self._counts: dict[str, int] = {}
        self._reasoning_tokens = 0
        self._model = ""
        self._has_message = False
        self.has_started = False
        """Whether any text, reasoning or part of a call has come."""
        self.is_ended = False
        """Whether the server has marked the end."""

    def take_event(self, event: ServerEvent) -> list[Delta]:
        """Take a streamed event.

        Raises:
            ProviderError: it tells of an error, or cannot be one of this API.
        """
        value = read_json(event.data)
        if not isinstance(value, dict):
            if event.name in ("ping", "") and event.data.strip() in ("", "[DONE]"):
                return []
            raise MalformedAnswerError(f"{self._who} sent a piece of an answer that is not JSON.")
        match value.get("type", event.name):
            case "message_start":
                self._start(value.get("message"))
            case "content_block_start":
                return self._open(value.get("index"), value.get("content_block"))
            case "content_block_delta":
                return self._grow(value.get("index"), value.get("delta"))
            case "content_block_stop":
                self._close(value.get("index"))
            case "message_delta":
                self._end(value)
            case "message_stop":
                self.is_ended = True
            case "error":
                raise sort_refusal(read_error(value.get("error", value)), self._who, self._secret)
        return []  # `ping`, and whatever the API will add

    def take_whole(self, value: JsonObject) -> list[Delta]:
        """Take an answer that was not streamed.

        Raises:
            ProviderError: it is an error.
        """
        if value.get("type") == "error" or "error" in value:
            raise sort_refusal(read_error(value.get("error")), self._who, self._secret)
        content = value.get("content")
        if not isinstance(content, list):
            return []
        self._start(value)
        deltas: list[Delta] = []
        for index, block in enumerate(content):
            deltas += self._open(index, block)
            self._close(index)
        self._end({"delta": value, "usage": value.get("usage")})
        self.is_ended = True
        return deltas

    def is_whole(self, *, is_framed: bool) -> bool:
        """Without an end mark, closed text is believed when the transport's framing was whole; a call never is."""
        has_call = any(block.kind == "tool_use" for block in self._blocks)
        return self.is_ended or (is_framed and not has_call and all(block.is_closed for block in self._blocks))

    def finish(self) -> list[Delta]:
        """What was held back, now that nothing follows."""
        return [delta for block in self._blocks for delta in self._add(block, block.joiner.finish())]

    def completion(self) -> Completion:
        """The whole answer, after `finish`; without text and calls where the model gave none.

        Raises:
            MalformedAnswerError: nothing in what came was an answer.
        """
        if not self._has_message:
            raise MalformedAnswerError(f"{self._who} sent an answer with nothing in it.")
        finish = self._finish or FinishReason.STOP
        calls = self._calls() if finish is not FinishReason.CONTENT_FILTER else ()
        if finish is FinishReason.STOP and calls:
            finish = FinishReason.TOOL_CALLS
        reasoning = self._texts("thinking")
        return Completion(
            content=self._texts("text"),
            tool_calls=calls,
            finish_reason=finish,
            reasoning=reasoning or None,
            usage=self._usage(),
            model=self._model,
            echo=pack_echo(self._source, [_part(block) for block in self._blocks]),
        )

    def _start(self, message: Json) -> None:
        if isinstance(message, dict):
            self._has_message = True
            model = message.get("model")
            self._model = model if isinstance(model, str) else self._model
            self._count(message.get("usage"))

    def _open(self, index: Json, block: Json) -> list[Delta]:
        """Begin a block; relays may send all of it at once."""
        if not isinstance(block, dict):
            return []
        kind = block.get("type")
        known = self._find(index)
        if known is not None and known.kind == kind and known.id == _text(block, "id") and not known.is_closed:
            return []  # it came twice
        if kind not in ("text", "thinking", "redacted_thinking", "tool_use"):
            return []
        self._has_message = True
        seal = _text(block, "signature") or _text(block, "data")
        opened = _Block(kind, len(self._blocks), index, _text(block, "id"), _text(block, "name"), seal=seal)
        self._blocks.append(opened)
        deltas: list[Delta] = []
        if kind == "tool_use":
            self.has_started = True
            deltas.append(ToolCallDelta(opened.key, opened.name))
            arguments = block.get("input")
            if isinstance(arguments, dict) and arguments:
                deltas += self._add(opened, json.dumps(arguments, ensure_ascii=False))
        return deltas + self._add(opened, _text(block, kind))

    def _grow(self, index: Json, delta: Json) -> list[Delta]:
        block = self._find(index)
        if block is None or not isinstance(delta, dict):
            return []
        block.seal += _text(delta, "signature")
        return self._add(block, block.joiner.feed(_text(delta, _DELTA_TEXTS.get(block.kind, ""))))

    def _add(self, block: _Block, text: str) -> list[Delta]:
        if not text:
            return []
        block.pieces.append(text)
        self.has_started = True
        match block.kind:
            case "text":
                return [TextDelta(text)]
            case "thinking":
                return [ReasoningDelta(text)]
        return [ToolCallDelta(block.key, arguments=text)]

    def _close(self, index: Json) -> None:
        block = self._find(index)
        if block is not None:
            block.is_closed = True

    def _end(self, value: JsonObject) -> None:
        self._count(value.get("usage"))
        delta = value.get("delta")
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        if isinstance(reason, str) and reason:
            self._finish = _FINISH_REASONS.get(reason, FinishReason.STOP)
            self.is_ended = True

    def _find(self, index: Json) -> _Block | None:
        """The newest block with that index."""
        return next((block for block in reversed(self._blocks) if block.index == index), None)

    def _calls(self) -> tuple[ToolCall, ...]:
        taken: set[str] = set()
        calls: list[ToolCall] = []
        for block in self._blocks:
            if block.kind != "tool_use":
                continue
            if not block.name:
                raise MalformedAnswerError(f"{self._who} sent a tool call without a name.")
            call_id = free_id(block.id, block.key, taken)
            taken.add(call_id)
            arguments = clean_json_text(block.text)
            if not arguments.strip():
                arguments = "{}" if block.is_closed else CUT_ARGUMENTS
            calls.append(ToolCall(call_id, block.name, arguments))
        return tuple(calls)

    def _texts(self, kind: str) -> str:
        return "".join(block.text for block in self._blocks if block.kind == kind)

    def _count(self, usage: Json) -> None:
        """Counts are told at the beginning and, up to then, at the end."""
        if not isinstance(usage, dict):
            return
        for name in _TOKENS:
            count = usage.get(name)
            if isinstance(count, int) and count > 0:
                self._counts[name] = count
        details = usage.get("output_tokens_details")
        count = details.get("thinking_tokens") if isinstance(details, dict) else None
        self._reasoning_tokens = count if isinstance(count, int) and count > 0 else self._reasoning_tokens

    def _usage(self) -> Usage:
        read, written = (self._counts.get(name, 0) for name in _TOKENS[2:])
        return Usage(
            # What the server counts as input is only what no cache held.
            input_tokens=self._counts.get("input_tokens", 0) + read + written,
            output_tokens=self._counts.get("output_tokens", 0),
            cached_tokens=read,
            reasoning_tokens=self._reasoning_tokens,
            cache_write_tokens=written,
        )


def _part(block: _Block) -> Part:
    match block.kind:
        case "thinking":
            return ThinkingPart(len(block.text), block.seal)
        case "redacted_thinking":
            return RedactedPart(block.seal)
        case "text":
            return TextPart(len(block.text))
    return CallPart()


def _text(value: JsonObject, key: str) -> str:
    text = value.get(key)
    return text if isinstance(text, str) else ""
