"""exec through a whole gateway: for the owner alone, and no command outlives its turn, its gateway or a crash."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process

from nanobee.agent.ownership import Ownership
from nanobee.exchanges import UNKNOWN_OUTCOME
from nanobee.messages import Address, InboundMessage
from nanobee.sessions.files import SessionFiles
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_server import ModelServer
from nanobee.testing.strict_history import StrictHistory
from nanobee.testing.telegram_server import TOKEN, TelegramServer
from nanobee.tools.process_group import ProcessGroup
from tests.cli.conftest import Nanobee, provider
from tests.gateway.test_turns import session_lines

LIMIT_SECONDS = 10
GATEWAY_SECONDS = 60
OWNER = ("memory:1",)
SLEEP = "echo ran >> marker; (trap '' TERM; sleep 300; touch late) & echo x > begun; wait; touch late"
"""Tells that it runs by a named pipe, and has a child that ignores being asked to end."""


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(history=StrictHistory(alternate=True)) as running:
        yield running


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    os.mkfifo(folder / "begun")
    return folder


@pytest.fixture
def rig(server: ModelServer, tmp_path: Path, workspace: Path) -> GatewayRig:
    return GatewayRig(tmp_path, server.base_url, owner=OWNER)


async def wait_begun(workspace: Path) -> None:
    """Return when the command runs; bound it with `anyio.fail_after`."""
    assert await anyio.to_thread.run_sync((workspace / "begun").read_text, abandon_on_cancel=True) == "x\n"


async def is_gone(group: ProcessGroup) -> bool:
    for _ in range(500):
        if not group.is_alive:
            return True
        await anyio.sleep(0.01)
    return False


def recorded_groups(state: Path, key: str) -> list[ProcessGroup]:
    """The process groups that stand in a session's intents."""
    lines = SessionFiles(state).read_backwards(key)
    groups = (ProcessGroup.from_json(line.data.get("process"), str(line.data.get("call"))) for line in lines)
    return [group for group in groups if group is not None]


def offered(request: Any) -> list[str]:
    return [tool["function"]["name"] for tool in request.json["tools"]]


async def test_the_owner_has_a_command_run_and_the_model_sees_what_it_printed(
    rig: GatewayRig, server: ModelServer
) -> None:
    server.reply_calls(("exec", {"command": "echo hello; exit 3"}))
    server.reply_text("done")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("run it")
            assert [part.text for part in await channel.wait_sent()] == ["done"]
    assert "exec" in offered(server.requests[0])
    assert server.requests[1].json["messages"][-1]["content"] == "hello\n[exit code 3]"
    intents = [line for line in session_lines(rig) if line["kind"] == "tool_started"]
    assert [line["call"] for line in intents] == [intents[0]["call"]] * 2
    assert intents[1]["process"].keys() == {"group", "started", "boot"}
    kinds = [line["kind"] for line in session_lines(rig)]
    assert kinds[-5:-2] == ["tool_started", "tool_started", "message"], "the intent stands before the result"


@pytest.mark.parametrize(
    ("owner", "sender", "chat_id"),
    [
        ((), "1", "1"),
        (OWNER, "2", "2"),
        (OWNER, "2", "1"),
        (OWNER, "1", "group"),
        (("telegram:1",), "1", "1"),
        (("memory:10",), "1", "1"),
    ],
)
async def test_for_nobody_else_there_is_no_such_tool(
    server: ModelServer, tmp_path: Path, workspace: Path, owner: tuple[str, ...], sender: str, chat_id: str
) -> None:
    rig = GatewayRig(tmp_path, server.base_url, owner=owner)
    server.reply_calls(("exec", {"command": "echo ran >> marker"}))
    server.reply_text("sorry")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("run it", sender=sender, chat_id=chat_id)
            assert [part.text for part in await channel.wait_sent()] == ["sorry"]
    assert "exec" not in offered(server.requests[0])
    assert "there is no tool 'exec'" in server.requests[1].json["messages"][-1]["content"]
    assert not (workspace / "marker").exists()


