"""What Telegram is told, and when: nothing is acknowledged that is not stored, whatever fails."""

import anyio
import pytest

from nanobee.channel import ChannelState
from nanobee.errors import ChannelAuthError
from nanobee.messages import Json
from nanobee.testing.channel_contract import running
from nanobee.testing.recording_inbox import RecordingInbox
from nanobee.testing.telegram_server import TelegramServer
from nanobee_telegram.polling import FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS
from tests.telegram.conftest import TOKEN, OpenChannel, Pauses


async def test_a_batch_is_handed_in_whole_and_then_acknowledged(
    server: TelegramServer, open_channel: OpenChannel
) -> None:
    ids = [server.updates.push({"message": said(chat, "hi")}) for chat in (1, 2, 1)]
    inbox = RecordingInbox()
    async with running(open_channel(), inbox):
        assert await server.wait_acknowledged(3) == ids
    assert inbox.calls == 1
    assert [arrival.session_key for arrival in inbox.stored] == ["telegram:1", "telegram:2", "telegram:1"]
    polls = server.named("getUpdates")
    assert [poll.parameters["offset"] for poll in polls] == [0, ids[-1] + 1]
    assert all(poll.parameters["allowed_updates"] == ["message", "channel_post"] for poll in polls)


async def test_the_offset_waits_for_the_store(
    server: TelegramServer, open_channel: OpenChannel, pauses: Pauses
) -> None:
    ann = server.private(1001)
    for text in ("one", "two", "three"):
        ann.says(text)
    inbox = RecordingInbox()
    inbox.break_down()
    channel = open_channel()
    async with running(channel, inbox):
        await inbox.wait_calls(4)
        status = channel.status()
        assert status.state is ChannelState.DOWN
        assert "cannot be stored (the disk is full)" in status.detail
        assert server.updates.acknowledged == []
        inbox.heal()
        await server.wait_acknowledged(3)
        assert channel.status().state is ChannelState.UP
    assert inbox.texts == ["one", "two", "three"]
    assert pauses.asked[:3] == [0.5, 1.0, 2.0]


async def test_a_crash_between_storing_and_acknowledging_brings_the_same_keys_again(
    server: TelegramServer, open_channel: OpenChannel
) -> None:
    server.private(1001).says("one")
    inbox = RecordingInbox()
    inbox.hold()
    async with running(open_channel(), inbox):
        await inbox.wait_stored()
    assert server.updates.acknowledged == []
    inbox.heal()
    async with running(open_channel(), inbox):
        await server.wait_acknowledged(1)
    assert inbox.calls == 2
    assert inbox.texts == ["one"]


async def test_a_poison_update_costs_itself_only(
    server: TelegramServer, open_channel: OpenChannel, caplog: pytest.LogCaptureFixture
) -> None:
    ann = server.private(1001)
    ann.says("before")
    server.updates.push_raw("not an update")
    server.updates.push_raw({"message": {}})
    poison = server.updates.push({"message": {"text": "no chat", "date": 1}})
    ann.says("after")
    inbox = RecordingInbox()
    async with running(open_channel(), inbox):
        await inbox.wait_stored(2)
        await server.wait_acknowledged(5)
    assert inbox.texts == ["before", "after"]
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert any(f"update {poison} is left out: chat is not an object" in line for line in errors)
    assert any("2 of 5 updates" in line for line in errors)


async def test_nothing_but_poison_makes_no_busy_loop(
    server: TelegramServer, open_channel: OpenChannel, pauses: Pauses
) -> None:
    server.updates.push_raw(None)
    channel = open_channel()
    async with running(channel, RecordingInbox()):
        await server.wait_for("getUpdates", 4)
        assert channel.status().state is ChannelState.DOWN
    assert len(pauses.asked) >= 3


async def test_a_stale_list_of_allowed_updates_hides_nothing(server: TelegramServer, open_channel: OpenChannel) -> None:
    server.updates.allowed = frozenset({"callback_query"})
    inbox = RecordingInbox()
    async with running(open_channel(), inbox):
        await server.wait_asked("getUpdates")
        server.private(1001).says("hello")
        await inbox.wait_stored()
    assert server.updates.dropped == []


async def test_o24_troubles_pass_by_themselves_with_growing_pauses(
    server: TelegramServer, open_channel: OpenChannel, pauses: Pauses
) -> None:
    ann = server.private(1001)
    server.faults.page("getUpdates", 502, times=3)
    server.faults.fail("getUpdates", 500, "Internal Server Error", times=3)
    server.faults.cut("getUpdates", after_delivery=False, times=2)
    server.faults.page("getUpdates", 200, "<html>log in to this network</html>")
    server.faults.page("getUpdates", 404, "<html>wrong machine</html>")
    inbox = RecordingInbox()
    channel = open_channel()
    for text in ("one", "two", "three"):
        ann.says(text)
    async with running(channel, inbox):
        await server.wait_acknowledged(3)
        assert channel.status().state is ChannelState.UP
    assert inbox.texts == ["one", "two", "three"]
    assert pauses.asked[0] == FIRST_PAUSE_SECONDS
    assert pauses.asked == sorted(pauses.asked)
    assert max(pauses.asked) == MAX_PAUSE_SECONDS
    assert len(pauses.asked) == 10


