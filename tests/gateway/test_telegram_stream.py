"""A growing answer in Telegram through a whole gateway: whatever happens, its final text stands there once."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from pydantic import SecretStr

from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.model_server import ModelServer
from nanobee.testing.strict_history import StrictHistory
from nanobee.testing.telegram_server import TOKEN, TelegramServer
from nanobee_telegram import TelegramChannel, TelegramSettings

LIMIT_SECONDS = 10
WORDS = [f"word{number} " for number in range(60)]


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


def open_channel(telegram: TelegramServer, streaming: str = "auto") -> TelegramChannel:
    """A channel for which a quarter of a second passes with each look at the clock."""
    settings = {"token": SecretStr(TOKEN), "base_url": telegram.base_url, "allow_from": ("*",), "streaming": streaming}
    ticks = itertools.count()
    return TelegramChannel("telegram", TelegramSettings.model_validate(settings), now=lambda: next(ticks) / 4)


def chunks(*texts: str) -> list[bytes]:
    return [b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % text.encode() for text in texts]


END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'


@pytest.mark.parametrize(("chat_id", "is_edited"), [(1001, False), (-1001, True)])
async def test_an_answer_grows_and_stands_there_once(
    rig: GatewayRig, model: ModelServer, telegram: TelegramServer, chat_id: int, is_edited: bool
) -> None:
    chat = telegram.private(chat_id) if chat_id > 0 else telegram.group(chat_id)
    hold = anyio.Event()
    model.reply_bytes([*chunks(*WORDS), hold, *chunks("END"), END])
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(others={"telegram": open_channel(telegram)}):
            chat.says("@nanobee_bot go", sender=1001)
            await telegram.wait_for("sendMessage" if is_edited else "sendMessageDraft")
            assert len(telegram.sent()) == is_edited
            hold.set()
            await telegram.wait_texts("".join(WORDS) + "END")
    assert len(telegram.named("sendMessage")) == 1
    assert chat.drafts == {}


@pytest.mark.parametrize(("chat_id", "streaming"), [(1001, "auto"), (1001, "edit"), (-1001, "auto")])
async def test_a_restart_in_the_middle_of_a_stream_leaves_one_message_with_the_final_text(
    rig: GatewayRig, model: ModelServer, telegram: TelegramServer, chat_id: int, streaming: str
) -> None:
    chat = telegram.private(chat_id) if chat_id > 0 else telegram.group(chat_id)
    is_draft = chat_id > 0 and streaming == "auto"
    model.reply_bytes([*chunks(*WORDS), anyio.Event()])
    model.reply_text("the final text")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(others={"telegram": open_channel(telegram, streaming)}):
            chat.says("@nanobee_bot go", sender=1001)
            await telegram.wait_for("sendMessageDraft" if is_draft else "sendMessage")
        async with rig.open(others={"telegram": open_channel(telegram, streaming)}):
            await telegram.wait_texts("the final text")
    assert chat.drafts == {}
    assert len(telegram.named("sendMessage")) == 1


async def test_a_long_answer_completes_its_streamed_message_and_goes_on_below(
    rig: GatewayRig, model: ModelServer, telegram: TelegramServer
) -> None:
    telegram.group(-1001)
    text = " ".join(str(number) for number in range(3000))
    model.reply_bytes([*chunks(*(f"{number} " for number in range(2999))), *chunks("2999"), END])
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(others={"telegram": open_channel(telegram)}):
            telegram.chats[-1001].says("@nanobee_bot count", sender=1001)
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
    rig: GatewayRig, model: ModelServer, telegram: TelegramServer
) -> None:
    group = telegram.group(-1001)
    hold = anyio.Event()
    model.reply_calls(("message", {"text": "".join(WORDS)}))
    model.reply_bytes([*chunks(*WORDS), hold, END])
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(others={"telegram": open_channel(telegram)}):
            group.says("@nanobee_bot go", sender=1001)
            await telegram.wait_for("sendMessage", 2)
            hold.set()
            await telegram.wait_for("deleteMessage")
            await telegram.wait_texts("".join(WORDS).strip())
