"""The chats of the fake Telegram: who is in them, what was said, and what they refuse."""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from nanobee.messages import Json, JsonObject
from nanobee.testing.telegram_text import find_entities

ChatType = Literal["private", "group", "supergroup", "channel"]
GENERAL_TOPIC = 1


class RefusalError(Exception):
    """An answer with `ok: false`."""

    def __init__(self, status: int, description: str, **parameters: Json) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters


@dataclass
class TelegramChat:
    """One chat, and what people do in it."""

    id: int
    type: ChatType
    push: Callable[[JsonObject], int]
    """Queues an update for the bot; returns its id."""
    next_id: Iterator[int] = field(default_factory=lambda: itertools.count(101))
    title: str = ""
    is_forum: bool = False
    topics: dict[int, str] = field(default_factory=dict)
    messages: dict[int, JsonObject] = field(default_factory=dict)
    drafts: dict[int, str] = field(default_factory=dict)
    """What people see of answers under way, by draft id, until the bot's next message; it does not age here."""
    is_blocked: bool = False
    """The person blocked the bot, or it was thrown out of the group."""
    moved_to: int | None = None
    """The group became a supergroup of this id."""

    def says(
        self,
        text: str | None = None,
        *,
        sender: int | None = None,
        name: str = "Ann",
        thread: int | None = None,
        reply_to: JsonObject | None = None,
        **fields: Json,
    ) -> JsonObject:
        """Somebody says something; `fields` are any of a message's. Returns the message."""
        message: dict[str, Json] = self._envelope(thread)
        if self.type == "channel":
            message["sender_chat"] = self.as_json()
        else:
            message["from"] = {"id": sender or abs(self.id), "is_bot": False, "first_name": name}
        if reply_to is not None:
            message["reply_to_message"] = {key: value for key, value in reply_to.items() if key != "reply_to_message"}
        if text is not None:
            message["text"] = text
            if entities := find_entities(text):
                message["entities"] = entities
        message.update(fields)
        self._keep(message)
        self.push({"channel_post" if self.type == "channel" else "message": message})
        return message

    def open_topic(self, name: str) -> int:
        """Make a topic in a forum; returns its id. The bot gets Telegram's service message."""
        message = {**self._envelope(None), "forum_topic_created": {"name": name}}
        topic = int(str(message["message_id"]))
        message |= {"message_thread_id": topic, "is_topic_message": True}
        self.topics[topic] = name
        self._keep(message)
        self.push({"message": message})
        return topic

    def receive(self, bot: JsonObject, text: str, parameters: JsonObject) -> JsonObject:
        """Take a message of the bot.

        Raises:
            RefusalError: the chat does not take it.
        """
        message = self._envelope(self._topic_for(parameters.get("message_thread_id")))
        message |= {"from": bot, "text": text, **self._reply_for(parameters.get("reply_parameters"))}
        self._keep(message)
        self.drafts.clear()
        return message

    def edit(self, bot: JsonObject, text: str, parameters: JsonObject) -> JsonObject:
        """Give a message of the bot another text.

        Raises:
            RefusalError: it is not there, not the bot's, or has that text.
        """
        message = self._named(parameters, "message to edit not found")
        if message.get("from") != bot:
            raise RefusalError(400, "Bad Request: message can't be edited")
        if message.get("text") == text:
            raise RefusalError(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup are exactly the"
                " same as a current content and reply markup of the message",
            )
        message = {**message, "text": text, "edit_date": int(time.time())}
        self._keep(message)
        return message

    def delete(self, parameters: JsonObject) -> bool:
        """Remove a message.

        Raises:
            RefusalError: it is not there.
        """
        message = self._named(parameters, "message to delete not found")
        del self.messages[int(str(message["message_id"]))]
        return True

    def take_draft(self, text: str, parameters: JsonObject) -> bool:
        """Show what the bot is about to say; an empty text shows that it thinks.

        Raises:
            RefusalError: the chat is not private, or the draft has no number.
        """
        if self.type != "private":
            raise RefusalError(400, "Bad Request: TEXTDRAFT_PEER_INVALID")
        draft_id = parameters.get("draft_id")
        if not isinstance(draft_id, int) or draft_id == 0:
            raise RefusalError(400, "Bad Request: draft_id must be non-zero")
        self._topic_for(parameters.get("message_thread_id"))
        self.drafts[draft_id] = text
        return True

    def as_json(self) -> JsonObject:
        """The `chat` of its messages."""
        chat: dict[str, Json] = {"id": self.id, "type": self.type}
        chat["first_name" if self.type == "private" else "title"] = self.title
        if self.is_forum:
            chat["is_forum"] = True
        return chat

    def _envelope(self, thread: int | None) -> dict[str, Json]:
        message: dict[str, Json] = {"message_id": next(self.next_id), "date": int(time.time()), "chat": self.as_json()}
        if thread is not None:
            message |= {"message_thread_id": thread, "is_topic_message": True}
        return message

    def _keep(self, message: JsonObject) -> None:
        self.messages[int(str(message["message_id"]))] = message

    def _named(self, parameters: JsonObject, missing: str) -> JsonObject:
        message_id = parameters.get("message_id")
        message = self.messages.get(message_id) if isinstance(message_id, int) else None
        if message is None:
            raise RefusalError(400, f"Bad Request: {missing}")
        return message

    def _topic_for(self, thread: Json) -> int | None:
        if thread is None or not (self.is_forum or self.type == "private"):
            return None
        if isinstance(thread, int) and thread != GENERAL_TOPIC and thread in self.topics:
            return thread
        raise RefusalError(400, "Bad Request: message thread not found")

    def _reply_for(self, reply: Json) -> JsonObject:
        if reply is None:
            return {}
        if not isinstance(reply, Mapping) or not isinstance(reply.get("message_id"), int):
            raise RefusalError(400, "Bad Request: can't parse reply parameters JSON object")
        quoted = self.messages.get(int(str(reply["message_id"])))
        if quoted is not None:
            return {"reply_to_message": {key: value for key, value in quoted.items() if key != "reply_to_message"}}
        if reply.get("allow_sending_without_reply"):
            return {}
        raise RefusalError(400, "Bad Request: message to be replied not found")
