"""The bot's token stands in the address of each call, and must come out nowhere."""

import logging
import traceback

import pytest

from nanobee.errors import ChannelError
from nanobee.messages import Address
from nanobee.testing.channel_contract import part_of, running
from nanobee.testing.recording_inbox import RecordingInbox
from nanobee.testing.telegram_server import TelegramServer
from tests.telegram.conftest import TOKEN, OpenChannel, Pauses

SECRET = TOKEN.partition(":")[2]
LOGGERS = (
    "",
    "telegram",
    "telegram.Bot",
    "telegram.request",
    "httpx",
    "httpcore",
    "aiohttp",
    "asyncio",
    "nanobee_telegram",
)


@pytest.fixture
def chatty_logs(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Everything at DEBUG, also what somebody keeps quiet by its own level."""
    for name in LOGGERS:
        caplog.set_level(logging.DEBUG, logger=name or None)
    return caplog


def break_calls(server: TelegramServer, method: str) -> int:
    """Each way in which an answer may quote the call's address; returns how many."""
    address = f"http://127.0.0.1/bot{TOKEN}/{method}"
    faults = server.faults
    faults.fail(method, 500, f"Internal Server Error at {address}")
    faults.fail(method, 400, f"Bad Request: {address}")
    faults.fail(method, 429, f"Too Many Requests: {address}", retry_after=1)
    faults.page(method, 502, f"<html>{address}</html>")
    faults.page(method, 200, f"<html>{address}</html>")
    faults.page(method, 200, f'{{"ok": true, "description": "{address}"}}')
    faults.cut(method, after_delivery=False)
    faults.fail(method, 401, f"Unauthorized: {address}")
    return 8


async def test_o49_no_error_and_no_log_line_of_a_send_holds_the_token(
    server: TelegramServer, open_channel: OpenChannel, chatty_logs: pytest.LogCaptureFixture
) -> None:
    server.private(1001)
    channel = open_channel()
    shown = []
    for _ in range(break_calls(server, "sendMessage")):
        with pytest.raises(ChannelError) as caught:
            await channel.send(part_of(Address("telegram", "1001"), "hello"))
        shown.append("".join(traceback.format_exception(caught.value)))
    await server.stop_listening()
    with pytest.raises(ChannelError) as caught:
        await channel.send(part_of(Address("telegram", "1001"), "hello"))
    shown.append("".join(traceback.format_exception(caught.value)))
    assert len(shown) == 9
    assert SECRET not in "".join(shown)
    assert SECRET not in chatty_logs.text


async def test_o49_no_error_and_no_log_line_of_a_poll_holds_the_token(
    server: TelegramServer, open_channel: OpenChannel, pauses: Pauses, chatty_logs: pytest.LogCaptureFixture
) -> None:
    channel = open_channel()
    break_calls(server, "getUpdates")
    details = []
    with pytest.raises(ChannelError) as caught:
        await channel.run(RecordingInbox())
    details.append(channel.status().detail)
    assert len(pauses.asked) == 7
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in "".join(details)
    assert "channel telegram is down" in chatty_logs.text
    assert SECRET not in chatty_logs.text


async def test_o49_what_people_say_is_not_logged(
    server: TelegramServer, open_channel: OpenChannel, chatty_logs: pytest.LogCaptureFixture
) -> None:
    channel = open_channel()
    inbox = RecordingInbox()
    async with running(channel, inbox):
        server.private(1001).says("a private thing")
        await inbox.wait_stored()
        await channel.send(part_of(Address("telegram", "1001"), "a private answer"))
    assert len(server.sent()) == 1
    assert "private" not in chatty_logs.text


@pytest.mark.parametrize("allow_from", [(), ("1001",)])
async def test_o49_strangers_cause_nothing_but_their_acknowledgement(
    server: TelegramServer, open_channel: OpenChannel, allow_from: tuple[str, ...]
) -> None:
    stranger = server.private(666, "1001")
    for text in ("hello", "/stop", "/start"):
        stranger.says(text, name="1001")
    stranger.says(photo=[{"file_id": "x"}], caption="hi")
    stranger.says(voice={"file_id": "x"})
    server.updates.push({"callback_query": {"id": "1", "from": {"id": 666}}})
    channel = open_channel(allow_from=allow_from)
    inbox = RecordingInbox(channel.settings.allow_from)
    async with running(channel, inbox):
        await server.wait_acknowledged(5)
    assert inbox.stored == []
    assert {call.method for call in server.calls} == {"getMe", "getUpdates"}