async def test_at_the_terminal_everybody_is_the_owner(server: ModelServer, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    nanobee = Nanobee(home)
    nanobee.configure(provider(server))
    server.reply_calls(("exec", {"command": "echo $((6*7)); env"}))
    server.reply_text("done")
    ended = await nanobee.run("cli", "-m", "run it")
    assert (ended.code, ended.out) == (0, "done\n")
    result = server.requests[1].json["messages"][-1]["content"]
    assert result.startswith("42\n")
    assert "canary" not in result


@pytest.mark.parametrize(
    ("channel", "chat_id", "sender", "is_own"),
    [
        ("term", "main", "local", True),
        ("telegram", "12345", "12345", True),
        ("telegram", "-100", "12345", False),
        ("telegram", "12345", "6", False),
        ("telegram", "6", "6", False),
        ("other", "12345", "12345", False),
        ("terminal", "main", "local", False),
    ],
)
def test_a_message_is_the_owners_own_by_exact_ids(channel: str, chat_id: str, sender: str, is_own: bool) -> None:
    ownership = Ownership(frozenset({"telegram:12345"}), frozenset({"term"}))
    message = InboundMessage(Address(channel, chat_id, "9"), sender, "hi", datetime.now(UTC))
    assert ownership.owns(message) is is_own
    assert not Ownership().owns(message)


# Stopping (O-37)


async def test_o37_stop_ends_a_command_with_its_children_and_says_so_once(
    rig: GatewayRig, server: ModelServer, workspace: Path
) -> None:
    server.reply_calls(("exec", {"command": SLEEP}))
    server.reply_text("hello again")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("run it")
            await wait_begun(workspace)
            await channel.say("/stop", chat_id="2")
            assert [part.text for part in await channel.wait_sent(chat_id="2")] == ["Nothing was running."]
            await channel.say("/stop")
            await channel.wait_sent(chat_id="1")
            (group,) = recorded_groups(rig.settings.state, "memory:1")
            assert await is_gone(group)
            await channel.say("hello")
            texts = [part.text for part in await channel.wait_sent(2, chat_id="1")]
            assert texts == ["Stopped.", "hello again"]
    assert len(server.requests) == 2
    assert not (workspace / "late").exists()


async def test_o37_a_command_that_another_chat_runs_is_not_stopped(
    rig: GatewayRig, server: ModelServer, workspace: Path
) -> None:
    server.reply_calls(("exec", {"command": "echo x > begun; cat begun; echo through"}))
    server.reply_text("done")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("run it")
            await wait_begun(workspace)
            await channel.say("/stop", chat_id="2")
            await channel.wait_sent(chat_id="2")
            await anyio.to_thread.run_sync((workspace / "begun").write_text, "go on\n", abandon_on_cancel=True)
            assert [part.text for part in await channel.wait_sent(chat_id="1")] == ["done"]
    assert server.requests[1].json["messages"][-1]["content"] == "go on\nthrough\n[exit code 0]"


async def test_o37_what_comes_after_a_stop_shows_a_legal_history(
    rig: GatewayRig, server: ModelServer, workspace: Path
) -> None:
    server.reply_calls(("exec", {"command": SLEEP}), ("exec", {"command": "touch second"}))
    server.reply_text("hello again")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("run both")
            await wait_begun(workspace)
            await channel.say("/stop")
            await channel.wait_sent()
            await channel.say("what happened?")
            await channel.wait_sent(2)
    assert not (workspace / "second").exists()
    assert server.violations == []


async def test_a_stop_of_the_gateway_ends_a_command_and_the_next_start_tells_of_it(
    rig: GatewayRig, server: ModelServer, workspace: Path
) -> None:
    server.reply_calls(("exec", {"command": SLEEP}))
    server.reply_text("I do not know whether it ran.")
    memory = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory) as (_, channel):
            await channel.say("run it")
            await wait_begun(workspace)
        (group,) = recorded_groups(rig.settings.state, "memory:1")
        assert not group.is_alive
        async with rig.open(memory) as (_, channel):
            assert [part.text for part in await channel.wait_sent()] == ["I do not know whether it ran."]
    assert server.requests[1].json["messages"][-1]["content"] == UNKNOWN_OUTCOME
    assert (workspace / "marker").read_text() == "ran\n"
    assert not (workspace / "late").exists()


