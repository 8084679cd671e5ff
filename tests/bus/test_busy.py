"""Claims in the busy modes, and turns that end the process."""

import os
import subprocess
import sys
from pathlib import Path

from nanobee.bus.bus import Claim
from nanobee.bus.checkpoints import NAMES, VARIABLE
from nanobee.config import BusyMode
from nanobee.sessions.session import message_line
from tests.bus.conftest import OpenBus, new_row
from tests.bus.test_suspensions import texts


def told(claim: Claim) -> list[object]:
    return [line.data["content"] for line in claim.lines if line.kind == "message"]


async def test_collecting_takes_all_messages_up_to_a_command(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row(text) for text in ("one", "two", "/new", "three")])
        claim = await opened.bus.claim("test:1", busy=BusyMode.COLLECT)
        assert claim is not None
        assert texts(claim.rows) == told(claim) == ["one", "two"]
        await opened.bus.finish(claim.ref, [])
        command = await opened.bus.claim("test:1", busy=BusyMode.COLLECT)
        assert command is not None
        assert texts(command.rows) == ["/new"]


async def test_steering_takes_what_waits_into_the_running_turn(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row("one")])
        claim = await opened.bus.claim("test:1")
        assert claim is not None
        assert await opened.bus.steer(claim.ref) == ((), ())
        await opened.bus.receive([new_row("two"), new_row("three")])
        rows, lines = await opened.bus.steer(claim.ref)
        assert texts(rows) == [line.data["content"] for line in lines] == ["two", "three"]
        await opened.bus.finish(claim.ref, [])
        assert await opened.bus.claim("test:1") is None


async def test_an_interrupt_puts_old_and_new_message_into_one_turn_and_tells_each_once(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row("one")])
        claim = await opened.bus.claim("test:1")
        assert claim is not None
        assert await opened.bus.interrupt("test:1") is None
        await opened.bus.receive([new_row("two")])
        assert await opened.bus.interrupt("test:1") == claim.ref.turn
        again = await opened.bus.claim("test:1", busy=BusyMode.COLLECT)
        assert again is not None
        assert texts(again.rows) == ["one", "two"]
        assert told(again) == ["two"]


async def test_a_turn_that_dies_three_times_without_a_new_line_is_put_aside_and_its_chat_is_told(
    open_state: OpenBus,
) -> None:
    for _ in range(3):
        async with open_state() as opened:
            await opened.bus.receive([new_row("poison")])
            assert await opened.bus.claim("test:1") is not None
    async with open_state() as opened:
        assert await opened.bus.claim("test:1") is None
        [address] = opened.heard.addresses
        part = (await opened.bus.outgoing(address)).part
        assert part is not None
        assert part.text == "it crashed three times"
        await opened.bus.receive([new_row("next")])
        claim = await opened.bus.claim("test:1")
        assert claim is not None
        assert texts(claim.rows) == ["next"]
        await opened.bus.finish(claim.ref, [])
        assert await opened.bus.resume("test:1") == 1
        resumed = await opened.bus.claim("test:1")
        assert resumed is not None
        assert texts(resumed.rows) == ["poison"]
        assert told(resumed) == ["poison"]


async def test_a_turn_that_gets_on_between_its_deaths_is_not_put_aside(open_state: OpenBus) -> None:
    for number in range(5):
        async with open_state() as opened:
            await opened.bus.receive([new_row("long work")])
            claim = await opened.bus.claim("test:1")
            assert claim is not None
            await opened.bus.record(claim.ref, [message_line("assistant", f"step {number}")])


async def test_a_turn_that_was_handed_back_does_not_count_as_dead(open_state: OpenBus) -> None:
    for _ in range(5):
        async with open_state() as opened:
            await opened.bus.receive([new_row("one")])
            claim = await opened.bus.claim("test:1")
            assert claim is not None
            await opened.bus.hand_back(claim.ref)


def test_an_armed_checkpoint_kills_at_its_count_and_no_other_does(tmp_path: Path) -> None:
    code = (
        "from nanobee.bus.checkpoints import checkpoint\n"
        "for _ in range(3): checkpoint('claim.stored'); print('passed', flush=True)\n"
        "checkpoint('finish.stored')"
    )
    for armed, passed, killed in (("claim.stored:2", 1, True), ("claim.stored", 0, True), ("sent.stored", 3, False)):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, VARIABLE: armed},
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.stdout.count("passed") == passed
        assert (done.returncode == -9) is killed
    assert len(set(NAMES)) == len(NAMES)
