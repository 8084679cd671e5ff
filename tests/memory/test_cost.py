"""What memory costs a turn: nothing that grows with what is remembered."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from nanobee.bus.lines import Line, NewLine
from nanobee.config_memory import MemorySettings
from nanobee.memory import archive
from nanobee.memory.scope import OWNER_SCOPE
from nanobee.memory.search import Query
from nanobee.sessions.files import SessionFiles
from nanobee.sessions.forward import read_forward
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_server import ModelServer
from tests.memory.conftest import LIMIT_SECONDS, LONG, is_chat, is_memory_call, memory_file, read, say, settle
from tests.memory.test_consolidation import ranges

AT = datetime(2026, 10, 1, tzinfo=UTC)


async def test_o12_pictures_and_long_outputs_are_a_line_in_what_goes_into_memory(
    rig: GatewayRig, server: ModelServer
) -> None:
    picture = "data:image/png;base64," + "iVBORw0KGgo" * 5000
    rig.settings.workspace.mkdir()
    (rig.settings.workspace / "long.txt").write_text("line of output\n" * 400, encoding="utf-8")
    server.reply_calls(("read_file", {"path": "long.txt"}), when=is_chat)
    server.reply_text("Seen.", when=is_chat)
    server.reply_calls(("save_memory", {"history_entry": "They looked at a picture."}), when=is_memory_call)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            await say(channel, f"{LONG} ![x]({picture}) and more")
            await settle(gateway, channel)
    [request] = [request for request in server.requests if is_memory_call(request.json)]
    text = request.messages[-1]["content"]
    assert "[image/png, left out]" in text
    assert "iVBORw0KGgo" not in text
    assert "tool read_file, untrusted: (" in text
    assert "line of output" not in text
    assert len(text) < 4_000


def write_session(files: SessionFiles, key: str, count: int) -> None:
    """A long session that is in memory up to its last lines."""
    rows = []
    for number in range(count):
        role = "assistant" if number % 2 else "user"
        line = Line(
            number + 1, AT, f"t{number // 2}", "message", {"role": role, "content": f"message {number} " + "x" * 400}
        )
        rows.append((key, line.to_json()))
    rows.append((key, Line(count + 1, AT, None, "consolidated", {"through": count}).to_json()))
    files.append(rows)


async def test_o15_a_long_session_is_read_from_where_memory_ended(
    rig: GatewayRig, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_lines = 0
    original = read_forward

    def counting(path: Path, after: int) -> object:
        nonlocal read_lines
        for line in original(path, after):
            read_lines += 1
            yield line

    monkeypatch.setattr(archive, "read_forward", counting)
    files = SessionFiles(rig.settings.state)
    write_session(files, "memory:1", 20_000)
    server.reply_calls(("save_memory", {"history_entry": "They talked."}), when=is_memory_call, times=None)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            await say(channel, LONG)
            await settle(gateway, channel)
    assert ranges(read(memory_file(rig, "HISTORY.md"))) == [("memory:1", 20_001, 20_005)]
    assert read_lines < 50


async def test_a_backlog_that_was_never_remembered_goes_in_part_by_part_within_the_days_limit(
    rig: GatewayRig, server: ModelServer
) -> None:
    rig = replace(rig, memory=MemorySettings(consolidate_after_tokens=2_000, max_calls_per_day=5))
    files = SessionFiles(rig.settings.state)
    rows = [
        (
            "memory:1",
            Line(n + 1, AT, None, "message", {"role": "user", "content": f"message {n} " + "x" * 400}).to_json(),
        )
        for n in range(300)
    ]
    files.append(rows)
    server.reply_calls(("save_memory", {"history_entry": "They talked."}), when=is_memory_call, times=None)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            await say(channel, "hi")
            await settle(gateway, channel)
    found = ranges(read(memory_file(rig, "HISTORY.md")))
    assert len(found) == 5
    assert found[0][1] == 1
    assert all(before[2] + 1 == after[1] for before, after in itertools.pairwise(found))
    assert max(len(request.body) for request in server.requests if is_memory_call(request.json)) < 40_000


async def test_o36_a_stop_in_the_middle_of_a_memory_call_leaves_the_history_whole_and_the_next_start_goes_on(
    rig: GatewayRig, server: ModelServer
) -> None:
    slow = server.reply_hang(when=is_memory_call)
    server.reply_calls(("save_memory", {"history_entry": "They talked."}), when=is_memory_call, times=None)
    channel = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(channel) as (gateway, _):
            await say(channel, LONG)
            await slow.asked.wait()
            with anyio.fail_after(5):
                await gateway.wind_down(0)
        assert read(memory_file(rig, "HISTORY.md")) == ""
        async with rig.open(channel) as (gateway, _):
            await say(channel, "go on")
            await settle(gateway, channel)
    [(key, first, last)] = ranges(read(memory_file(rig, "HISTORY.md")))
    assert (key, first) == ("memory:1", 1)
    lines = list(SessionFiles(rig.settings.state).read_backwards("memory:1"))[::-1]
    assert [line.seq for line in lines] == list(range(1, len(lines) + 1))
    assert last < len(lines)


async def test_turns_go_on_while_a_long_history_is_being_indexed(rig: GatewayRig, server: ModelServer) -> None:
    memory_file(rig, "").mkdir(parents=True)
    rows = [
        f"[2026-09-01 10:00] some words of entry number{n} 北京烤鸭 [memory:1 seq {n}–{n}]\n\n" for n in range(60_000)
    ]
    memory_file(rig, "HISTORY.md").write_text("".join(rows), encoding="utf-8")
    longest = 0.0
    with anyio.fail_after(2 * LIMIT_SECONDS):
        async with rig.open() as (gateway, channel), anyio.create_task_group() as tasks:
            finder = gateway.agent.memory.finder
            tasks.start_soon(finder.build_changed)
            for number in range(10):
                began = anyio.current_time()
                await say(channel, f"short question {number}")
                longest = max(longest, anyio.current_time() - began)
            found = finder.find_now(OWNER_SCOPE, Query("烤鸭"))
            tasks.cancel_scope.cancel()
    assert longest < 1.0
    assert not found.is_complete, "it went on meanwhile"


async def test_a_record_that_no_conversation_made_is_remembered_like_what_was_said(
    rig: GatewayRig, server: ModelServer
) -> None:
    server.reply_calls(("save_memory", {"history_entry": "A reminder came."}), when=is_memory_call, times=None)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            await say(channel, "hi")
            await gateway.bus.append("memory:1", [NewLine("record", {"text": "ignored", "content": LONG * 2})])
            gateway.agent.around.sessions.forget("memory:1")
            await say(channel, "and now?")
            await settle(gateway, channel)
    [request] = [request for request in server.requests if is_memory_call(request.json)]
    assert "assistant: My sister Ann moves" in request.messages[-1]["content"]