async def test_a_turn_that_was_taken_away_does_not_begin_a_command(
    rig: GatewayRig, server: ModelServer, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the intent and its process group, /stop may come first."""
    server.reply_calls(("exec", {"command": "echo ran >> marker"}))
    server.reply_text("hello again")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            record = gateway.bus.record

            async def record_late(ref: Any, lines: Any, *more: Any, **others: Any) -> Any:
                if any("process" in line.data for line in lines):
                    await channel.say("/stop")
                    await channel.wait_sent()
                return await record(ref, lines, *more, **others)

            monkeypatch.setattr(gateway.bus, "record", record_late)
            await channel.say("run it")
            await channel.wait_sent()
            await channel.say("hello")
            await channel.wait_sent(2)
    assert not (workspace / "marker").exists()


# Killed while a tool runs (O-10)


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as running:
        yield running


@pytest.fixture
def nanobee(server: ModelServer, telegram: TelegramServer, tmp_path: Path, workspace: Path) -> Nanobee:
    home = tmp_path / "home"
    home.mkdir()
    made = Nanobee(home)
    made.configure(
        f"{provider(server)}"
        f"workspace: {workspace}\n"
        'owner: ["telegram:1001"]\n'
        f"channels: {{telegram: {{kind: telegram, token: '{TOKEN}', allow_from: ['1001'],"
        f" base_url: '{telegram.base_url}'}}}}\n"
    )
    return made


async def kill(process: Process) -> None:
    process.kill()
    await process.wait()


async def end(process: Process) -> None:
    process.terminate()
    assert await process.wait() == 0


def watchers(gateway: int) -> list[int]:
    """The processes that would end a gateway's commands when it dies."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                is_watcher = b"read -r never" in (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if parent == gateway and is_watcher:
                found.append(int(folder.name))
    return found


@pytest.mark.parametrize(
    "is_watched",
    [True, pytest.param(False, marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc"))],
)
async def test_o10_a_command_under_a_killed_gateway_is_ended_told_as_unknown_and_never_run_again(
    nanobee: Nanobee, server: ModelServer, telegram: TelegramServer, workspace: Path, is_watched: bool
) -> None:
    server.reply_calls(("exec", {"command": SLEEP, "timeout_seconds": 600}))
    answers = ["I do not know whether it ran.", "going on", "still going on"]
    for answer in answers:
        server.reply_text(answer)
    ann = telegram.private(1001)
    ann.says("run it")
    with anyio.fail_after(GATEWAY_SECONDS):
        gateway = await nanobee.start("gateway")
        await wait_begun(workspace)
        if not is_watched:
            (watcher,) = watchers(gateway.pid)
            os.kill(watcher, signal.SIGKILL)
        await kill(gateway)
        (group,) = recorded_groups(nanobee.state, "telegram:1001") or recorded_in_journal(nanobee.state)
        assert await is_gone(group) if is_watched else group.is_alive
        gateway = await nanobee.start("gateway")
        await telegram.wait_texts(*answers[:1])
        assert not group.is_alive
        ann.says("go on")
        await telegram.wait_texts(*answers[:2])
        await end(gateway)
        gateway = await nanobee.start("gateway")
        ann.says("and now?")
        await telegram.wait_texts(*answers)
        await end(gateway)
    for request in server.requests[1:]:
        call = next(message for message in request.json["messages"] if message.get("tool_calls"))
        result = next(message for message in request.json["messages"] if message["role"] == "tool")
        assert SLEEP in call["tool_calls"][0]["function"]["arguments"].replace('\\"', '"')
        assert result["content"] == UNKNOWN_OUTCOME
    assert len(server.requests) == 4
    assert server.violations == []
    assert (workspace / "marker").read_text() == "ran\n"
    assert not (workspace / "late").exists()


async def test_o36_a_second_sigterm_ends_the_gateway_and_its_commands_at_once(
    nanobee: Nanobee, server: ModelServer, telegram: TelegramServer, workspace: Path
) -> None:
    server.reply_calls(("exec", {"command": SLEEP, "timeout_seconds": 600}))
    telegram.private(1001).says("run it")
    with anyio.fail_after(GATEWAY_SECONDS):
        gateway = await nanobee.start("gateway")
        await wait_begun(workspace)
        gateway.terminate()
        with anyio.move_on_after(0.5):
            await gateway.wait()
        assert gateway.returncode is None, "it lets the turn end"
        gateway.terminate()
        assert await gateway.wait() == 128 + signal.SIGTERM
        (group,) = recorded_groups(nanobee.state, "telegram:1001") or recorded_in_journal(nanobee.state)
        assert await is_gone(group)
    assert not (workspace / "late").exists()


def recorded_in_journal(state: Path) -> list[ProcessGroup]:
    """As `recorded_groups`, where the gateway died before its session file was written."""
    import json
    import sqlite3

    db = sqlite3.connect(state / "bus.db")
    lines = [json.loads(line) for (line,) in db.execute("select line from journal")]
    db.close()
    groups = (ProcessGroup.from_json(line.get("process"), str(line.get("call"))) for line in lines)
    return [group for group in groups if group is not None]
