"""How a growing answer is shown in Telegram, and how its final text takes the place of what was shown."""

from collections.abc import AsyncIterator
from dataclasses import replace

import anyio
import pytest
from pydantic import SecretStr

from nanobee.errors import NotSentError, RefusedError
from nanobee.messages import Address, LivePart, OutboundPart, PartKind
from nanobee.testing.channel_contract import part_of, running
from nanobee.testing.recording_inbox import RecordingInbox
from nanobee.testing.telegram_server import TelegramServer
from nanobee_telegram import TelegramChannel, TelegramSettings
from nanobee_telegram.api import TelegramApi
from nanobee_telegram.streaming import (
    DRAFT_SECONDS,
    FIRST_FRAME_SECONDS,
    GROUP_EDIT_SECONDS,
    MAX_SILENCE_SECONDS,
    PRIVATE_EDIT_SECONDS,
    Streamer,
)
from tests.telegram.conftest import TOKEN, Clock, OpenChannel

ANN = Address("telegram", "1001")
GROUP = Address("telegram", "-1001")
TURN = "4f3a"


class Answer:
    """An answer as the bus streams it: it hands each frame the handle that the last one returned."""

    def __init__(self, channel: TelegramChannel, clock: Clock, address: Address) -> None:
        self._channel = channel
        self._clock = clock
        self.part = LivePart(address, TURN, reply_to="7")

    async def grow(self, text: str, seconds: float = 10.0, activity: str | None = None) -> tuple[str, ...]:
        """Show `text` when so many seconds have passed."""
        self._clock.tick(seconds)
        handle = await self._channel.stream(replace(self.part, activity=activity), text)
        self.part = replace(self.part, handle=handle)
        return handle

    async def finish(self, text: str, kind: PartKind = PartKind.ANSWER) -> tuple[str, ...]:
        """Send the final text."""
        part = OutboundPart(1, self.part.address, text, kind, turn=TURN, reply_to="7", handle=self.part.handle)
        return await self._channel.send(part)


@pytest.fixture
async def streamer(server: TelegramServer, clock: Clock) -> AsyncIterator[Streamer]:
    api = TelegramApi(TelegramSettings(token=SecretStr(TOKEN), base_url=server.base_url))
    yield Streamer("telegram", "auto", lambda: api, clock)
    await api.aclose()


def begin(channel: TelegramChannel, clock: Clock, address: Address) -> Answer:
    return Answer(channel, clock, address)


def texts(server: TelegramServer, method: str) -> list[object]:
    return [call.parameters["text"] for call in server.named(method)]


@pytest.mark.parametrize("address", [ANN, GROUP])
async def test_a_short_answer_costs_one_call(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock, address: Address
) -> None:
    server.private(1001)
    server.group(-1001)
    answer = begin(open_channel(), clock, address)
    for number in range(6):
        assert await answer.grow("word " * number, FIRST_FRAME_SECONDS / 6) == ()
    await answer.finish("all of it")
    assert [call.method for call in server.calls] == ["sendMessage"]


async def test_a_private_chat_sees_a_draft_and_then_the_message(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock
) -> None:
    ann = server.private(1001)
    answer = begin(open_channel(), clock, ANN)
    assert await answer.grow("one") == ()
    assert await answer.grow("one two", FIRST_FRAME_SECONDS) == ()
    assert list(ann.drafts.values()) == ["one two"]
    assert server.sent() == []
    assert await answer.finish("one two three") == (str(server.sent()[0]["message_id"]),)
    assert ann.drafts == {}
    assert [message["text"] for message in server.sent()] == ["one two three"]
    assert server.named("sendMessageDraft")[0].parameters.keys() == {"chat_id", "draft_id", "text"}


async def test_a_topic_of_a_private_chat_has_its_own_draft(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock
) -> None:
    server.private(1001).topics[9] = "Plans"
    answer = begin(open_channel(), clock, Address("telegram", "1001", "9"))
    await answer.grow("one")
    await answer.grow("one two")
    assert [call.parameters["message_thread_id"] for call in server.named("sendMessageDraft")] == [9]


async def test_a_topic_of_a_group_sees_one_message_grow_into_the_final_text(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock
) -> None:
    forum = server.group(is_forum=True)
    topic = forum.open_topic("Plans")
    question = forum.says("go", thread=topic)
    answer = begin(open_channel(), clock, Address("telegram", "-1001", str(topic)))
    answer.part = replace(answer.part, reply_to=str(question["message_id"]))
    await answer.grow("one")
    handle = await answer.grow("one two")
    assert await answer.grow("one two three") == handle
    assert await answer.finish("one two three four") == handle
    (message,) = server.sent()
    assert (str(message["message_id"]),) == handle
    assert message["text"] == "one two three four"
    assert message["message_thread_id"] == topic
    assert "reply_to_message" in message
    assert [call.method for call in server.calls] == ["sendMessage", "editMessageText", "editMessageText"]


