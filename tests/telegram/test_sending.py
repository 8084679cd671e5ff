"""What is sent to Telegram, and what each of its answers means for the message."""

from contextlib import suppress

import anyio
import anyio.abc
import pytest

from nanobee.errors import DeliveryError, NotSentError, RefusedError, UnknownOutcomeError
from nanobee.messages import Address, Attachment, OutboundPart, PartKind
from nanobee.testing.channel_contract import part_of, running
from nanobee.testing.recording_inbox import RecordingInbox
from nanobee.testing.telegram_server import TelegramServer
from nanobee_telegram import TelegramChannel
from tests.telegram.conftest import TOKEN, OpenChannel

ANN = Address("telegram", "1001")


async def test_a_part_is_sent_as_plain_text_before_the_channel_runs(
    server: TelegramServer, open_channel: OpenChannel
) -> None:
    server.private(1001)
    ids = await open_channel().send(part_of(ANN, "a < b & *c*"))
    (message,) = server.sent()
    assert ids == (str(message["message_id"]),)
    assert message["text"] == "a < b & *c*"
    assert [call.method for call in server.calls] == ["sendMessage"]
    assert server.calls[0].parameters == {
        "chat_id": 1001,
        "text": "a < b & *c*",
        "link_preview_options": {"is_disabled": True},
    }


async def test_an_answer_quotes_its_question_on_the_first_part(
    server: TelegramServer, open_channel: OpenChannel
) -> None:
    question = server.private(1001).says("why?")
    channel = open_channel()
    for number in range(2):
        await channel.send(
            OutboundPart(
                id=number,
                address=ANN,
                text="because",
                kind=PartKind.ANSWER,
                part=number,
                parts=2,
                reply_to=str(question["message_id"]),
            )
        )
    assert server.calls[0].parameters["reply_parameters"] == {
        "message_id": question["message_id"],
        "allow_sending_without_reply": True,
    }
    assert "reply_parameters" not in server.calls[1].parameters


async def test_o23_a_topic_is_carried_both_ways(server: TelegramServer, open_channel: OpenChannel) -> None:
    forum = server.group(is_forum=True)
    topics = [forum.open_topic("Plans"), forum.open_topic("Food"), None]
    channel = open_channel()
    inbox = RecordingInbox()
    async with running(channel, inbox):
        for topic in topics:
            forum.says("@nanobee_bot hi", thread=topic)
        for arrival in await inbox.wait_stored(3):
            assert arrival.message is not None
            await channel.send(part_of(arrival.message.address, "hello"))
    assert [message.get("message_thread_id") for message in server.sent()] == topics
    assert len({arrival.session_key for arrival in inbox.stored}) == 3


async def test_the_general_topic_is_not_named(server: TelegramServer, open_channel: OpenChannel) -> None:
    server.group(is_forum=True)
    await open_channel().send(part_of(Address("telegram", "-1001", "1"), "hello"))
    assert "message_thread_id" not in server.calls[0].parameters


async def test_a_topic_that_is_gone_does_not_lose_the_message(
    server: TelegramServer, open_channel: OpenChannel
) -> None:
    server.group(is_forum=True)
    await open_channel().send(part_of(Address("telegram", "-1001", "158"), "hello"))
    assert [message["text"] for message in server.sent()] == ["hello"]
    assert [call.status for call in server.calls] == [400, 200]


async def test_a_question_that_is_gone_does_not_lose_the_message(
    server: TelegramServer, open_channel: OpenChannel
) -> None:
    server.private(1001)
    server.faults.fail("sendMessage", 400, "Bad Request: message to be replied not found")
    await open_channel().send(part_of(ANN, "hello", reply_to="99"))
    assert "reply_parameters" not in server.calls[1].parameters
    assert len(server.sent()) == 1


