"""What the Bot API's calls about messages are given. Pure."""

from nanobee.messages import Address, Json, JsonObject

GENERAL_TOPIC = "1"
"""A forum's first topic, which Telegram refuses to be told by its id."""


def message_parameters(address: Address, text: str, reply_to: str | None) -> JsonObject:
    """For `sendMessage`: plain text in the right topic, as a reply where there is something to reply to."""
    parameters: dict[str, Json] = {**_place(address), **_plain(text)}
    if reply_to is not None and reply_to.isdecimal():
        parameters["reply_parameters"] = {"message_id": int(reply_to), "allow_sending_without_reply": True}
    return parameters


def edit_parameters(address: Address, message_id: str, text: str) -> JsonObject:
    """For `editMessageText`."""
    return {"chat_id": address.chat_id, "message_id": message_id, **_plain(text)}


def deletion_parameters(address: Address, message_id: str) -> JsonObject:
    """For `deleteMessage`."""
    return {"chat_id": address.chat_id, "message_id": message_id}


def draft_parameters(address: Address, draft_id: int, text: str) -> JsonObject:
    """For `sendMessageDraft`."""
    return {**_place(address), "draft_id": draft_id, "text": text}


def message_id_of(message: Json) -> tuple[str, ...]:
    """The id of a message that Telegram answers with; empty where the answer holds none."""
    message_id = message.get("message_id") if isinstance(message, dict) else None
    return () if message_id is None else (str(message_id),)


def is_private(address: Address) -> bool:
    """Whether the chat has one person in it; groups and channels have negative ids."""
    return not address.chat_id.startswith("-")


def _place(address: Address) -> JsonObject:
    if address.thread in (None, GENERAL_TOPIC):
        return {"chat_id": address.chat_id}
    return {"chat_id": address.chat_id, "message_thread_id": address.thread}


def _plain(text: str) -> JsonObject:
    return {"text": text, "link_preview_options": {"is_disabled": True}}
