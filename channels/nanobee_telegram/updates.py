"""Reading Telegram's updates: a raw update becomes an Arrival, without I/O.

The raw JSON is read directly, and each field is checked where it is read: a damaged update
raises `UpdateError` and nothing else.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from nanobee.channel import Arrival, lane_of
from nanobee.messages import Address, InboundMessage, Json, JsonObject
from nanobee_telegram.markers import marker_of
from nanobee_telegram.text import clean

ALLOWED_UPDATES = ("message", "channel_post")
"""What Telegram is asked for. It keeps the last list that it was given, so each poll names it."""

_COMMAND = re.compile(r"/([A-Za-z0-9_]{1,64})@([A-Za-z0-9_]+)(?=\s|$)")
_MAX_DATE = 253_402_300_799
"""The last second of the year 9999."""


def update_id_of(update: Json) -> int:
    """The id that acknowledges an update.

    Raises:
        UpdateError: there is none.
    """
    if not isinstance(update, Mapping):
        raise UpdateError("the update is not an object")
    return _integer(update, "update_id")


class UpdateError(ValueError):
    """An update that does not have the form that Telegram documents."""


@dataclass(frozen=True, slots=True)
class UpdateReader:
    """Reads the updates of one bot for the channel of one name."""

    channel: str
    bot_id: int
    username: str
    """The bot's own, without `@`."""
    group_policy: Literal["mention", "all"] = "mention"

    def read(self, update: JsonObject, now: datetime) -> Arrival | None:
        """The arrival of an update; None for what is not said to the bot.

        Raises:
            UpdateError: the update is damaged.
        """
        update_id = update_id_of(update)
        kind = next((kind for kind in ALLOWED_UPDATES if kind in update), None)
        if kind is None:
            return None
        message = _object(update, kind)
        chat = _object(message, "chat")
        quoted = _quoted(message)
        text = self._text(message, chat, quoted)
        if text is None:
            return None
        address = Address(self.channel, str(_integer(chat, "id")), _thread(message))
        sender_id, sender_name = _sender(message, chat)
        source_id = str(_integer(message, "message_id"))
        said = InboundMessage(
            address=address,
            sender_id=sender_id,
            sender_name=sender_name,
            text=text,
            received_at=_date(message, now),
            source_id=source_id,
            reply_to=str(_integer(quoted, "message_id")) if quoted is not None else None,
            quoted_text=_quoted_text(message, quoted),
        )
        return Arrival(
            event_key=str(update_id),
            session_key=address.session_key,
            sender_id=sender_id,
            lane=lane_of(text),
            raw={},
            source_id=source_id,
            message=said,
        )

    def _text(self, message: JsonObject, chat: JsonObject, quoted: JsonObject | None) -> str | None:
        """What was said, without the bot's own name; None for what was not said to the bot."""
        is_group = chat.get("type") != "private"
        text, entities = _content(message)
        if is_group and not self._is_heard(text, entities, quoted):
            return None
        if command := _COMMAND.match(text):
            if command[2].lower() == self.username.lower():
                text = f"/{command[1]}{text[command.end() :]}"
        elif is_group:
            text = self._without_mention(text, entities)
        if "text" in message:
            return text
        marker = marker_of(message)
        if marker is None:
            return None
        return f"{clean(marker)}\n{text}" if text else clean(marker)

    def _is_heard(self, text: str, entities: Sequence[JsonObject], quoted: JsonObject | None) -> bool:
        command = _COMMAND.match(text)
        if command is not None:
            return command[2].lower() == self.username.lower()
        if self.group_policy == "all" or (quoted is not None and self._is_from_bot(quoted)):
            return True
        return any(self._is_mention(text, entity) or _is_command(entity) for entity in entities)

    def _is_from_bot(self, message: JsonObject) -> bool:
        sender = message.get("from")
        return isinstance(sender, Mapping) and sender.get("id") == self.bot_id

    def _is_mention(self, text: str, entity: JsonObject) -> bool:
        if entity.get("type") == "text_mention":
            user = entity.get("user")
            return isinstance(user, Mapping) and user.get("id") == self.bot_id
        return entity.get("type") == "mention" and _span(text, entity).lower() == f"@{self.username.lower()}"

    def _without_mention(self, text: str, entities: Sequence[JsonObject]) -> str:
        """Drop the bot's name where it only opens the message; inside a sentence it is part of it."""
        for entity in entities:
            if entity.get("offset") == 0 and self._is_mention(text, entity):
                rest = text[len(_span(text, entity)) :].lstrip(" \t\n,:")
                return rest or text
        return text


def _content(message: JsonObject) -> tuple[str, Sequence[JsonObject]]:
    """Text or caption, with its entities."""
    key = "text" if "text" in message else "caption"
    text = message.get(key, "")
    if not isinstance(text, str):
        raise UpdateError(f"{key} is not a text")
    entities = message.get("entities" if key == "text" else "caption_entities", ())
    if not isinstance(entities, list):
        entities = ()
    return clean(text), [entity for entity in entities if isinstance(entity, Mapping)]


def _quoted(message: JsonObject) -> JsonObject | None:
    """The message that this one answers. In a topic, every message points at the topic's first one."""
    quoted = message.get("reply_to_message")
    if not isinstance(quoted, Mapping) or "forum_topic_created" in quoted:
        return None
    return quoted


def _quoted_text(message: JsonObject, quoted: JsonObject | None) -> str | None:
    quote = message.get("quote")
    if isinstance(quote, Mapping) and isinstance(quote.get("text"), str):
        return clean(_content(quote)[0])
    if quoted is None:
        return None
    text, _ = _content(quoted)
    return text or marker_of(quoted)


def _thread(message: JsonObject) -> str | None:
    """The topic. Without `is_topic_message` the id marks a chain of replies, which is no chat of its own."""
    if message.get("is_topic_message") is not True or "message_thread_id" not in message:
        return None
    return str(_integer(message, "message_thread_id"))


def _sender(message: JsonObject, chat: JsonObject) -> tuple[str, str]:
    """Id and name. A channel or an anonymous group administrator is a principal of its own."""
    sender = message.get("sender_chat", message.get("from", chat))
    if not isinstance(sender, Mapping):
        raise UpdateError("the sender is not an object")
    words = (sender.get(key) for key in ("title", "first_name", "last_name"))
    name = " ".join(word for word in words if isinstance(word, str) and word)
    return str(_integer(sender, "id")), clean(name)


def _date(message: JsonObject, now: datetime) -> datetime:
    """When it was said, as Telegram tells it; `now` where that is no date."""
    date = message.get("date")
    if isinstance(date, bool) or not isinstance(date, int) or not 0 < date <= _MAX_DATE:
        return now
    return datetime.fromtimestamp(date, UTC)


def _is_command(entity: JsonObject) -> bool:
    return entity.get("type") == "bot_command" and entity.get("offset") == 0


def _span(text: str, entity: JsonObject) -> str:
    """The text of an entity, whose place is given in UTF-16 units."""
    start, length = _integer(entity, "offset"), _integer(entity, "length")
    if start < 0 or length < 0:
        raise UpdateError("an entity stands before the text")
    return text.encode("utf-16-le")[2 * start : 2 * (start + length)].decode("utf-16-le", "replace")


def _object(value: JsonObject, key: str) -> JsonObject:
    found = value.get(key)
    if not isinstance(found, Mapping):
        raise UpdateError(f"{key} is not an object")
    return found


def _integer(value: JsonObject, key: str) -> int:
    found: Json = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int):
        raise UpdateError(f"{key} is not a whole number")
    return found