@pytest.mark.parametrize(
    ("address", "keys", "method", "pause"),
    [
        (ANN, {}, "sendMessageDraft", DRAFT_SECONDS),
        (ANN, {"streaming": "edit"}, "editMessageText", PRIVATE_EDIT_SECONDS),
        (GROUP, {}, "editMessageText", GROUP_EDIT_SECONDS),
    ],
)
async def test_frames_keep_their_distance_and_show_the_newest_text(
    server: TelegramServer,
    open_channel: OpenChannel,
    clock: Clock,
    address: Address,
    keys: dict[str, str],
    method: str,
    pause: float,
) -> None:
    server.private(1001)
    server.group(-1001)
    answer = begin(open_channel(**keys), clock, address)
    await answer.grow("0")
    await answer.grow("1")
    await answer.grow("2", pause)
    before = len(server.calls)
    await answer.grow("3", pause * 0.25)
    await answer.grow("4", pause * 0.25)
    assert len(server.calls) == before
    await answer.grow("5", pause * 0.5)
    assert texts(server, method)[-2:] == ["2", "5"]


async def test_a_long_answer_in_a_group_leaves_room_for_its_final_text(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock
) -> None:
    server.group(-1001)
    answer = begin(open_channel(), clock, GROUP)
    for second in range(120):
        await answer.grow("word " * second, 1.0)
    assert 20 <= len(server.calls) <= 28, "20 a minute is what a group takes"


@pytest.mark.parametrize(
    ("keys", "address", "methods"),
    [
        ({"streaming": "off"}, ANN, []),
        ({"streaming": "off"}, GROUP, []),
        ({"streaming": "draft"}, ANN, ["sendMessageDraft"]),
        ({"streaming": "draft"}, GROUP, []),
        ({"streaming": "edit"}, ANN, ["sendMessage"]),
        ({"streaming": "auto"}, ANN, ["sendMessageDraft"]),
        ({"streaming": "auto"}, GROUP, ["sendMessage"]),
    ],
)
async def test_the_setting_decides_how_an_answer_grows(
    server: TelegramServer,
    open_channel: OpenChannel,
    clock: Clock,
    keys: dict[str, str],
    address: Address,
    methods: list[str],
) -> None:
    server.private(1001)
    server.group(-1001)
    answer = begin(open_channel(**keys), clock, address)
    await answer.grow("one")
    await answer.grow("one two")
    assert [call.method for call in server.calls] == methods


async def test_what_was_begun_as_a_message_goes_on_as_one_under_another_setting(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock
) -> None:
    server.private(1001)
    before = begin(open_channel(streaming="edit"), clock, ANN)
    await before.grow("one")
    handle = await before.grow("one two")
    after = begin(open_channel(streaming="auto"), clock, ANN)
    after.part = replace(after.part, handle=handle)
    await after.grow("one")
    assert await after.grow("one two three") == handle
    await after.finish("the end")
    assert [message["text"] for message in server.sent()] == ["the end"]
    assert server.named("sendMessageDraft") == []


async def test_a_final_text_that_stands_there_already_is_no_failure(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock
) -> None:
    server.group(-1001)
    answer = begin(open_channel(), clock, GROUP)
    await answer.grow("one")
    handle = await answer.grow("one two")
    assert await answer.finish("one two") == handle
    assert await answer.finish("one two") == handle
    assert len(server.sent()) == 1


@pytest.mark.parametrize("how", ["deleted", "too old", "moved"])
async def test_a_streamed_message_that_is_gone_is_sent_anew(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock, how: str
) -> None:
    group = server.group(-1001)
    answer = begin(open_channel(), clock, GROUP)
    await answer.grow("one")
    await answer.grow("one two")
    if how == "deleted":
        group.messages.clear()
    elif how == "too old":
        server.faults.fail("editMessageText", 400, "Bad Request: message can't be edited")
    else:
        group.moved_to = -1009
        server.group(-1009)
    (message_id,) = await answer.finish("one two three")
    assert server.sent()[-1]["text"] == "one two three"
    assert str(server.sent()[-1]["message_id"]) == message_id


