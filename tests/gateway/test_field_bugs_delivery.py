"""Field bug O-35, one bad outbound message stops no delivery: through a whole gateway, to a real Telegram channel."""

import sqlite3
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import anyio
import pytest
from pydantic import SecretStr

from nanobee.bus import delivery
from nanobee.bus.overview import read_overview
from nanobee.bus.rows import DAMAGED
from nanobee.bus.sqlite import FILE_NAME
from nanobee.channel import AnyChannel
from nanobee.errors import RefusedError
from nanobee.messages import OutboundPart
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel, MemorySettings
from nanobee.testing.model_server import ModelServer
from nanobee.testing.scripted_server import When
from nanobee.testing.telegram_server import TOKEN, TelegramServer
from nanobee_telegram import TelegramChannel, TelegramSettings
from tests.gateway.conftest import Logged
from tests.gateway.test_turns import LIMIT_SECONDS, last_user

ANN, BOB = 1001, 1002


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer(TOKEN) as running:
        yield running


@pytest.fixture
def channels(telegram: TelegramServer) -> Mapping[str, AnyChannel]:
    settings = TelegramSettings(token=SecretStr(TOKEN), base_url=telegram.base_url, allow_from=("*",))
    return {"telegram": TelegramChannel("telegram", settings)}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "FIRST_PAUSE_SECONDS", 0.01)


def change(state: Path, sql: str, *values: object) -> None:
    """Change the rows of a gateway that is down."""
    db = sqlite3.connect(state / FILE_NAME)
    db.execute(sql, values)
    db.commit()
    db.close()


@pytest.fixture
def answers(server: ModelServer) -> ModelServer:
    """The model says each word back."""

    def is_said(word: str) -> When:
        return lambda body: last_user(body).endswith(word)

    for word in ("one", "two", "good"):
        server.reply_text(f"re {word}", when=is_said(word), times=None)
    return server


@pytest.mark.parametrize("payload", ['{"text": null}', "{}", "null", '{"text"', '{"text": "x", "attachments": [1]}'])
async def test_o35_a_a_damaged_part_is_told_of_and_stops_no_other(
    rig: GatewayRig, logged: Logged, payload: str
) -> None:
    memory = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory) as (_, channel):
            await channel.say("one")
            await channel.wait_sent()
        change(rig.settings.state, "update outbox set state = 'ready', payload = ?", payload)
        async with rig.open(memory) as (_, channel):
            await channel.wait_sent(2)
            await channel.say("two")
            await channel.say("good", chat_id="2")
            await channel.wait_sent(4)
    _, damaged, after = memory.sent_to("1")
    assert damaged.text == DAMAGED
    assert after.text.endswith("two")
    assert memory.sent_to("2")[0].text.endswith("good")
    assert logged.count("memory:1 is damaged")


async def test_o35_b_a_part_for_a_channel_that_is_gone_waits_visibly_and_stops_no_other(rig: GatewayRig) -> None:
    gone, memory = MemoryChannel("gone"), MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory, {"gone": gone}) as (_, channel):
            await gone.say("one")
            await gone.wait_sent()
        change(rig.settings.state, "update outbox set state = 'ready'")
        async with rig.open(memory) as (_, channel):
            await channel.say("good")
            assert (await channel.wait_sent())[0].text.endswith("good")
        assert read_overview(rig.settings.state).outbox == {"ready": 1, "sent": 1}
        async with rig.open(memory, {"gone": gone}):
            assert (await gone.wait_sent(2))[1].text.endswith("one")


class Careful(MemoryChannel):
    """A channel that takes no file that does not exist."""

    async def send(self, part: OutboundPart) -> tuple[str, ...]:
        for attachment in part.attachments:
            if not await anyio.Path(attachment.path).exists():
                raise RefusedError(f"{attachment.name} is not there")
        return await super().send(part)


async def test_o35_c_a_missing_file_costs_the_part_that_carries_it_and_the_text_before_it_stands(
    rig: GatewayRig, answers: ModelServer, logged: Logged
) -> None:
    careful = Careful("memory", MemorySettings(max_chars=5))
    attachment = '[{"kind": "file", "name": "gone.pdf", "path": "/no/gone.pdf"}]'
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(careful) as (_, channel):
            await channel.say("one")
            await channel.wait_sent(2)
        change(
            rig.settings.state,
            "update outbox set state = 'ready', payload = json_set(payload, '$.attachments',"
            " case part when parts - 1 then json(?) else json('[]') end)",
            attachment,
        )
        async with rig.open(careful) as (_, channel):
            await channel.say("good", chat_id="2")
            await channel.wait_sent(2, chat_id="2")
            await logged.wait("gone.pdf is not there")
            assert [part.text for part in channel.sent_to("1")] == ["re on", "e", "re on"]
    assert read_overview(rig.settings.state).outbox["dead"] == 1
    assert any("memory:1" in text and "gone.pdf" in text for text in logged.texts)


async def test_o35_d_two_server_errors_then_success_is_one_message(
    rig: GatewayRig, answers: ModelServer, telegram: TelegramServer, channels: Mapping[str, AnyChannel]
) -> None:
    ann, bob = telegram.private(ANN), telegram.private(BOB)
    telegram.faults.fail("sendMessage", 500, "Internal Server Error", times=2)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(others=channels):
            ann.says("one")
            await telegram.wait_texts("re one", chat_id=ANN)
            bob.says("good")
            await telegram.wait_texts("re good", chat_id=BOB)
            ann.says("two")
            await telegram.wait_texts("re one", "re two", chat_id=ANN)


async def test_o35_e_a_person_who_blocked_the_bot_is_not_tried_again_and_the_reason_is_kept(
    rig: GatewayRig, answers: ModelServer, telegram: TelegramServer, channels: Mapping[str, AnyChannel], logged: Logged
) -> None:
    ann, bob = telegram.private(ANN), telegram.private(BOB)
    ann.is_blocked = True
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(others=channels):
            ann.says("one")
            await logged.wait("is given up")
            bob.says("good")
            await telegram.wait_texts("re good", chat_id=BOB)
            tries = [call for call in telegram.named("sendMessage") if call.parameters["chat_id"] == ANN]
            assert len(tries) == 1
    assert any(f"telegram:{ANN}" in text and "blocked by the user" in text for text in logged.texts)
    db = sqlite3.connect(rig.settings.state / FILE_NAME)
    rows = db.execute("select address, reason from outbox where state = 'dead'").fetchall()
    db.close()
    assert len(rows) == 1
    assert rows[0][0] == f"telegram:{ANN}"
    assert "blocked by the user" in rows[0][1]


async def test_o35_f_a_send_that_hangs_holds_up_its_own_chat_only(
    rig: GatewayRig, answers: ModelServer, telegram: TelegramServer, channels: Mapping[str, AnyChannel]
) -> None:
    ann, bob = telegram.private(ANN), telegram.private(BOB)
    telegram.faults.hang("sendMessage")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(others=channels):
            ann.says("one")
            await telegram.wait_asked("sendMessage")
            bob.says("good")
            await telegram.wait_texts("re good", chat_id=BOB)
            ann.says("two")
            telegram.faults.heal()
            await telegram.wait_texts("re one", "re two", chat_id=ANN)
