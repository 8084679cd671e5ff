"""Field bug O-37, stop does not stop: it ends whatever a turn is doing, says so once, and the next message works."""

import anyio

from nanobee.agent import dispatch
from nanobee.messages import PartKind
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_server import ModelServer
from nanobee.tools.decorator import tool
from nanobee.tools.tool import ToolContext
from tests.gateway.test_turns import LIMIT_SECONDS, last_user


async def check_next_message(channel: MemoryChannel, server: ModelServer, chat_id: str = "1") -> None:
    """After the one confirmation the chat is as ever."""
    assert [part.text for part in channel.sent_to(chat_id)] == ["Stopped."]
    server.reply_text("as ever", when=lambda body: last_user(body).endswith("next"))
    await channel.say("next", chat_id=chat_id)
    parts = await channel.wait_sent(2, chat_id=chat_id)
    assert [part.text for part in parts] == ["Stopped.", "as ever"]
    assert [part.kind for part in parts] == [PartKind.NOTICE, PartKind.ANSWER]


async def test_o37_stop_ends_a_stream_and_nothing_of_it_comes_later(rig: GatewayRig, server: ModelServer) -> None:
    goes_on = anyio.Event()
    chunk = 'data: {"choices":[{"delta":{"content":"%s "}}]}\n\n'
    server.reply_bytes([(chunk % "begun").encode(), goes_on, *[(chunk % "late").encode()] * 9])
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("write")
            await channel.wait_frames(1)
            await channel.say("/stop")
            await channel.wait_sent()
            goes_on.set()
            await server.wait_answered()
            await check_next_message(channel, server)
    assert not any("late" in frame.text for frame in channel.frames)
    assert channel.sent[-1].handle == (), "the next answer does not go into the stopped turn's message"


async def test_o37_stop_ends_a_turn_that_waits_for_a_place(rig: GatewayRig, server: ModelServer) -> None:
    hold = anyio.Event()
    server.reply_text("through", when=lambda body: last_user(body).endswith("busy"), times=None, hold=hold)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            for number in range(dispatch.MAX_TURNS):
                await channel.say("busy", chat_id=f"b{number}")
            await server.wait_requests(dispatch.MAX_TURNS)
            await channel.say("waits", chat_id="1")
            await channel.say("/stop", chat_id="1")
            await channel.wait_sent(chat_id="1")
            hold.set()
            await check_next_message(channel, server)
            await channel.wait_sent(dispatch.MAX_TURNS + 2)
    assert not any(last_user(request.json).endswith("waits") for request in server.requests)


async def test_o37_stop_ends_a_wait_that_the_model_asked_for(rig: GatewayRig, server: ModelServer) -> None:
    server.reply_status(429, {"error": {"message": "slow down"}}, headers={"Retry-After": "25"})
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("write")
            await server.wait_requests(1)
            await server.wait_answered()
            await channel.say("/stop")
            await channel.wait_sent()
            await check_next_message(channel, server)
    assert len(server.requests) == 2


async def test_o37_stop_ends_a_tool_that_waits(rig: GatewayRig, server: ModelServer) -> None:
    has_begun, went_on = anyio.Event(), False

    @tool
    async def wait(context: ToolContext) -> str:
        """Wait for something that never comes."""
        nonlocal went_on
        has_begun.set()
        await anyio.sleep_forever()
        went_on = True
        return "it came"

    server.reply_calls(("wait", {}))
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            gateway.agent.tools.add(wait)
            await channel.say("wait")
            await has_begun.wait()
            await channel.say("/stop")
            await channel.wait_sent()
            await check_next_message(channel, server)
    assert not went_on


async def test_o37_of_two_stops_the_second_says_that_nothing_ran(rig: GatewayRig, server: ModelServer) -> None:
    server.reply_text("never", hold=anyio.Event())
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("write")
            await server.wait_requests(1)
            await channel.say("/stop")
            await channel.say("/stop")
            assert [part.text for part in await channel.wait_sent(2)] == ["Stopped.", "Nothing was running."]