async def test_of_several_parts_the_first_completes_the_streamed_message(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock
) -> None:
    server.group(-1001)
    channel = open_channel()
    answer = begin(channel, clock, GROUP)
    await answer.grow("word")
    handle = await answer.grow("word " * 1500)
    pieces = channel.split("word " * 1500 + "END")
    for number, text in enumerate(pieces):
        part = OutboundPart(number, GROUP, text, PartKind.ANSWER, number, len(pieces), TURN, "7")
        await channel.send(replace(part, handle=handle if number == 0 else ()))
    assert [message["text"] for message in server.sent()] == [piece.strip() for piece in pieces]
    assert str(server.sent()[0]["message_id"]) == handle[0]


@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_streamed_message_to_which_nothing_is_added_is_removed(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock, is_gone: bool
) -> None:
    group = server.group(-1001)
    answer = begin(open_channel(), clock, GROUP)
    await answer.grow("the same")
    await answer.grow("the same as")
    if is_gone:
        group.messages.clear()
    server.faults.fail("deleteMessage", 502, "Bad Gateway")
    with pytest.raises(NotSentError):
        await answer.finish("")
    assert await answer.finish("") == ()
    assert server.sent() == []


@pytest.mark.parametrize("address", [ANN, GROUP])
async def test_a_flood_limit_stops_frames_for_its_time_and_never_the_final_text(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock, address: Address
) -> None:
    server.private(1001)
    server.group(-1001)
    method = "sendMessageDraft" if address is ANN else "editMessageText"
    answer = begin(open_channel(), clock, address)
    await answer.grow("0")
    await answer.grow("1")
    server.faults.fail(method, 429, "Too Many Requests: retry after 30", retry_after=30)
    await answer.grow("2")
    count = len(server.calls)
    await answer.grow("3", 29.0)
    assert len(server.calls) == count
    await answer.grow("4", 2.0)
    assert len(server.calls) == count + 1
    server.faults.fail(method, 429, "Too Many Requests: retry after 30", retry_after=30)
    await answer.grow("5")
    await answer.finish("6")
    assert [message["text"] for message in server.sent()] == ["6"]


async def test_a_flood_limit_on_the_final_text_says_how_long_and_is_tried_again_as_an_edit(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock
) -> None:
    server.group(-1001)
    answer = begin(open_channel(), clock, GROUP)
    await answer.grow("0")
    await answer.grow("1")
    server.faults.fail("editMessageText", 429, "Too Many Requests: retry after 9", retry_after=9)
    with pytest.raises(NotSentError) as caught:
        await answer.finish("2")
    assert caught.value.retry_after_seconds == 9
    await answer.finish("2")
    assert [message["text"] for message in server.sent()] == ["2"]


@pytest.mark.parametrize("after_delivery", [False, True])
async def test_a_final_edit_whose_answer_is_cut_is_simply_made_again(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock, after_delivery: bool
) -> None:
    server.group(-1001)
    answer = begin(open_channel(), clock, GROUP)
    await answer.grow("0")
    await answer.grow("1")
    server.faults.cut("editMessageText", after_delivery=after_delivery)
    with pytest.raises(NotSentError):
        await answer.finish("2")
    await answer.finish("2")
    assert [message["text"] for message in server.sent()] == ["2"]


async def test_a_final_edit_that_telegram_refuses_is_refused(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock
) -> None:
    group = server.group(-1001)
    answer = begin(open_channel(), clock, GROUP)
    await answer.grow("0")
    await answer.grow("1")
    group.is_blocked = True
    with pytest.raises(RefusedError, match="kicked"):
        await answer.finish("2")


@pytest.mark.parametrize(
    ("status", "text"), [(400, "Bad Request: TEXTDRAFT_PEER_INVALID"), (404, "Not Found: method not found")]
)
async def test_where_there_are_no_drafts_a_message_is_edited(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock, status: int, text: str
) -> None:
    server.private(1001)
    server.faults.fail("sendMessageDraft", status, text, times=-1)
    answer = begin(open_channel(), clock, ANN)
    await answer.grow("0")
    await answer.grow("1")
    await answer.grow("2")
    await answer.grow("3")
    await answer.finish("4")
    methods = [call.method for call in server.calls]
    assert methods == ["sendMessageDraft", "sendMessage", "editMessageText", "editMessageText"]
    assert [message["text"] for message in server.sent()] == ["4"]


async def test_a_first_frame_that_may_stand_there_is_not_followed_by_another(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock
) -> None:
    server.group(-1001)
    answer = begin(open_channel(), clock, GROUP)
    await answer.grow("0")
    server.faults.cut("sendMessage", after_delivery=True)
    assert await answer.grow("1") == ()
    assert await answer.grow("2", 60.0) == ()
    await answer.finish("3")
    assert [message["text"] for message in server.sent()] == ["1", "3"]