async def test_a_group_that_became_a_supergroup_gets_its_message(
    server: TelegramServer, open_channel: OpenChannel
) -> None:
    server.group(-7).moved_to = -1007
    server.group(-1007)
    await open_channel().send(part_of(Address("telegram", "-7"), "hello", reply_to="5"))
    assert [message["text"] for message in server.sent(-1007)] == ["hello"]


async def test_repairs_end_where_telegram_goes_on_refusing(server: TelegramServer, open_channel: OpenChannel) -> None:
    server.group(is_forum=True)
    server.faults.fail("sendMessage", 400, "Bad Request: message thread not found", times=-1)
    with pytest.raises(RefusedError, match="thread not found"):
        await open_channel().send(part_of(Address("telegram", "-1001", "158"), "hello", reply_to="9"))
    assert len(server.calls) == 2


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (400, "Bad Request: chat not found", RefusedError),
        (403, "Forbidden: bot was blocked by the user", RefusedError),
        (413, "Request Entity Too Large", RefusedError),
        (401, "Unauthorized", NotSentError),
        (404, "Not Found", NotSentError),
        (500, "Internal Server Error", NotSentError),
        (502, "Bad Gateway", NotSentError),
        (504, "Gateway Timeout", UnknownOutcomeError),
    ],
)
async def test_an_answer_is_sorted_by_what_it_says(
    server: TelegramServer, open_channel: OpenChannel, status: int, text: str, expected: type[DeliveryError]
) -> None:
    server.private(1001)
    server.faults.fail("sendMessage", status, text)
    with pytest.raises(expected) as caught:
        await open_channel().send(part_of(ANN, "hello"))
    assert f"(HTTP {status})" in str(caught.value)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, UnknownOutcomeError),
        (302, NotSentError),
        (403, NotSentError),
        (404, NotSentError),
        (413, RefusedError),
        (502, NotSentError),
        (504, UnknownOutcomeError),
    ],
)
async def test_a_page_of_somebody_else_is_sorted_by_its_status(
    server: TelegramServer, open_channel: OpenChannel, status: int, expected: type[DeliveryError]
) -> None:
    server.private(1001)
    server.faults.page("sendMessage", status)
    with pytest.raises(expected):
        await open_channel().send(part_of(ANN, "hello"))
    assert server.sent() == []


async def test_a_flood_limit_says_how_long(server: TelegramServer, open_channel: OpenChannel) -> None:
    server.private(1001)
    server.faults.fail("sendMessage", 429, "Too Many Requests: retry after 35", retry_after=35)
    with pytest.raises(NotSentError) as caught:
        await open_channel().send(part_of(ANN, "hello"))
    assert caught.value.retry_after_seconds == 35


async def test_a_send_that_is_never_answered_has_an_unknown_outcome(
    server: TelegramServer, open_channel: OpenChannel
) -> None:
    server.private(1001)
    server.faults.hang("sendMessage")
    with pytest.raises(UnknownOutcomeError, match="did not answer in time"):
        await open_channel(read_timeout_seconds=0.05).send(part_of(ANN, "hello"))
    assert len(server.sent()) == 1


async def test_an_answer_that_drips_without_end_is_cut_off(
    open_channel: OpenChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nanobee_telegram.api.CALL_SLACK_SECONDS", 0.1)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)

    async def drip(stream: anyio.abc.SocketStream) -> None:
        with suppress(anyio.BrokenResourceError):
            async with stream:
                await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while True:
                    await stream.send(b" ")
                    await anyio.sleep(0.01)

    channel = open_channel(base_url=f"http://127.0.0.1:{port}", connect_timeout_seconds=0.1, read_timeout_seconds=0.1)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, drip)
        with anyio.fail_after(5), pytest.raises(UnknownOutcomeError, match="did not answer in time"):
            await channel.send(part_of(ANN, "hello"))
        tasks.cancel_scope.cancel()


async def test_a_caller_that_is_cancelled_already_sends_nothing(
    server: TelegramServer, open_channel: OpenChannel
) -> None:
    server.private(1001)
    channel = open_channel()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await channel.send(part_of(ANN, "hello"))
    assert scope.cancelled_caught
    assert server.calls == []


