"""The order of an answer's blocks and their signatures, packed into an echo, and the blocks made of it again.

Texts are not stored twice: the layout only says how many characters of the message's reasoning
and content each block holds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nanobee.chat import ChatMessage, Echo
from nanobee.messages import Json, JsonObject


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """A thinking block."""

    chars: int
    signature: str


@dataclass(frozen=True, slots=True)
class RedactedPart:
    """A thinking block that nobody but its maker can read."""

    data: str


@dataclass(frozen=True, slots=True)
class TextPart:
    """A block of text."""

    chars: int


@dataclass(frozen=True, slots=True)
class CallPart:
    """The next tool call."""


Part = ThinkingPart | RedactedPart | TextPart | CallPart


def pack_echo(source: str, parts: Sequence[Part]) -> Echo | None:
    """The echo of an answer; None where there is nothing in it that must go back."""
    if not any(isinstance(part, ThinkingPart | RedactedPart) for part in parts):
        return None
    return Echo(source, {"blocks": [_pack(part) for part in parts]})


def unpack_blocks(
    message: ChatMessage, source: str, calls: Sequence[JsonObject], *, with_thinking: bool
) -> list[JsonObject]:
    """The blocks of an assistant message; `calls` are its tool-use blocks.

    Where the message is no longer what came, its thinking goes first; where it is another
    server's, there is none.
    """
    parts = _read(message.echo, source) if with_thinking else ()
    thinking = [part for part in parts if isinstance(part, ThinkingPart | RedactedPart)]
    if sum(part.chars for part in thinking if isinstance(part, ThinkingPart)) != len(message.reasoning or ""):
        parts, thinking = (), []
    chars = sum(part.chars for part in parts if isinstance(part, TextPart))
    is_same = chars == len(message.content) and len(calls) == sum(isinstance(part, CallPart) for part in parts)
    if not is_same:
        parts = [*thinking, TextPart(len(message.content)), *(CallPart() for _ in calls)]
    return list(_blocks(parts, message, calls))


def _blocks(parts: Sequence[Part], message: ChatMessage, calls: Sequence[JsonObject]) -> Iterator[JsonObject]:
    reasoning, content = message.reasoning or "", message.content
    remaining = iter(calls)
    for part in parts:
        match part:
            case ThinkingPart(chars, signature):
                yield {"type": "thinking", "thinking": reasoning[:chars], "signature": signature}
                reasoning = reasoning[chars:]
            case RedactedPart(data):
                yield {"type": "redacted_thinking", "data": data}
            case TextPart(chars):
                text, content = content[:chars], content[chars:]
                if text.strip():  # the API refuses blank ones, also its own
                    yield {"type": "text", "text": text}
            case CallPart():
                yield next(remaining)


def _pack(part: Part) -> Json:
    match part:
        case ThinkingPart(chars, signature):
            return {"thinking": chars, "signature": signature}
        case RedactedPart(data):
            return {"redacted": data}
        case TextPart(chars):
            return {"text": chars}
        case CallPart():
            return {"call": True}


def _read(echo: Echo | None, source: str) -> Sequence[Part]:
    if echo is None or echo.source != source or not isinstance(echo.data, Mapping):
        return ()
    blocks = echo.data.get("blocks")
    return [part for block in blocks if (part := _read_part(block))] if isinstance(blocks, list) else ()


def _read_part(block: object) -> Part | None:
    match block:
        case {"thinking": int(chars), "signature": str(signature)}:
            return ThinkingPart(chars, signature)
        case {"redacted": str(data)}:
            return RedactedPart(data)
        case {"text": int(chars)}:
            return TextPart(chars)
        case {"call": True}:
            return CallPart()
    return None
