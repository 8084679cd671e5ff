"""Faults that a close reading of the core found, each with its right outcome."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from nanobee.bus.lines import Line
from nanobee.channel import Arrival, Lane
from nanobee.errors import ChannelError, RefusedError
from nanobee.messages import Address, InboundMessage, Json, JsonObject, PartKind
from nanobee.sessions.session import Session
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_server import ModelServer
from nanobee.testing.strict_history import StrictHistory
from tests.gateway.test_turns import LIMIT_SECONDS, session_lines


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(history=StrictHistory(alternate=True)) as running:
        yield running


@pytest.fixture
def rig(server: ModelServer, tmp_path: Path) -> GatewayRig:
    return GatewayRig(tmp_path, server.base_url, owner=("memory:owner",))


async def test_call_ids_of_one_turn_stay_apart_over_a_suspension(rig: GatewayRig, server: ModelServer) -> None:
    server.reply_calls(("message", {"text": "first note"}), ("ask_user", {"question": "Go on?"}))
    server.reply_calls(("message", {"text": "second note"}))
    server.reply_text("done")
    memory = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory) as (_, channel):
            await channel.say("work")
            await channel.wait_sent(2)
        async with rig.open(memory) as (_, channel):
            await channel.say("yes")
            await channel.wait_sent(4)
    assert [part.text for part in memory.sent if part.kind is PartKind.MESSAGE] == ["first note", "second note"]
    ids = [line["tool_call_id"] for line in session_lines(rig) if line.get("role") == "tool"]
    assert len(set(ids)) == len(ids)


def test_a_line_that_comes_late_is_put_where_it_belongs_and_once() -> None:
    lines = [Line(seq, datetime.now(UTC), "t", "message", {"role": "user", "content": str(seq)}) for seq in range(1, 6)]
    session = Session("test:1", [lines[0], lines[1], lines[4]])
    before = session.revision
    session.extend([lines[2], lines[3], lines[4]])
    assert [line.seq for line in session.lines] == [1, 2, 3, 4, 5]
    assert session.revision > before


async def test_a_silent_answer_after_the_message_tool_ends_the_turn_at_once(
    rig: GatewayRig, server: ModelServer
) -> None:
    server.reply_calls(("message", {"text": "all said"}))
    server.reply_text("")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("one")
            await channel.wait_sent(1)
            await channel.say("two")
            await channel.wait_sent(2)
    assert [part.kind for part in channel.sent] == [PartKind.MESSAGE, PartKind.ANSWER]
    assert len(server.requests) == 3


async def test_a_failed_delivery_is_told_to_the_owner_and_shown_in_the_chat(
    rig: GatewayRig, server: ModelServer
) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            channel.fail("1", RefusedError("blocked by the user"))
            await channel.say("hello")
            [told] = await channel.wait_sent(1, chat_id="owner")
            assert "memory:1" in told.text
            assert "blocked by the user" in told.text
            await channel.say("/status")
            [status] = await channel.wait_sent(1, chat_id="1")
            assert "1 message(s) could not be delivered" in status.text


async def test_a_channel_that_cannot_split_a_text_ends_nothing(rig: GatewayRig, server: ModelServer) -> None:
    class Unsplittable(MemoryChannel):
        def split(self, text: str) -> list[str]:
            raise ValueError("no way")

    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(Unsplittable()) as (_, channel):
            await channel.say("one")
            await channel.say("/status")
            await channel.wait_sent(2)


class Downloading(MemoryChannel):
    """Its messages need the platform, which is down or up."""

    is_down = True

    def late(self, text: str, chat_id: str) -> None:
        address = Address(self.name, chat_id)
        raw: dict[str, Json] = {"text": text, "chat": chat_id}
        self._waiting.append(Arrival(f"{chat_id}-{text}", address.session_key, "1", Lane.USER, raw))
        self._watch.notify()

    async def resolve(self, raw: JsonObject) -> InboundMessage:
        if self.is_down:
            raise ChannelError("the platform does not answer")
        return InboundMessage(Address(self.name, str(raw["chat"])), "1", str(raw["text"]), datetime.now(UTC))


async def test_a_platform_that_is_down_delays_no_other_one_s_messages(rig: GatewayRig, server: ModelServer) -> None:
    down, up = Downloading("down"), Downloading("up")
    up.is_down = False
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(others={"down": down, "up": up}):
            for number in range(40):
                down.late("x", str(number))
            await down.wait_receipts(40)
            up.late("hello", "1")
            [part] = await up.wait_sent(1)
            assert part.text.endswith("hello")
            down.is_down = False
            await down.wait_sent(1)
