"""Field bugs of histories and windows, through a whole gateway and a strict model server."""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from nanobee.bus.lines import Line
from nanobee.config import AgentSettings
from nanobee.messages import PartKind
from nanobee.sessions.files import SessionFiles
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.model_server import ModelServer
from nanobee.testing.strict_history import StrictHistory
from tests.gateway.test_turns import LIMIT_SECONDS, last_user, session_lines

Entry = dict[str, object]


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(history=StrictHistory(alternate=True)) as running:
        yield running


def user(text: str) -> Entry:
    return {"role": "user", "content": text}


def assistant(text: str, *ids: str) -> Entry:
    calls = [{"id": each, "name": "list_dir", "arguments": "{}"} for each in ids]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def tool(call_id: str) -> Entry:
    return {"role": "tool", "content": "result " * 20, "tool_call_id": call_id}


def sixty_turns() -> list[Entry]:
    entries: list[Entry] = []
    for turn in range(60):
        ids = [f"t{turn}c{call}" for call in range(3)]
        entries += [user(f"question {turn}"), assistant("", *ids), *map(tool, ids), assistant("answer")]
    return entries


def one_turn_of_150_calls() -> list[Entry]:
    steps = [entry for call in range(150) for entry in (assistant("", f"c{call}"), tool(f"c{call}"))]
    return [user("the long work"), *steps, assistant("done")]


HISTORIES: dict[str, list[Entry]] = {
    "a_sixty_turns_of_three_calls": sixty_turns(),
    "b_one_turn_of_150_calls": one_turn_of_150_calls(),
    "c_a_result_without_its_call_at_the_end": [user("1"), assistant("", "A"), tool("A"), user("2"), tool("B")],
    "d_the_same_with_a_user_message_last": [user("1"), assistant("", "A"), tool("A"), user("2"), tool("B"), user("3")],
}


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("window", [1_000, 8_000, 64_000])
async def test_o09_a_cut_history_is_legal_has_the_newest_message_and_leaves_the_file_as_it_is(
    history: str, window: int, server: ModelServer, tmp_path: Path
) -> None:
    rig = GatewayRig(tmp_path, server.base_url, AgentSettings(context_tokens=window))
    lines = [
        Line(seq, datetime.now(UTC), "old", "message", entry).to_json()
        for seq, entry in enumerate(HISTORIES[history], 1)
    ]
    path = SessionFiles(rig.settings.state).path("memory:1")
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    before = path.read_bytes()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("the newest message")
            [part] = await channel.wait_sent()
            assert part.kind is PartKind.ANSWER
    turn = next(each for each in server.requests if "the newest message" in last_user(each.json))
    assert last_user(turn.json).endswith("the newest message")
    assert path.read_bytes().startswith(before)


async def test_o19_b_a_prompt_that_is_too_long_whatever_is_left_out_ends_in_one_notice(
    server: ModelServer, tmp_path: Path
) -> None:
    rig = GatewayRig(tmp_path, server.base_url)
    too_long = {"error": {"message": "too long", "code": "context_length_exceeded"}}
    server.reply_status(400, too_long, times=None)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("hi")
            await channel.wait_sent(1)
            await channel.say("/status")
            await channel.wait_sent(2)
    notices = [part.text for part in channel.sent if "/new" in part.text]
    assert len(notices) == 1
    assert len(server.requests) <= 3


async def test_o42_a_turn_that_goes_on_calling_tools_is_bounded_and_told(server: ModelServer, tmp_path: Path) -> None:
    rig = GatewayRig(tmp_path, server.base_url, AgentSettings(max_steps=40))
    server.reply_calls(("write_file", {"path": "job.txt", "content": "again"}), times=None)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("add jobs")
            [notice] = await channel.wait_sent()
            assert notice.kind is PartKind.NOTICE
            assert "40" in notice.text
    assert len([line for line in session_lines(rig) if line.get("role") == "assistant"]) == 40


def has_number(body: Mapping[str, Any]) -> bool:
    return "number" in last_user(body)


async def test_r12_a_number_in_an_error_text_does_not_make_it_worth_a_retry(
    server: ModelServer, tmp_path: Path
) -> None:
    rig = GatewayRig(tmp_path, server.base_url)
    refused = {"error": {"message": "maximum is 15000 tokens, 500 left", "code": "invalid_request"}}
    server.reply_status(400, refused, when=has_number, times=None)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("the number")
            [part] = await channel.wait_sent()
            assert part.kind is PartKind.NOTICE
    assert len(server.requests) == 1