async def test_a_first_frame_that_surely_failed_is_tried_again(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock
) -> None:
    server.group(-1001)
    answer = begin(open_channel(), clock, GROUP)
    await answer.grow("0")
    server.faults.fail("sendMessage", 500, "Internal Server Error")
    assert await answer.grow("1") == ()
    assert await answer.grow("2") != ()
    await answer.finish("3")
    assert [message["text"] for message in server.sent()] == ["3"]


async def test_a_chat_that_refuses_frames_gets_no_more_of_that_answer(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock
) -> None:
    server.group(-1001).is_blocked = True
    answer = begin(open_channel(), clock, GROUP)
    for text in ("0", "1", "2", "3"):
        assert await answer.grow(text) == ()
    assert len(server.calls) == 1


async def test_a_frame_that_hangs_ends_soon(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nanobee_telegram.api.MAX_FRAME_SECONDS", 0.05)
    server.private(1001)
    server.faults.hang("sendMessageDraft")
    answer = begin(open_channel(), clock, ANN)
    await answer.grow("0")
    with anyio.fail_after(2):
        await answer.grow("1")
        await answer.finish("2")
    assert [message["text"] for message in server.sent()] == ["2"]


async def test_a_tool_that_runs_long_keeps_its_draft_alive(
    server: TelegramServer, streamer: Streamer, clock: Clock
) -> None:
    ann = server.private(1001)
    part = LivePart(ANN, TURN, activity="exec make")
    await streamer.show(part, "Let me see.")
    await streamer.tick()
    assert server.calls == []
    clock.tick(FIRST_FRAME_SECONDS)
    await streamer.tick()
    await streamer.tick()
    assert list(ann.drafts.values()) == ["Let me see.\n\n⏳ exec make"]
    assert len(server.calls) == 1
    clock.tick(19)
    await streamer.tick()
    assert len(server.calls) == 1
    clock.tick(2)
    await streamer.tick()
    assert len(server.calls) == 2
    await streamer.close(ANN)
    clock.tick(30)
    await streamer.tick()
    assert len(server.calls) == 2


async def test_a_draft_of_a_turn_that_was_never_answered_is_not_kept_alive_for_ever(
    server: TelegramServer, streamer: Streamer, clock: Clock
) -> None:
    server.private(1001)
    await streamer.show(LivePart(ANN, TURN, activity="exec make"), "")
    for _ in range(100):
        clock.tick(20)
        await streamer.tick()
    assert len(server.calls) == MAX_SILENCE_SECONDS / 20 - 1


async def test_a_running_tool_begins_no_message_in_a_group(
    server: TelegramServer, streamer: Streamer, clock: Clock
) -> None:
    server.group(-1001)
    for activity in ("exec make", "exec make test"):
        assert await streamer.show(LivePart(GROUP, TURN, activity=activity), "") == ()
        clock.tick(10)
    await streamer.show(LivePart(GROUP, TURN, activity="exec ls"), "not before the bus can note its id")
    clock.tick(10)
    server.calls.clear()
    await streamer.tick()
    assert server.calls == []


async def test_something_else_said_in_between_begins_a_new_draft(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock
) -> None:
    ann = server.private(1001)
    channel = open_channel()
    answer = begin(channel, clock, ANN)
    await answer.grow("one")
    await answer.grow("one two")
    await channel.send(part_of(ANN, "by the way"))
    assert ann.drafts == {}
    await answer.grow("one two three")
    assert ann.drafts == {}
    await answer.grow("one two three four", FIRST_FRAME_SECONDS)
    assert list(ann.drafts.values()) == ["one two three four"]


async def test_what_is_sent_waits_for_a_frame_under_way_so_that_none_comes_after_it(
    server: TelegramServer, streamer: Streamer, clock: Clock
) -> None:
    server.private(1001)
    await streamer.show(LivePart(ANN, TURN, activity="exec make"), "")
    clock.tick(FIRST_FRAME_SECONDS)
    server.faults.hang("sendMessageDraft")
    order = []

    async def send() -> None:
        await streamer.close(ANN)
        order.append(server.calls[0].status)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(streamer.tick)
        await server.wait_asked("sendMessageDraft")
        tasks.start_soon(send)
        await anyio.wait_all_tasks_blocked()
        assert order == []
        server.faults.heal()
    assert order == [200]


async def test_a_running_channel_looks_after_its_drafts(
    server: TelegramServer, open_channel: OpenChannel, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nanobee_telegram.streaming.TICK_SECONDS", 0.01)
    server.private(1001)
    channel = open_channel()
    async with running(channel, RecordingInbox()):
        await channel.stream(LivePart(ANN, TURN, activity="exec make"), "")
        clock.tick(FIRST_FRAME_SECONDS)
        await server.wait_for("sendMessageDraft")
        clock.tick(20)
        await server.wait_for("sendMessageDraft", 2)
