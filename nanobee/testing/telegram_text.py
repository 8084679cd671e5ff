"""What Telegram does to a text before it becomes a message, and what it refuses. Pure.

The rules are TDLib's, as far as a bot can run into them; parse modes other than none and HTML are
left out, and of HTML the nesting rules that only lose formatting.
"""

import re
from collections.abc import Mapping, Sequence
from html import unescape

from nanobee.messages import Json, JsonObject

MAX_RAW_BYTES = 1 << 15
"""Before parsing."""
MAX_UNITS = 4096
"""UTF-16 units of a message's text."""

_ENTITY_TYPES = frozenset(
    "mention hashtag cashtag bot_command url email phone_number bold italic underline strikethrough spoiler "
    "blockquote expandable_blockquote code pre text_link text_mention custom_emoji".split()
)
_TAGS = frozenset("b strong i em u ins s strike del span tg-spoiler tg-emoji a code pre blockquote".split())
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)?([^<>]*)>?")
_LINK = re.compile(r"(?:https?|tg|ton)://[^\s/]+\.[^\s/]+(?:/\S*)?|tg://\S+")
_REMOVED = re.compile("[\r\u2028-\u202e]")
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f]")


class TextRefusalError(Exception):
    """The description of a 400, without its `Bad Request: `."""


def utf16_length(text: str) -> int:
    """The unit of all of Telegram's offsets and limits."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def accept_text(text: Json, parse_mode: Json = None, entities: Json = None) -> str:
    """The text as it will stand in the chat.

    Raises:
        TextRefusalError: Telegram would not take it.
    """
    if not isinstance(text, str) or not text:
        raise TextRefusalError("message text is empty")
    if len(text.encode("utf-8", "replace")) > MAX_RAW_BYTES:
        raise TextRefusalError("text is too long")
    if parse_mode:
        text = _parse(text, parse_mode)
    elif entities:
        _check_entities(text, entities)
    text = _CONTROL.sub(" ", _REMOVED.sub("", text)).strip(" \n")
    if not text:
        raise TextRefusalError("text must be non-empty")
    if utf16_length(text) > MAX_UNITS:
        raise TextRefusalError("message is too long")
    return text


def find_entities(text: str) -> list[JsonObject]:
    """The commands and mentions that Telegram marks in what people write."""
    found = re.finditer(r"(?<![\w/])(/[A-Za-z0-9_]{1,64}(?:@\w+)?)|(?<![\w.])(@[A-Za-z]\w{3,31})\b", text)
    return [
        {
            "type": "bot_command" if match[1] else "mention",
            "offset": utf16_length(text[: match.start()]),
            "length": utf16_length(match[0]),
        }
        for match in found
    ]


def _parse(text: str, parse_mode: Json) -> str:
    if not isinstance(parse_mode, str) or parse_mode.lower() != "html":
        raise TextRefusalError("unsupported parse_mode")
    open_tags: list[str] = []
    for match in _TAG.finditer(text):
        name = (match[2] or "").lower()
        at = len(text[: match.start()].encode())
        if match[1]:
            if not open_tags:
                raise TextRefusalError(f"can't parse entities: Unexpected end tag at byte offset {at}")
            if (expected := open_tags.pop()) != name:
                raise TextRefusalError(
                    f"can't parse entities: Unmatched end tag at byte offset {at}, "
                    f'expected "</{expected}>", found "</{name}>"'
                )
        elif name not in _TAGS:
            raise TextRefusalError(f'can\'t parse entities: Unsupported start tag "{name}" at byte offset {at}')
        elif not match[0].endswith(">"):
            raise TextRefusalError(f"can't parse entities: Unclosed start tag at byte offset {at}")
        else:
            open_tags.append(name)
    if open_tags:
        raise TextRefusalError(
            f"can't parse entities: Can't find end tag corresponding to start tag \"{open_tags[-1]}\""
        )
    text = _TAG.sub("", text)
    return re.sub(r"&(?:lt|gt|amp|quot|#\d+|#x[0-9A-Fa-f]+);", lambda match: unescape(match[0]), text)


def _check_entities(text: str, entities: Json) -> None:
    if not isinstance(entities, Sequence) or isinstance(entities, str):
        raise TextRefusalError("can't parse entities: expected an Array")
    for entity in entities:
        if not isinstance(entity, Mapping):
            raise TextRefusalError("can't parse MessageEntity: expected an Object")
        if entity.get("type") not in _ENTITY_TYPES:
            raise TextRefusalError("can't parse MessageEntity: Unsupported type specified")
        start, length = entity.get("offset"), entity.get("length")
        if type(start) is not int or type(length) is not int:
            raise TextRefusalError('can\'t parse MessageEntity: Field "offset" must be of type Number')
        _check_span(text, start, start + length)
        if entity["type"] == "text_link" and not _LINK.fullmatch(str(entity.get("url"))):
            raise TextRefusalError(f"entity URL '{entity.get('url')}' is invalid: Wrong HTTP URL")


def _check_span(text: str, start: int, end: int) -> None:
    units = text.encode("utf-16-le", "surrogatepass")
    if start < 0 or end < start:
        raise TextRefusalError(f"receive an entity with incorrect offset {start}")
    if end > len(units) // 2:
        raise TextRefusalError(
            f"entity beginning at UTF-16 offset {start} ends after the end of the text at UTF-16 offset {end}"
        )
    for place in (start, end):
        # A second half of a pair stands in 0xDC00 to 0xDFFF.
        if place < len(units) // 2 and 0xDC <= units[2 * place + 1] <= 0xDF:
            raise TextRefusalError("entity begins in a middle of a UTF-16 symbol")
