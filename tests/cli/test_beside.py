"""`nanobee cli` beside the process that holds the state folder: real processes, killed for real."""

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import Process

from nanobee.remote.socket_path import find_socket
from nanobee.testing.model_server import ModelServer
from nanobee.testing.telegram_server import TelegramServer
from tests.cli.conftest import LIMIT_SECONDS, Ended, Nanobee, provider

HOLD = """
import pathlib, sys
from nanobee.bus.holder import hold
with hold(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def telegram(platform: TelegramServer) -> str:
    """The part of a configuration that makes a gateway."""
    settings = {"kind": "telegram", "token": platform.token, "base_url": platform.base_url, "allow_from": ["7"]}
    return f"channels: {json.dumps({'bot': settings})}\n"


@pytest.fixture
async def platform() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as running:
        yield running


@asynccontextmanager
async def run_gateway(nanobee: Nanobee, server: ModelServer, platform: TelegramServer) -> AsyncIterator[Process]:
    """A running gateway that clients can reach; ended by SIGTERM unless it has ended before."""
    nanobee.configure(provider(server) + telegram(platform))
    with anyio.fail_after(LIMIT_SECONDS):
        gateway = await nanobee.start("gateway")
        try:
            await wait_socket(nanobee)
            yield gateway
        finally:
            if gateway.returncode is None:
                gateway.terminate()
            await read_end(gateway)
            await gateway.aclose()


async def wait_socket(nanobee: Nanobee) -> None:
    """Wait until a holder listens."""
    while find_socket(nanobee.state) is None:
        await anyio.lowlevel.checkpoint()


async def read_end(process: Process) -> Ended:
    """What a process still says, and how it ends."""
    texts = {"out": b"", "err": b""}

    async def read(name: str, stream: anyio.abc.ByteReceiveStream | None) -> None:
        assert stream is not None
        async for chunk in stream:
            texts[name] += chunk

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, "out", process.stdout)
        tasks.start_soon(read, "err", process.stderr)
    return Ended(await process.wait(), texts["out"].decode(), texts["err"].decode())


def outbox(nanobee: Nanobee) -> list[tuple[str, int]]:
    """State and tries of each part."""
    db = sqlite3.connect(nanobee.state / "bus.db")
    try:
        return db.execute("select state, attempts from outbox where kind <> 'stream' order by id").fetchall()
    finally:
        db.close()


async def test_one_message_is_answered_by_the_running_gateway(
    nanobee: Nanobee, server: ModelServer, platform: TelegramServer
) -> None:
    async with run_gateway(nanobee, server, platform) as gateway:
        server.reply_text("Hello, you.")
        ended = await nanobee.run("cli", "-m", "hi")
        piped = await nanobee.run("cli", stdin=b"one\ntwo\n")
        status = json.loads((await nanobee.run("status", "--json")).out)
    assert (ended.code, ended.out) == (0, "Hello, you.\n")
    assert ended.err == f"main/test-model answers, in the gateway (process {gateway.pid}).\n"
    assert piped.code == 0
    assert piped.out.endswith("one\ntwo\n")
    assert status["inbox"] == {"done": 2}
    assert status["holder"] == gateway.pid
    assert status["channels"]["terminal"] == {"kind": "terminal", "state": "up", "detail": "", "last_event_at": None}


async def test_a_conversation_goes_on_with_and_without_a_gateway(
    nanobee: Nanobee, server: ModelServer, platform: TelegramServer
) -> None:
    nanobee.configure(provider(server))
    await nanobee.run("cli", "-m", "remember seven")
    async with run_gateway(nanobee, server, platform):
        assert (await nanobee.run("cli", "-m", "remember eight")).code == 0
    ended = await nanobee.run("cli", "-m", "which numbers")
    history = json.dumps(server.requests[-1].messages)
    assert ended.code == 0
    assert "remember seven" in history
    assert "remember eight" in history


@pytest.mark.parametrize("same", [True, False], ids=["in one session", "each in its own"])
async def test_many_terminals_at_once_get_their_own_answers(
    nanobee: Nanobee, server: ModelServer, platform: TelegramServer, same: bool
) -> None:
    ended: dict[int, Ended] = {}

    async def ask(number: int) -> None:
        session = [] if same else ["--session", f"chat{number}"]
        ended[number] = await nanobee.run("cli", *session, "-m", f"question {number}")

    async with run_gateway(nanobee, server, platform), anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(ask, number)
    for number, each in ended.items():
        assert each.code == 0, each.err
        assert each.out.splitlines()[-1].endswith(f"question {number}")
        assert len(each.out.splitlines()) == 1
    assert {state for state, _ in outbox(nanobee)} == {"sent"}


async def test_a_model_of_its_own_is_refused_beside_a_gateway(
    nanobee: Nanobee, server: ModelServer, platform: TelegramServer
) -> None:
    async with run_gateway(nanobee, server, platform) as gateway:
        ended = await nanobee.run("cli", "--model", "main/other", "-m", "hi")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        f"Process {gateway.pid} holds the state folder and answers with main/test-model: "
        "leave --model out, or stop it first.\n"
    )
    assert server.requests == []


async def test_ctrl_c_stops_the_turn_in_the_gateway(
    nanobee: Nanobee, server: ModelServer, platform: TelegramServer
) -> None:
    reply = server.reply_text("never", hold=anyio.Event())
    async with run_gateway(nanobee, server, platform), await nanobee.start("cli", "-m", "long work") as client:
        await reply.asked.wait()
        client.send_signal(signal.SIGINT)
        ended = await read_end(client)
        again = await nanobee.run("cli", "-m", "still there")
    assert (ended.code, ended.out) == (1, "")
    assert "Stopped.\n" in ended.err
    assert again.out.endswith("still there\n")


async def test_a_terminal_killed_before_its_answer_leaves_it_to_the_next_one(
    nanobee: Nanobee, server: ModelServer, platform: TelegramServer
) -> None:
    hold = anyio.Event()
    reply = server.reply_text("the late answer", hold=hold)
    async with run_gateway(nanobee, server, platform):
        async with await nanobee.start("cli", "-m", "take your time") as client:
            await reply.asked.wait()
            client.kill()
            await client.wait()
        hold.set()
        other = await nanobee.run("cli", "--session", "other", "-m", "elsewhere")
        following = await nanobee.run("cli", "-m", "and now")
        last = await nanobee.run("cli", "-m", "once more")
    assert "late answer" not in other.out + other.err
    assert following.err.splitlines()[1:] == ["the late answer"]
    assert following.out.splitlines()[-1].endswith("and now")
    assert "late answer" not in last.out + last.err
    assert outbox(nanobee) == [("sent", 1)] * 4


async def test_a_killed_gateway_is_told_and_the_next_terminal_takes_its_place(
    nanobee: Nanobee, server: ModelServer, platform: TelegramServer
) -> None:
    reply = server.reply_text("never", hold=anyio.Event())
    async with run_gateway(nanobee, server, platform) as gateway:
        async with await nanobee.start("cli", "-m", "accepted") as client:
            await reply.asked.wait()
            gateway.kill()
            ended = await read_end(client)
        assert find_socket(nanobee.state) is not None, "a killed process takes nothing away"
        following = await nanobee.run("cli", "-m", "go on")
        third = await nanobee.run("cli", "-m", "and on")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[1:] == [
        f"The gateway (process {gateway.pid}) has ended. What it accepted is kept and goes on at its next start."
    ]
    assert following.code == 0
    assert following.err.splitlines()[0] == "main/test-model answers."
    assert following.err.splitlines()[-1].endswith("accepted")
    assert following.out.splitlines()[-1].endswith("go on")
    assert third.out.splitlines()[-1].endswith("and on")
    assert find_socket(nanobee.state) is None


async def test_a_gateway_that_is_asked_to_stop_finishes_the_answer_first(
    nanobee: Nanobee, server: ModelServer, platform: TelegramServer
) -> None:
    hold = anyio.Event()
    reply = server.reply_text("just in time", hold=hold)
    async with run_gateway(nanobee, server, platform) as gateway:
        async with await nanobee.start("cli", "-m", "hurry") as client:
            await reply.asked.wait()
            gateway.terminate()
            hold.set()
            ended = await read_end(client)
        assert (await read_end(gateway)).code == 0
    assert (ended.code, ended.out) == (0, "just in time\n")


async def test_a_terminal_that_is_the_holder_serves_others_beside_it(nanobee: Nanobee, server: ModelServer) -> None:
    hold = anyio.Event()
    nanobee.configure(provider(server))
    reply = server.reply_text("mine", hold=hold)
    with anyio.fail_after(LIMIT_SECONDS):
        async with await nanobee.start("cli", "-m", "first") as holder:
            await reply.asked.wait()
            await wait_socket(nanobee)
            beside = await nanobee.run("cli", "--session", "other", "-m", "second")
            hold.set()
            ended = await read_end(holder)
    assert (beside.code, beside.err) == (0, f"main/test-model answers, in the gateway (process {holder.pid}).\n")
    assert beside.out.endswith("second\n")
    assert (ended.code, ended.out) == (0, "mine\n")


async def test_terminals_that_start_at_the_same_moment_all_get_their_answers(
    nanobee: Nanobee, server: ModelServer
) -> None:
    nanobee.configure(provider(server))
    ended: list[Ended] = []

    async def ask(number: int) -> None:
        ended.append(await nanobee.run("cli", "--session", f"chat{number}", "-m", f"question {number}"))

    # Each may be the holder; who is served by one that ends first is told so, and asks again.
    with anyio.fail_after(LIMIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(ask, number)
    for each in ended:
        assert (each.code == 0) == bool(each.out), each
        assert each.code == 0 or "has ended" in each.err or "stopping" in each.err, each
    assert any(each.code == 0 for each in ended)


async def test_o25_a_second_gateway_on_one_state_folder_refuses_before_it_touches_anything(
    nanobee: Nanobee, server: ModelServer, platform: TelegramServer
) -> None:
    async with run_gateway(nanobee, server, platform) as gateway:
        await platform.wait_asked("getUpdates")
        before = {call.method: platform.named(call.method) for call in platform.calls}
        second = await nanobee.run("gateway")
        status = json.loads((await nanobee.run("status", "--json")).out)
        assert len(platform.named("getMe")) == len(before.get("getMe", []))
        assert (await nanobee.run("cli", "-m", "still there")).code == 0
    assert (second.code, second.out) == (1, "")
    assert second.err == f"The state folder {nanobee.state} is in use by process {gateway.pid}. Stop it first.\n"
    assert (status["running"], status["holder"]) == (True, gateway.pid)


async def test_a_holder_that_does_not_answer_is_named(nanobee: Nanobee, server: ModelServer) -> None:
    nanobee.configure(provider(server))
    with anyio.fail_after(LIMIT_SECONDS):
        command = [sys.executable, "-c", HOLD, str(nanobee.state)]
        async with await anyio.open_process(command, stdin=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            assert (await holder.stdout.receive()).startswith(b"held")
            ended = await nanobee.run("cli", "-m", "hi")
            assert holder.stdin is not None
            await holder.stdin.aclose()
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        f"The state folder {nanobee.state} is in use by process {holder.pid}, which does not answer. Stop it first.\n"
    )
    assert server.requests == []


async def test_a_gateway_with_a_channel_called_terminal_keeps_it_for_itself(
    nanobee: Nanobee, server: ModelServer, platform: TelegramServer
) -> None:
    nanobee.configure(provider(server) + telegram(platform).replace('"bot"', '"terminal"'))
    with anyio.fail_after(LIMIT_SECONDS):
        async with await nanobee.start("gateway") as gateway:
            await wait_socket(nanobee)
            ended = await nanobee.run("cli", "-m", "hi")
            gateway.terminate()
            await read_end(gateway)
    assert (ended.code, ended.out) == (1, "")
    assert "runs a channel of its own under the name of this terminal" in ended.err
