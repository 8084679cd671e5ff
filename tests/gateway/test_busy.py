"""Questions, busy modes and streams through a whole gateway."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from nanobee.bus.bus import NewRow
from nanobee.channel import Arrival, Lane
from nanobee.config import AgentSettings, BusyMode
from nanobee.messages import Address, InboundMessage, PartKind
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_server import ModelServer
from nanobee.testing.strict_history import StrictHistory
from tests.bus.conftest import opener
from tests.gateway.test_turns import LIMIT_SECONDS, last_user


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(history=StrictHistory(alternate=True)) as running:
        yield running


@pytest.fixture
def rig(server: ModelServer, tmp_path: Path) -> GatewayRig:
    return GatewayRig(tmp_path, server.base_url)


def busy(server: ModelServer, tmp_path: Path, mode: BusyMode) -> GatewayRig:
    return GatewayRig(tmp_path, server.base_url, AgentSettings(busy=mode))


async def test_a_question_waits_over_a_restart_and_its_answer_goes_on_with_the_turn(
    rig: GatewayRig, server: ModelServer
) -> None:
    server.reply_calls(("ask_user", {"question": "Which color?", "choices": ["red", "blue"]}))
    server.reply_text("Painted blue.")
    memory = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory) as (_, channel):
            await channel.say("paint the house")
            [question] = await channel.wait_sent()
            assert question.kind is PartKind.QUESTION
            assert question.text.startswith("Which color?\n1. red\n2. blue\n")
        async with rig.open(memory) as (_, channel):
            await channel.say("2")
            sent = await channel.wait_sent(2)
            assert sent[1].text == "Painted blue."
    messages = server.requests[-1].json["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert messages[3]["content"].startswith("Pending #")
    assert messages[5]["content"] == "blue"


async def test_while_a_question_waits_the_chat_goes_on_and_two_questions_need_two_answers(
    rig: GatewayRig, server: ModelServer
) -> None:
    server.reply_calls(("ask_user", {"question": "Name?"}), ("ask_user", {"question": "Age?"}))
    server.reply_text("Sunny.")
    server.reply_text("Ann is 7.")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("fill in the form")
            name, age = await channel.wait_sent(2)
            await channel.say("how is the weather?")
            assert (await channel.wait_sent(3))[-1].text == "Sunny."
            ids = [part.idempotency_key.split("/ask-")[1].split("/")[0] for part in (name, age)]
            await channel.say(f"/answer {ids[1]} 7")
            assert (await channel.wait_sent(4))[-1].text == "Noted. 1 more question(s) wait."
            await channel.say(f"/answer {ids[0]} Ann")
            texts = [part.text for part in await channel.wait_sent(6)]
            assert sorted(texts[4:]) == ["Ann is 7.", "Noted."]
            await channel.say(f"/answer {ids[0]} Bob")
            assert "no longer valid" in (await channel.wait_sent(7))[-1].text


async def test_stop_cancels_an_open_question(rig: GatewayRig, server: ModelServer) -> None:
    server.reply_calls(("ask_user", {"question": "Name?"}))
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("go")
            await channel.wait_sent()
            await channel.say("/stop")
            assert (await channel.wait_sent(2))[-1].text == "Stopped. 1 open question(s) are cancelled."
            await channel.say("Ann")
            assert (await channel.wait_sent(3))[-1].kind is PartKind.ANSWER


async def test_status_shows_the_open_question(rig: GatewayRig, server: ModelServer) -> None:
    server.reply_calls(("ask_user", {"question": "Name?"}))
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("go")
            await channel.wait_sent()
            await channel.say("/status")
            assert "Name?" in (await channel.wait_sent(2))[-1].text


async def test_steer_answers_both_messages_at_the_next_step(server: ModelServer, tmp_path: Path) -> None:
    hold = anyio.Event()
    server.reply_calls(("list_dir", {}), hold=hold)
    server.reply_text("both done")
    with anyio.fail_after(LIMIT_SECONDS):
        async with busy(server, tmp_path, BusyMode.STEER).open() as (_, channel):
            await channel.say("list the folder")
            await server.wait_requests(1)
            await channel.say("and count it")
            hold.set()
            [part] = await channel.wait_sent()
            assert (part.text, part.reply_to) == ("both done", "2")
            assert "count" in last_user(server.requests[-1].json)
            await channel.say("next")
            await channel.wait_sent(2)
    assert len(server.requests) == 3


async def test_interrupt_ends_the_turn_and_answers_both_with_one(server: ModelServer, tmp_path: Path) -> None:
    server.reply_text("never", hold=anyio.Event())
    server.reply_text("both")
    with anyio.fail_after(LIMIT_SECONDS):
        async with busy(server, tmp_path, BusyMode.INTERRUPT).open() as (_, channel):
            await channel.say("one")
            await server.wait_requests(1)
            await channel.say("two")
            assert [part.text for part in await channel.wait_sent()] == ["both"]
            text = last_user(server.requests[-1].json)
            assert "one" in text
            assert "two" in text
            assert text.count("one") == 1


async def test_collect_answers_what_waited_with_one_turn(server: ModelServer, tmp_path: Path) -> None:
    hold = anyio.Event()
    server.reply_text("first", hold=hold)
    server.reply_text("the rest")
    with anyio.fail_after(LIMIT_SECONDS):
        async with busy(server, tmp_path, BusyMode.COLLECT).open() as (_, channel):
            await channel.say("one")
            await server.wait_requests(1)
            await channel.say("two")
            await channel.say("three")
            hold.set()
            assert [part.text for part in await channel.wait_sent(2)] == ["first", "the rest"]
    assert len(server.requests) == 2


async def test_a_streamed_message_is_completed_by_the_answer_also_after_a_restart(
    rig: GatewayRig, server: ModelServer
) -> None:
    first = b'data: {"choices":[{"delta":{"content":"half "}}]}\n\n'
    server.reply_bytes([first, anyio.Event()])
    server.reply_text("half and whole")
    memory = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory) as (_, channel):
            await channel.say("hi")
            [frame] = await channel.wait_frames(1)
            assert frame.part.handle == ()
        async with rig.open(memory) as (_, channel):
            [part] = await channel.wait_sent()
            assert part.text == "half and whole"
            assert len(part.handle) == 1
            later = [frame.part.handle for frame in channel.frames[1:]]
            assert set(later) <= {part.handle}


async def test_a_stop_of_the_gateway_lets_a_turn_end_and_refuses_what_comes_meanwhile(
    rig: GatewayRig, server: ModelServer
) -> None:
    hold = anyio.Event()
    server.reply_text("done in time", hold=hold)
    memory = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory) as (gateway, channel):
            await channel.say("one")
            await server.wait_requests(1)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(gateway.wind_down, 5)
                await anyio.wait_all_tasks_blocked()
                key = channel.post("two")
                hold.set()
            assert [part.text for part in channel.sent] == ["done in time"]
            assert key not in channel.receipts
        async with rig.open(memory) as (_, channel):
            assert (await channel.wait_sent(2))[1].text.endswith("two")


async def test_a_resume_whose_reply_a_kill_prevented_does_not_say_afterwards_that_there_was_nothing(
    rig: GatewayRig,
) -> None:
    message = InboundMessage(Address("memory", "1"), "1", "/resume", datetime.now(UTC))
    arrival = Arrival("e1", "memory:1", "1", Lane.CONTROL, {}, message=message)
    with anyio.fail_after(LIMIT_SECONDS):
        async with opener(rig.settings.state)() as opened:
            await opened.bus.receive([NewRow(arrival, "memory::e1")])
            row = await opened.bus.claim_control()
            assert row is not None
            await opened.bus.resume(row.session_key)
        async with rig.open() as (_, channel):
            [reply] = await channel.wait_sent()
            assert reply.text == "What was kept aside goes on."
            await channel.say("/resume")
            assert (await channel.wait_sent(2))[-1].text == "Nothing is kept aside here."