async def test_o24_an_outage_at_the_start_and_in_the_middle_is_survived(
    server: TelegramServer, open_channel: OpenChannel, pauses: Pauses
) -> None:
    ann = server.private(1001)
    inbox = RecordingInbox()
    channel = open_channel()
    await server.stop_listening()
    async with running(channel, inbox):
        await pauses.wait(3)
        status = channel.status()
        assert (status.state, status.last_event_at) == (ChannelState.DOWN, None)
        assert status.detail.startswith("Telegram cannot be reached, since ")
        await server.start_listening()
        ann.says("one")
        await inbox.wait_stored(1)
        await server.stop_listening()
        ann.says("two")
        seen = len(pauses.asked)
        await pauses.wait(seen + 3)
        assert channel.status().state is ChannelState.DOWN
        await server.start_listening()
        await inbox.wait_stored(2)
    assert inbox.texts == ["one", "two"]
    assert channel.status().last_event_at is not None


async def test_o24_a_poll_that_is_never_answered_ends(
    server: TelegramServer, open_channel: OpenChannel, pauses: Pauses
) -> None:
    server.faults.hang("getUpdates")
    server.private(1001).says("hello")
    inbox = RecordingInbox()
    channel = open_channel(poll_timeout_seconds=1, read_timeout_seconds=0.05)
    async with running(channel, inbox):
        await pauses.wait(1)
        assert "did not answer in time" in channel.status().detail
        await inbox.wait_stored()
    assert inbox.texts == ["hello"]
    assert pauses.asked == [0.5]


async def test_o25_another_poller_is_a_plain_reason_and_passes(
    server: TelegramServer, open_channel: OpenChannel, pauses: Pauses, caplog: pytest.LogCaptureFixture
) -> None:
    server.faults.fail("getUpdates", 409, "Conflict: terminated by other getUpdates request", times=4)
    inbox = RecordingInbox()
    channel = open_channel()
    async with running(channel, inbox):
        await pauses.wait(2)
        status = channel.status()
        assert status.state is ChannelState.DOWN
        assert "only one may use the token" in status.detail
        server.private(1001).says("hello")
        await inbox.wait_stored()
    assert pauses.asked == [0.5, 1.0, 2.0, 4.0]
    warnings = [record for record in caplog.records if "another program" in record.getMessage()]
    assert len([record for record in warnings if "is down" in record.getMessage()]) == 1
    assert all(record.exc_info is None for record in warnings)


async def test_a_webhook_that_is_left_over_is_removed(server: TelegramServer, open_channel: OpenChannel) -> None:
    server.updates.has_webhook = True
    server.private(1001).says("hello")
    inbox = RecordingInbox()
    async with running(open_channel(), inbox):
        await inbox.wait_stored()
    assert server.named("deleteWebhook")[0].parameters.get("drop_pending_updates") is None
    assert inbox.texts == ["hello"]


@pytest.mark.parametrize(("asked", "waited"), [(30, 30.0), (0.01, 0.5), (100_000, 600.0), (True, 0.5), ("x", 0.5)])
async def test_telegrams_own_wait_is_kept(
    server: TelegramServer, open_channel: OpenChannel, pauses: Pauses, asked: Json, waited: float
) -> None:
    server.faults.fail("getUpdates", 429, "Too Many Requests: retry later", retry_after=asked)
    server.private(1001).says("hello")
    inbox = RecordingInbox()
    async with running(open_channel(), inbox):
        await inbox.wait_stored()
    assert pauses.asked == [waited]


@pytest.mark.parametrize("method", ["getMe", "getUpdates"])
@pytest.mark.parametrize(("status", "text"), [(401, "Unauthorized"), (404, "Not Found")])
async def test_o24_a_refused_token_ends_the_channel_with_one_reason(
    server: TelegramServer, open_channel: OpenChannel, method: str, status: int, text: str
) -> None:
    server.faults.fail(method, status, f"{text} {TOKEN}", times=-1)
    channel = open_channel()
    with anyio.fail_after(5), pytest.raises(ChannelAuthError) as caught:
        await channel.run(RecordingInbox())
    assert str(caught.value) == f"channel telegram: Telegram refuses the bot's token (HTTP {status})"
    assert channel.status().state is ChannelState.FAILED
    assert "refuses the bot's token" in channel.status().detail


async def test_a_cancelled_channel_leaves_a_hanging_poll_at_once(
    server: TelegramServer, open_channel: OpenChannel
) -> None:
    server.faults.hang("getUpdates")
    async with running(open_channel(), RecordingInbox()):
        await server.wait_asked("getUpdates")
        started_at = anyio.current_time()
    assert anyio.current_time() - started_at < 1


async def test_a_channel_that_failed_can_be_started_again(server: TelegramServer, open_channel: OpenChannel) -> None:
    server.faults.fail("getMe", 401, "Unauthorized")
    channel = open_channel()
    with pytest.raises(ChannelAuthError):
        await channel.run(RecordingInbox())
    inbox = RecordingInbox()
    async with running(channel, inbox):
        server.private(1001).says("hello")
        await inbox.wait_stored()
        assert channel.status().state is ChannelState.UP


def said(chat_id: int, text: str) -> dict[str, Json]:
    sender: dict[str, Json] = {"id": chat_id, "first_name": "Ann"}
    return {"message_id": 1, "date": 1, "chat": {"id": chat_id, "type": "private"}, "from": sender, "text": text}
