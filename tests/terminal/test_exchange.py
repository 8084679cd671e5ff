"""Which replies are due."""

import pytest

from nanobee.channel import Arrival, Lane
from nanobee.errors import BusError, ChannelError
from nanobee.messages import Address, OutboundPart, PartKind
from nanobee.testing.recording_inbox import RecordingInbox
from nanobee_terminal.exchange import STOP, Exchange

ADDRESS = Address("terminal", "main")


def open_exchange(inbox: RecordingInbox | None = None) -> Exchange:
    return Exchange(inbox if inbox is not None else RecordingInbox(), ADDRESS, "en")


def reply(source_id: str | None, kind: PartKind = PartKind.ANSWER, part: int = 0, parts: int = 1) -> OutboundPart:
    return OutboundPart(1, ADDRESS, "text", kind, part=part, parts=parts, reply_to=source_id)


async def test_a_message_is_handed_in_whole() -> None:
    inbox = RecordingInbox()
    exchange = open_exchange(inbox)
    source_id = exchange.begin("hello \ud83d")
    await exchange.say(source_id, "hello \ud83d")
    [arrival] = inbox.stored
    assert isinstance(arrival, Arrival)
    assert arrival.message is not None
    assert (arrival.message.text, arrival.source_id, arrival.lane) == ("hello \ufffd", source_id, Lane.USER)
    assert (arrival.sender_id, arrival.session_key) == ("local", "terminal:main")


async def test_the_same_words_twice_are_two_messages() -> None:
    inbox = RecordingInbox()
    exchange = open_exchange(inbox)
    for _ in range(2):
        await exchange.say(exchange.begin("hello"), "hello")
    assert len({arrival.event_key for arrival in inbox.stored}) == 2


async def test_stop_goes_in_by_the_control_lane() -> None:
    inbox = RecordingInbox()
    exchange = open_exchange(inbox)
    source_id = exchange.begin(STOP)
    assert exchange.is_stopping
    await exchange.say(source_id, STOP)
    assert [arrival.lane for arrival in inbox.stored] == [Lane.CONTROL]
    assert exchange.settle(reply(source_id, PartKind.NOTICE))
    assert not exchange.is_stopping


@pytest.mark.parametrize("kind", [PartKind.ANSWER, PartKind.NOTICE, PartKind.QUESTION])
def test_a_reply_ends_the_waiting_for_its_message_and_those_before(kind: PartKind) -> None:
    exchange = open_exchange()
    first, second, third = (exchange.begin(text) for text in ("one", "two", "three"))
    assert exchange.settle(reply(second, kind))
    assert not exchange.waits_for(first)
    assert not exchange.waits_for(second)
    assert exchange.next_waiting == third


def test_a_message_of_the_tool_ends_nothing() -> None:
    exchange = open_exchange()
    source_id = exchange.begin("one")
    assert not exchange.settle(reply(source_id, PartKind.MESSAGE))
    assert exchange.is_waiting


def test_only_the_last_part_ends_the_waiting() -> None:
    exchange = open_exchange()
    source_id = exchange.begin("one")
    assert not exchange.settle(reply(source_id, part=0, parts=2))
    assert exchange.settle(reply(source_id, part=1, parts=2))
    assert not exchange.is_waiting


def test_a_command_that_overtakes_ends_only_its_own_waiting() -> None:
    exchange = open_exchange()
    first = exchange.begin("one")
    status = exchange.begin("/status")
    assert exchange.settle(reply(status, PartKind.NOTICE))
    assert exchange.next_waiting == first
    status = exchange.begin("/status")
    assert exchange.settle(reply(first))
    assert exchange.next_waiting == status


def test_stop_leaves_nothing_waiting() -> None:
    exchange = open_exchange()
    exchange.begin("one")
    exchange.begin("two")
    assert exchange.settle(reply(exchange.begin(STOP), PartKind.NOTICE))
    assert not exchange.is_waiting


@pytest.mark.parametrize("reply_to", [None, "of another run"])
def test_a_reply_to_nothing_of_this_run_ends_nothing(reply_to: str | None) -> None:
    exchange = open_exchange()
    exchange.begin("one")
    assert not exchange.settle(reply(reply_to))
    assert exchange.is_waiting


async def test_what_could_not_be_stored_is_not_waited_for() -> None:
    inbox = RecordingInbox()
    inbox.break_down()
    exchange = open_exchange(inbox)
    source_id = exchange.begin("one")
    with pytest.raises(BusError):
        await exchange.say(source_id, "one")
    assert not exchange.is_waiting


async def test_who_is_not_admitted_is_told_and_does_not_wait() -> None:
    exchange = open_exchange(RecordingInbox(allow_from=()))
    source_id = exchange.begin("one")
    with pytest.raises(ChannelError, match="allow_from"):
        await exchange.say(source_id, "one")
    assert not exchange.is_waiting


async def test_a_message_said_after_a_stop_is_answered_like_any() -> None:
    inbox = RecordingInbox()
    exchange = open_exchange(inbox)
    stop = exchange.begin(STOP)
    after = exchange.begin("after")
    assert exchange.settle(reply(stop, PartKind.NOTICE))
    await exchange.say(after, "after")
    assert inbox.stored[0].source_id == after
    assert exchange.settle(reply(after))
