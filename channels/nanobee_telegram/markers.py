"""What stands in a message's text for things that are not text. Pure.

A thing that the gateway cannot read becomes a short marker in brackets, so that the agent can
say so; only Telegram's own service messages (somebody joined, a title changed) say nothing.
"""

from collections.abc import Callable, Mapping

from nanobee.messages import Json, JsonObject

_ENVELOPE = frozenset(
    "message_id message_thread_id from sender_chat sender_boost_count sender_business_bot sender_tag date "
    "business_connection_id chat forward_origin forward_from forward_from_chat forward_from_message_id "
    "forward_signature forward_sender_name forward_date is_topic_message is_automatic_forward reply_to_message "
    "external_reply quote reply_to_story reply_to_checklist_task_id via_bot edit_date has_protected_content "
    "is_from_offline is_paid_post media_group_id author_signature paid_star_count link_preview_options effect_id "
    "direct_messages_topic suggested_post_info entities caption caption_entities show_caption_above_media "
    "has_media_spoiler reply_markup text".split()
)
_SERVICE = frozenset(
    "new_chat_members new_chat_member new_chat_participant left_chat_member left_chat_participant new_chat_title "
    "new_chat_photo delete_chat_photo group_chat_created supergroup_chat_created channel_chat_created "
    "message_auto_delete_timer_changed migrate_to_chat_id migrate_from_chat_id pinned_message successful_payment "
    "refunded_payment users_shared user_shared chat_shared connected_website write_access_allowed passport_data "
    "proximity_alert_triggered boost_added chat_background_set checklist_tasks_done checklist_tasks_added "
    "direct_message_price_changed forum_topic_created forum_topic_edited forum_topic_closed forum_topic_reopened "
    "general_forum_topic_hidden general_forum_topic_unhidden giveaway_created giveaway_winners giveaway_completed "
    "paid_message_price_changed suggested_post_approved suggested_post_approval_failed suggested_post_declined "
    "suggested_post_paid suggested_post_refunded video_chat_scheduled video_chat_started video_chat_ended "
    "video_chat_participants_invited voice_chat_started voice_chat_ended chat_owner_left chat_owner_changed".split()
)
_MAX_DETAIL = 200


def marker_of(message: JsonObject) -> str | None:
    """`[photo]`, `[voice message]`, … for a message that has no text; None for a service message."""
    for key, name in _NAMES.items():
        if key in message:
            return f"[{name}]"
    for key, describe in _DESCRIBED.items():
        value = message.get(key)
        if isinstance(value, Mapping):
            return f"[{describe(value)}]"
    if not _SERVICE.isdisjoint(message):
        return None
    unknown = sorted(set(message) - _ENVELOPE)
    return f"[a message that cannot be read here: {', '.join(unknown)[:_MAX_DETAIL] or 'empty'}]"


def _word(value: Json) -> str:
    """A value on one line and short; nothing for what is not text or a number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return " ".join(str(value).split())[:_MAX_DETAIL]


def _named(name: str, *keys: str) -> Callable[[JsonObject], str]:
    def describe(thing: JsonObject) -> str:
        return " ".join(word for word in (name, *(_word(thing.get(key)) for key in keys)) if word)

    return describe


def _venue(venue: JsonObject) -> str:
    location = venue.get("location")
    where = _named("", "latitude", "longitude")(location) if isinstance(location, Mapping) else ""
    return f"{_named('venue', 'title', 'address')(venue)} {where}".rstrip()


def _poll(poll: JsonObject) -> str:
    options = poll.get("options")
    options = options if isinstance(options, list) else []
    texts = [_word(option.get("text")) for option in options if isinstance(option, Mapping)]
    return f"{_named('poll', 'question')(poll)}: {' / '.join(texts)}"[: 2 * _MAX_DETAIL]


# An animation comes with a document as well, so it stands first.
_NAMES: Mapping[str, str] = {
    "animation": "animation",
    "photo": "photo",
    "voice": "voice message",
    "video_note": "video message",
    "video": "video",
    "live_photo": "live photo",
    "story": "story",
    "paid_media": "paid media",
    "invoice": "invoice",
    "game": "game",
    "giveaway": "giveaway",
    "gift": "gift",
    "unique_gift": "gift",
    "web_app_data": "data of a web app",
}
_DESCRIBED: Mapping[str, Callable[[JsonObject], str]] = {
    "audio": _named("audio", "performer", "title", "file_name"),
    "document": _named("file", "file_name"),
    "sticker": _named("sticker", "emoji"),
    "contact": _named("contact", "first_name", "last_name", "phone_number"),
    "venue": _venue,
    "location": _named("location", "latitude", "longitude"),
    "dice": _named("dice", "emoji", "value"),
    "poll": _poll,
    "checklist": _named("checklist", "title"),
}
