"""A raw update becomes an arrival, or says why not; nothing else can happen."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobee.channel import Arrival, Lane
from nanobee.messages import Address, InboundMessage, Json, JsonObject
from nanobee.testing.telegram_text import find_entities
from nanobee_telegram.updates import UpdateError, UpdateReader

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
BOT = 424242
READER = UpdateReader("tg", BOT, "helper")
ANN: JsonObject = {"id": 1001, "is_bot": False, "first_name": "Ann", "last_name": "Lee", "username": "ann"}
GROUP: JsonObject = {"id": -1001, "type": "supergroup", "title": "Team"}


def message(text: str | None = "hello", sender: Json = None, **fields: Json) -> dict[str, Json]:
    said: dict[str, Json] = {
        "message_id": 5,
        "date": 1_764_500_000,
        "chat": {"id": 1001, "type": "private", "first_name": "Ann"},
        "from": ANN if sender is None else sender,
    }
    if text is not None:
        said |= {"text": text, "entities": find_entities(text)}
    return said | fields


def read(said: JsonObject, reader: UpdateReader = READER) -> Arrival:
    arrival = reader.read({"update_id": 7, "message": said}, NOW)
    assert arrival is not None
    return arrival


def read_message(said: JsonObject, reader: UpdateReader = READER) -> InboundMessage:
    found = read(said, reader).message
    assert found is not None
    return found


def test_a_text_message_is_complete_at_once() -> None:
    arrival = read(message("hello"))
    assert arrival == Arrival(
        event_key="7",
        session_key="tg:1001",
        sender_id="1001",
        lane=Lane.USER,
        raw={},
        source_id="5",
        message=InboundMessage(
            address=Address("tg", "1001"),
            sender_id="1001",
            sender_name="Ann Lee",
            text="hello",
            received_at=datetime.fromtimestamp(1_764_500_000, UTC),
            source_id="5",
        ),
    )


@pytest.mark.parametrize("chat_id", [1001, -1001, -1_002_003_004_005, 7_654_321_098])
def test_o14_each_chat_has_a_session_of_its_own(chat_id: int) -> None:
    said = message(chat={"id": chat_id, "type": "private"})
    key = read(said).session_key
    assert key == f"tg:{chat_id}"
    assert Address.from_session_key(key) == Address("tg", str(chat_id))


def test_o14_a_topic_has_a_session_of_its_own() -> None:
    keys = {
        read(message("@helper hi", chat=GROUP, **fields)).session_key
        for fields in (
            {"message_thread_id": 158, "is_topic_message": True},
            {"message_thread_id": 7, "is_topic_message": True},
            {},
        )
    }
    assert keys == {"tg:-1001:158", "tg:-1001:7", "tg:-1001"}


def test_a_chain_of_replies_is_not_a_topic() -> None:
    assert read(message("@helper hi", chat=GROUP, message_thread_id=99)).session_key == "tg:-1001"


@pytest.mark.parametrize("text", ["/stop", "/stop@helper", "/STATUS", "/answer 3 yes"])
def test_control_commands_overtake(text: str) -> None:
    assert read(message(text)).lane is Lane.CONTROL


def test_the_bots_name_is_cut_from_commands() -> None:
    assert read_message(message("/stop@Helper now")).text == "/stop now"
    assert read_message(message("/stop@other")).text == "/stop@other"


def test_a_quote_is_carried() -> None:
    quoted = message("the first words and the rest", message_id=3)
    found = read_message(message("what does that mean?", reply_to_message=quoted))
    assert (found.reply_to, found.quoted_text) == ("3", "the first words and the rest")
    found = read_message(message("and that?", reply_to_message=quoted, quote={"text": "first words", "position": 4}))
    assert found.quoted_text == "first words"
    found = read_message(message("and that?", reply_to_message=message(None, photo=[])))
    assert found.quoted_text == "[photo]"


def test_the_first_message_of_a_topic_is_not_a_quote() -> None:
    topic = message(None, message_id=158, forum_topic_created={"name": "Plans"}, sender={"id": BOT})
    topical: dict[str, Json] = {"message_thread_id": 158, "is_topic_message": True, "reply_to_message": topic}
    assert READER.read({"update_id": 7, "message": message("hi", chat=GROUP, **topical)}, NOW) is None
    found = read_message(message("@helper hi", chat=GROUP, **topical))
    assert (found.reply_to, found.quoted_text) == (None, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"chat": GROUP, "sender_chat": GROUP, "sender": {"id": 1087968824, "first_name": "GroupAnonymousBot"}},
        {"chat": GROUP, "sender_chat": {"id": -1001, "type": "channel", "title": "News"}},
    ],
    ids=["anonymous administrator", "a person who speaks as a channel"],
)
def test_a_chat_that_speaks_is_a_principal_of_its_own(fields: dict[str, Json]) -> None:
    assert read(message("/help", **fields)).sender_id == "-1001"


def test_a_channel_post_comes_from_the_channel() -> None:
    channel: JsonObject = {"id": -1002, "type": "channel", "title": "News"}
    post = {key: value for key, value in message("@helper sum this up").items() if key != "from"}
    arrival = READER.read({"update_id": 8, "channel_post": {**post, "chat": channel, "sender_chat": channel}}, NOW)
    assert arrival is not None
    assert (arrival.sender_id, arrival.session_key) == ("-1002", "tg:-1002")


def test_names_grant_nothing() -> None:
    posing: JsonObject = {"id": 666, "first_name": "1001", "username": "1001"}
    assert read(message("hi", sender=posing)).sender_id == "666"


@pytest.mark.parametrize(
    ("text", "fields", "is_heard"),
    [
        ("x@helper.example", {}, False),
        ("@helperbot2 hi", {}, False),
        ("`@helper`", {"entities": [{"type": "code", "offset": 0, "length": 9}]}, False),
        ("/start@other", {}, False),
        ("@HELPER hi", {}, True),
        ("hi", {"reply_to_message": message("an answer", sender={"id": BOT})}, True),
        ("hi", {"reply_to_message": message("somebody else's")}, False),
        ("/start@helper", {}, True),
        ("/start", {}, True),
        ("hi", {"entities": [{"type": "text_mention", "offset": 0, "length": 2, "user": {"id": BOT}}]}, True),
        ("\U0001f600 @helper hi", {}, True),
        ("hello all", {}, False),
    ],
)
def test_o28_a_group_is_heard_when_it_speaks_to_the_bot(text: str, fields: dict[str, Json], is_heard: bool) -> None:
    arrival = READER.read({"update_id": 7, "message": message(text, chat=GROUP, **fields)}, NOW)
    assert (arrival is not None) is is_heard


def test_a_group_can_be_heard_whole_but_for_other_bots_commands() -> None:
    reader = UpdateReader("tg", BOT, "helper", "all")
    assert read_message(message("hello all", chat=GROUP), reader).text == "hello all"
    assert reader.read({"update_id": 7, "message": message("/start@other", chat=GROUP)}, NOW) is None


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("@helper what is this?", "what is this?"),
        ("@helper, stop", "stop"),
        ("ask @helper about it", "ask @helper about it"),
        ("@helper", "@helper"),
    ],
)
def test_the_bots_name_is_cut_where_it_opens_a_message(text: str, left: str) -> None:
    assert read_message(message(text, chat=GROUP)).text == left


def test_a_command_behind_the_bots_name_is_a_command() -> None:
    assert read(message("@helper /stop", chat=GROUP)).lane is Lane.CONTROL


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"photo": [{"file_id": "x"}], "caption": "what is this?"}, "[photo]\nwhat is this?"),
        ({"voice": {"file_id": "x"}}, "[voice message]"),
        ({"document": {"file_id": "x", "file_name": "../../a\nb.pdf"}}, "[file ../../a b.pdf]"),
        ({"animation": {"file_id": "x"}, "document": {"file_id": "x"}}, "[animation]"),
        ({"sticker": {"emoji": "\U0001f44d"}}, "[sticker \U0001f44d]"),
        ({"location": {"latitude": 52.5, "longitude": 13.4}}, "[location 52.5 13.4]"),
        (
            {
                "venue": {"title": "Zoo", "address": "A 1", "location": {"latitude": 1.5, "longitude": 2.5}},
                "location": {},
            },
            "[venue Zoo A 1 1.5 2.5]",
        ),
        ({"contact": {"first_name": "Bo", "phone_number": "+49"}}, "[contact Bo +49]"),
        ({"poll": {"question": "When?", "options": [{"text": "now"}, {"text": "later"}]}}, "[poll When?: now / later]"),
        ({"dice": {"emoji": "\U0001f3b2", "value": 4}}, "[dice \U0001f3b2 4]"),
        ({"hologram": {"x": 1}}, "[a message that cannot be read here: hologram]"),
        ({}, "[a message that cannot be read here: empty]"),
    ],
)
def test_what_is_not_text_becomes_a_marker(fields: dict[str, Json], text: str) -> None:
    assert read_message(message(None, **fields)).text == text


@pytest.mark.parametrize(
    "update",
    [
        {"message": message(None, new_chat_title="Team 2")},
        {"message": message(None, pinned_message={})},
        {"message": message(None, forum_topic_created={"name": "Plans"})},
        {"edited_message": message("hello again")},
        {"callback_query": {"id": "1"}},
        {},
    ],
)
def test_what_nobody_said_is_no_arrival(update: dict[str, Json]) -> None:
    assert READER.read({"update_id": 7, **update}, NOW) is None


def test_a_message_without_a_date_was_said_now() -> None:
    for date in (None, "yesterday", -1, 10**20, True):
        assert read_message(message("hi", date=date)).received_at == NOW


@pytest.mark.parametrize(
    "update",
    [
        {"message": message()},
        {"update_id": "7", "message": message()},
        {"update_id": True, "message": message()},
        {"update_id": 7, "message": None},
        {"update_id": 7, "message": []},
        {"update_id": 7, "message": message(chat=None)},
        {"update_id": 7, "message": message(chat={"id": "x", "type": "private"})},
        {"update_id": 7, "message": message(message_id=None)},
        {"update_id": 7, "message": message() | {"text": 5}},
        {"update_id": 7, "message": message(sender="Ann")},
        {"update_id": 7, "message": message(sender={"first_name": "Ann"})},
        {"update_id": 7, "message": message(chat=GROUP, entities=[{"type": "mention"}])},
        {"update_id": 7, "message": message(chat=GROUP, entities=[{"type": "mention", "offset": -9, "length": 2}])},
    ],
)
def test_a_damaged_update_is_refused_with_a_reason(update: JsonObject) -> None:
    with pytest.raises(UpdateError) as caught:
        READER.read(update, NOW)
    assert str(caught.value)


def test_what_cannot_be_stored_is_replaced() -> None:
    found = read_message(message("a\ud83d", sender={"id": 1, "first_name": "\udc00"}))
    assert (found.text, found.sender_name) == ("a\ufffd", "\ufffd")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    "message_id date chat from text entities caption caption_entities sender_chat reply_to_message quote "
    "message_thread_id is_topic_message photo document poll venue location contact"
).split()


@given(st.dictionaries(st.sampled_from(FIELDS), JSON), st.sampled_from(["private", "supergroup"]))
def test_no_update_breaks_the_reader(fields: dict[str, Json], chat_type: str) -> None:
    said = message("@helper hi", chat={"id": -1, "type": chat_type}) | fields
    try:
        arrival = READER.read({"update_id": 7, "message": said}, NOW)
    except UpdateError:
        return
    assert arrival is None or arrival.event_key == "7"
