"""Faults around a whole gateway: a disk that takes nothing, damaged rows, cancellations that leak."""

import asyncio
import sqlite3

import anyio
import pytest

from nanobee.bus.rows import DAMAGED
from nanobee.bus.sqlite import FILE_NAME
from nanobee.channel import Inbox
from nanobee.errors import UnknownOutcomeError
from nanobee.messages import OutboundPart
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_server import ModelServer
from nanobee.tools.decorator import tool
from nanobee.tools.tool import ToolContext
from tests.gateway.conftest import Logged
from tests.gateway.disk import FULL, READ_ONLY, failing_disk
from tests.gateway.test_turns import LIMIT_SECONDS, last_user

# A disk that takes nothing


@pytest.mark.parametrize("how", [FULL, READ_ONLY])
async def test_a_message_that_cannot_be_stored_is_not_acknowledged_and_comes_in_when_there_is_room_again(
    rig: GatewayRig, server: ModelServer, logged: Logged, how: int
) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("one")
            await channel.wait_sent(1)
            with failing_disk(rig.settings.state, how):
                key = channel.post("two")
                await logged.wait("cannot be written", 3)
                assert key not in channel.receipts
                assert len(server.requests) == 1
            assert (await channel.wait_sent(2))[1].text.endswith("two")
            assert channel.receipts[key] == "stored"


@pytest.mark.parametrize("how", [FULL, READ_ONLY])
async def test_a_turn_that_cannot_be_stored_is_done_again_and_answered_once(
    rig: GatewayRig, server: ModelServer, logged: Logged, how: int
) -> None:
    hold = anyio.Event()
    server.reply_text("lost", hold=hold)
    server.reply_text("kept")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("one")
            await channel.say("two")
            await server.wait_requests(1)
            with failing_disk(rig.settings.state, how):
                hold.set()
                await logged.wait("the turn is resumed")
            texts = [part.text for part in await channel.wait_sent(2)]
            assert texts[0] == "kept"
            assert texts[1].endswith("two")


@pytest.mark.parametrize("how", [FULL, READ_ONLY])
async def test_a_part_that_was_sent_while_nothing_can_be_stored_is_not_sent_again(
    rig: GatewayRig, logged: Logged, how: int
) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            channel.block("1")
            await channel.say("one")
            await channel.wait_attempts(1)
            with failing_disk(rig.settings.state, how):
                channel.unblock("1")
                await channel.wait_sent(1)
                await logged.wait("memory:1: The bus", 2)
            await channel.say("two")
            assert [part.text[-3:] for part in await channel.wait_sent(2)] == ["one", "two"]
            assert len(channel.attempts) == 2


async def test_a_send_without_word_while_nothing_can_be_stored_is_tried_once_more_at_most(
    rig: GatewayRig, logged: Logged
) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            channel.block("1")
            channel.fail("1", UnknownOutcomeError("cut"), times=9, is_delivered=True)
            await channel.say("one")
            await channel.wait_attempts(1)
            with failing_disk(rig.settings.state):
                channel.unblock("1")
                await logged.wait("memory:1: The bus", 3)
            await logged.wait("is given up")
            assert len(channel.attempts) == 2


async def test_a_command_that_came_before_the_disk_was_full_is_answered_when_there_is_room(
    rig: GatewayRig, server: ModelServer, logged: Logged
) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            channel.block("1")
            await channel.say("/status")
            await channel.wait_attempts(1)
            # As it stood between the command's arrival and its answer.
            db = sqlite3.connect(rig.settings.state / FILE_NAME)
            db.execute("update inbox set state = 'ready'")
            db.execute("delete from outbox")
            db.commit()
            db.close()
            with failing_disk(rig.settings.state):
                gateway.wake("memory:1")
                await logged.wait("a control row waits", 2)
            channel.unblock("1")
            assert "test-model" in (await channel.wait_sent(2))[1].text


# Damaged rows


@pytest.mark.parametrize("column", ["message", "payload"])
async def test_a_damaged_message_is_answered_and_holds_up_no_other(
    rig: GatewayRig, server: ModelServer, column: str
) -> None:
    hold = anyio.Event()
    server.reply_text("never", hold=hold)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            for text in ("one", "two", "three"):
                await channel.say(text)
            await server.wait_requests(1)
        db = sqlite3.connect(rig.settings.state / FILE_NAME)
        db.execute(f"update inbox set {column} = '[1' where seq = 2")
        db.commit()
        db.close()
        async with rig.open() as (_, channel):
            texts = [part.text for part in await channel.wait_sent(3)]
            assert texts[0].endswith("one")
            assert DAMAGED in last_user(server.requests[-2].json)
            assert texts[2].endswith("three")


# Cancellations that leak


class Leaking(MemoryChannel):
    """A channel whose library cancels itself now and then."""

    leaks_in = ""

    async def run(self, inbox: Inbox) -> None:
        self._leak("run")
        await super().run(inbox)

    async def send(self, part: OutboundPart) -> tuple[str, ...]:
        self._leak("send")
        return await super().send(part)

    def _leak(self, where: str) -> None:
        if self.leaks_in == where:
            self.leaks_in = ""
            raise asyncio.CancelledError


@pytest.mark.parametrize("where", ["run", "send"])
async def test_r05_a_cancellation_that_leaks_out_of_a_channel_costs_no_message(rig: GatewayRig, where: str) -> None:
    leaking = Leaking()
    leaking.leaks_in = where
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(leaking) as (_, channel):
            await channel.say("one")
            assert [part.text[-3:] for part in await channel.wait_sent(1)] == ["one"]


async def test_r05_a_cancellation_that_leaks_out_of_a_tool_is_told_and_the_next_message_works(
    rig: GatewayRig, server: ModelServer
) -> None:
    @tool
    async def leak(context: ToolContext) -> str:
        """Cancel yourself."""
        raise asyncio.CancelledError

    server.reply_calls(("leak", {}))
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            gateway.agent.tools.add(leak)
            await channel.say("one")
            await channel.wait_sent(1)
            await channel.say("two")
            assert "two" in (await channel.wait_sent(2))[1].text
