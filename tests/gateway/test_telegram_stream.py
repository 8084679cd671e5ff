"""A growing answer in Telegram through a whole gateway: whatever happens, its final text stands there once."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from pydantic import SecretStr

from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.model_server import ModelServer
from nanobee.testing.strict_history import StrictHistory
from nanobee.testing.telegram_server import TOKEN, TelegramServer
from nanobee.testing.watch import Watch
from nanobee_telegram import TelegramChannel, TelegramSettings

LIMIT_SECONDS = 10
FIRST, REST = "one two ", "three four "
END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'


class Clock:
    """A second passes with each look at it, and a test can wait for somebody to look."""

    def __init__(self) -> None:
        self.looks = 0
        self._watch = Watch()

    def __call__(self) -> float:
        self.looks += 1
        self._watch.notify()
        return float(self.looks)

    async def wait_seen(self, after: int = 0) -> None:
        """Wait until something was there to be shown, after so many looks."""
        await self._watch.until(lambda: self.looks > after)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer(history=StrictHistory(alternate=True)) as running:
        yield running


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as running:
        yield running


@pytest.fixture
def rig(model: ModelServer, tmp_path: Path) -> GatewayRig:
    return GatewayRig(tmp_path, model.base_url)


def open_channel(telegram: TelegramServer, clock: Clock, streaming: str = "auto") -> TelegramChannel:
    settings = {"token": SecretStr(TOKEN), "base_url": telegram.base_url, "allow_from": ("*",), "streaming": streaming}
    return TelegramChannel("telegram", TelegramSettings.model_validate(settings), now=clock)


def chunk(text: str) -> bytes:
    return b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % text.encode()


@pytest.mark.parametrize(("chat_id", "is_edited"), [(1001, False), (-1001, True)])
async def test_an_answer_grows_and_stands_there_once(
    rig: GatewayRig, model: ModelServer, telegram: TelegramServer, clock: Clock, chat_id: int, is_edited: bool
) -> None:
    chat = telegram.private(chat_id) if chat_id > 0 else telegram.group(chat_id)
    seen, hold = anyio.Event(), anyio.Event()
    model.reply_bytes([chunk(FIRST), seen, chunk(REST), hold, chunk("END"), END])
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(others={"telegram": open_channel(telegram, clock)}):
            chat.says("@nanobee_bot go", sender=1001)
            await clock.wait_seen()
            seen.set()
            await telegram.wait_for("sendMessage" if is_edited else "sendMessageDraft")
            assert len(telegram.sent()) == is_edited
            hold.set()
            await telegram.wait_texts(FIRST + REST + "END")
    assert len(telegram.named("sendMessage")) == 1
    assert chat.drafts == {}


@pytest.mark.parametrize(("chat_id", "streaming"), [(1001, "auto"), (1001, "edit"), (-1001, "auto")])
async def test_a_restart_in_the_middle_of_a_stream_leaves_one_message_with_the_final_text(
    rig: GatewayRig, model: ModelServer, telegram: TelegramServer, clock: Clock, chat_id: int, streaming: str
) -> None:
    chat = telegram.private(chat_id) if chat_id > 0 else telegram.group(chat_id)
    is_draft = chat_id > 0 and streaming == "auto"
    seen = anyio.Event()
    model.reply_bytes([chunk(FIRST), seen, chunk(REST), anyio.Event()])
    model.reply_text("the final text")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(others={"telegram": open_channel(telegram, clock, streaming)}):
            chat.says("@nanobee_bot go", sender=1001)
            await clock.wait_seen()
            seen.set()
            await telegram.wait_for("sendMessageDraft" if is_draft else "sendMessage")
        async with rig.open(others={"telegram": open_channel(telegram, clock, streaming)}):
            await telegram.wait_texts("the final text")
    assert chat.drafts == {}
    assert len(telegram.named("sendMessage")) == 1


async def test_a_long_answer_completes_its_streamed_message_and_goes_on_below(
    rig: GatewayRig, model: ModelServer, telegram: TelegramServer, clock: Clock
) -> None:
    group = telegram.group(-1001)
    text = " ".join(str(number) for number in range(3000))
    seen = anyio.Event()
    model.reply_bytes([chunk(text[:100]), seen, *(chunk(text[at : at + 50]) for at in range(100, len(text), 50)), END])
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(others={"telegram": open_channel(telegram, clock)}):
            group.says("@nanobee_bot count", sender=1001)
            await clock.wait_seen()
            seen.set()
            await telegram.wait_for("sendMessage", 4)
    sent = [str(message["text"]) for message in telegram.sent()]
    assert " ".join(sent) == text
    assert telegram.named("editMessageText")[-1].parameters["text"] == sent[0]


async def test_a_short_answer_costs_one_call(rig: GatewayRig, model: ModelServer, telegram: TelegramServer) -> None:
    ann = telegram.private(1001)
    with anyio.fail_after(LIMIT_SECONDS):
        settings = TelegramSettings(token=SecretStr(TOKEN), base_url=telegram.base_url, allow_from=("1001",))
        async with rig.open(others={"telegram": TelegramChannel("telegram", settings)}):
            for number in range(1, 6):
                ann.says(f"hello {number}")
                await telegram.wait_for("sendMessage", number)
    assert {call.method for call in telegram.calls} == {"getMe", "getUpdates", "sendMessage"}
    assert len(telegram.named("sendMessage")) == 5


async def test_a_text_that_was_said_already_is_not_left_there_as_a_stream(
    rig: GatewayRig, model: ModelServer, telegram: TelegramServer, clock: Clock
) -> None:
    group = telegram.group(-1001)
    said, seen, hold = anyio.Event(), anyio.Event(), anyio.Event()
    model.reply_calls(("message", {"text": FIRST + REST}))
    model.reply_bytes([said, chunk(FIRST), seen, chunk(REST), hold, END])
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(others={"telegram": open_channel(telegram, clock)}):
            group.says("@nanobee_bot go", sender=1001)
            await telegram.wait_for("sendMessage")
            looks = clock.looks
            said.set()
            await clock.wait_seen(looks)
            seen.set()
            await telegram.wait_for("sendMessage", 2)
            hold.set()
            await telegram.wait_for("deleteMessage")
            await telegram.wait_texts((FIRST + REST).strip())