@pytest.mark.parametrize(("text", "kind"), [("", PartKind.NOTICE), ("  \n\t ", PartKind.ANSWER)])
async def test_an_empty_text_is_never_sent(
    server: TelegramServer, open_channel: OpenChannel, text: str, kind: PartKind
) -> None:
    with pytest.raises(RefusedError, match="no text"):
        await open_channel().send(OutboundPart(1, ANN, text, kind))
    assert server.calls == []


async def test_an_answer_without_text_costs_nothing(server: TelegramServer, open_channel: OpenChannel) -> None:
    assert await open_channel().send(OutboundPart(1, ANN, "", PartKind.ANSWER)) == ()
    assert server.calls == []


async def test_a_file_is_refused_and_not_left_out_silently(server: TelegramServer, open_channel: OpenChannel) -> None:
    part = OutboundPart(1, ANN, "see this", PartKind.ANSWER, attachments=(Attachment("image", "a.png", "x/a.png"),))
    with pytest.raises(RefusedError, match="files"):
        await open_channel().send(part)
    assert server.calls == []


async def test_half_an_emoji_does_not_stop_a_message(server: TelegramServer, open_channel: OpenChannel) -> None:
    server.private(1001)
    await open_channel().send(part_of(ANN, "a\ud83db"))
    assert [message["text"] for message in server.sent()] == ["a\ufffdb"]


async def test_o34_a_chat_that_hangs_delays_no_other(server: TelegramServer, open_channel: OpenChannel) -> None:
    for chat in range(1, 11):
        server.private(chat)
    server.faults.hang("sendMessage")
    channel = open_channel()
    outcomes: list[str] = []

    async def send(chat: int) -> None:
        await channel.send(part_of(Address("telegram", str(chat)), "hello"))
        outcomes.append(str(chat))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send, 1)
        await server.wait_asked("sendMessage")
        for chat in range(2, 11):
            tasks.start_soon(send, chat)
        await server.wait_for("sendMessage", 9)
        server.faults.heal()
    assert outcomes[-1] == "1"


async def test_a_cancelled_send_is_not_cut_off(server: TelegramServer, open_channel: OpenChannel) -> None:
    server.private(1001)
    server.faults.hang("sendMessage")
    ids: list[tuple[str, ...]] = []
    channel = open_channel()

    async def send() -> None:
        ids.append(await channel.send(part_of(ANN, "hello")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        await server.wait_asked("sendMessage")
        tasks.cancel_scope.cancel()
        server.faults.heal()
    assert ids == [(str(server.sent()[0]["message_id"]),)]


async def test_a_send_that_hangs_holds_the_end_up_for_a_moment_only(
    server: TelegramServer, open_channel: OpenChannel
) -> None:
    server.private(1001)
    server.faults.hang("sendMessage")
    channel = open_channel()
    caught: list[DeliveryError] = []

    async def send() -> None:
        try:
            await channel.send(part_of(ANN, "hello"))
        except DeliveryError as error:
            caught.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(channel.run, RecordingInbox())
        tasks.start_soon(send)
        await server.wait_asked("getUpdates")
        await server.wait_asked("sendMessage")
        started_at = anyio.current_time()
        tasks.cancel_scope.cancel()
    assert anyio.current_time() - started_at < 2
    assert [type(error) for error in caught] == [UnknownOutcomeError]


async def test_a_closed_channel_sends_again(server: TelegramServer, open_channel: OpenChannel) -> None:
    server.private(1001)
    channel = open_channel()
    await channel.send(part_of(ANN, "one"))
    await channel.aclose()
    await channel.send(part_of(ANN, "two"))
    assert [message["text"] for message in server.sent()] == ["one", "two"]


def test_the_account_is_the_bots_id(server_less_channel: TelegramChannel) -> None:
    assert server_less_channel.account == "424242"
    assert TOKEN.partition(":")[2] not in repr(server_less_channel.settings)
