"""Failover, presets, long conversations and what a person sets in a chat, through a whole gateway."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from nanobee.agent.breaker import FIRST_PAUSE_SECONDS, MAX_FAILURES, Breaker
from nanobee.config import AgentSettings, ModelSettings, PluginSettings
from nanobee.messages import PartKind
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_server import ModelServer
from nanobee.testing.strict_history import StrictHistory
from tests.gateway.test_turns import LIMIT_SECONDS, last_user, session_lines


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(history=StrictHistory(alternate=True)) as running:
        yield running


@pytest.fixture
async def second() -> AsyncIterator[ModelServer]:
    async with ModelServer(history=StrictHistory(alternate=True)) as running:
        yield running


@pytest.fixture
def rig(server: ModelServer, second: ModelServer, tmp_path: Path) -> GatewayRig:
    """`main` answers; `spare` stands in for it; `fast` is a preset on `spare`."""
    return GatewayRig(
        tmp_path,
        server.base_url,
        AgentSettings(fallbacks=("spare/b",)),
        providers={"spare": PluginSettings.model_validate({"kind": "openai", "base_url": second.base_url})},
        models={"fast": ModelSettings(model="spare/quick", temperature=0.5, max_output_tokens=99)},
    )


def texts(channel: MemoryChannel) -> list[str]:
    return [part.text for part in channel.sent]


async def test_o08_e_a_second_provider_answers_while_the_first_is_limited_and_the_session_says_which(
    rig: GatewayRig, server: ModelServer, second: ModelServer
) -> None:
    server.reply_status(429, {"error": {"message": "slow down"}}, headers={"Retry-After": "3600"}, times=None)
    second.reply_text("from the spare")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("hi")
            await channel.wait_sent()
            assert texts(channel) == ["from the spare"]
    assert len(server.requests) == 1
    assert [line["model"] for line in session_lines(rig) if line.get("role") == "assistant"] == ["spare/b"]


async def test_o08_a_wait_that_the_server_asks_for_is_kept_and_then_it_answers(
    rig: GatewayRig, server: ModelServer, second: ModelServer
) -> None:
    server.reply_status(429, {"error": {"message": "slow down"}}, headers={"Retry-After": "1"})
    server.reply_text("after the wait")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("hi")
            await channel.wait_sent()
            assert texts(channel) == ["after the wait"]
    assert second.requests == []


async def test_o08_c_a_wrong_key_is_asked_once_and_told_where_nothing_stands_in(
    rig: GatewayRig, server: ModelServer
) -> None:
    server.reply_status(401, {"error": {"message": "no such key"}}, times=None)
    with anyio.fail_after(LIMIT_SECONDS):
        async with replace(rig, agent=AgentSettings()).open() as (_, channel):
            await channel.say("hi")
            [part] = await channel.wait_sent()
            assert part.kind is PartKind.NOTICE
    assert len(server.requests) == 1


async def test_o08_d_a_server_that_recovers_answers(rig: GatewayRig, server: ModelServer) -> None:
    server.reply_status(503, {"error": {"message": "overloaded"}}, times=2)
    server.reply_text("recovered")
    with anyio.fail_after(LIMIT_SECONDS):
        async with replace(rig, agent=AgentSettings()).open() as (_, channel):
            await channel.say("hi")
            await channel.wait_sent()
            assert texts(channel) == ["recovered"]


async def test_o08_f_after_text_was_shown_nobody_begins_again(
    rig: GatewayRig, server: ModelServer, second: ModelServer
) -> None:
    server.reply_cut([b'data: {"choices":[{"delta":{"content":"the beginning"}}]}\n\n'])
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("hi")
            [part] = await channel.wait_sent()
            assert part.kind is PartKind.NOTICE
    assert second.requests == []
    assert len(server.requests) == 1


async def test_an_answer_that_the_content_filter_withheld_is_told_at_once(
    rig: GatewayRig, server: ModelServer, second: ModelServer
) -> None:
    server.reply_text("", finish="content_filter")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("hi")
            [part] = await channel.wait_sent()
            assert part.kind is PartKind.NOTICE
            assert "filter" in part.text
    assert len(server.requests) == 1
    assert second.requests == []


async def test_a_request_that_is_refused_is_not_passed_on(
    rig: GatewayRig, server: ModelServer, second: ModelServer
) -> None:
    server.reply_status(400, {"error": {"message": "bad request"}})
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("hi")
            [part] = await channel.wait_sent()
            assert part.kind is PartKind.NOTICE
    assert second.requests == []


async def test_a_provider_that_keeps_failing_is_left_alone_for_a_while(
    rig: GatewayRig, server: ModelServer, second: ModelServer
) -> None:
    server.reply_status(401, {"error": {"message": "no such key"}}, times=None)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            for number in range(MAX_FAILURES + 2):
                await channel.say(str(number))
                await channel.wait_sent(number + 1)
    assert len(server.requests) == MAX_FAILURES
    assert len(second.requests) == MAX_FAILURES + 2


def test_a_breaker_opens_longer_each_time_and_closes_with_a_success() -> None:
    now = 0.0
    breaker = Breaker(lambda: now)
    for _ in range(MAX_FAILURES - 1):
        breaker.note_failure("a")
    assert breaker.is_closed("a")
    breaker.note_failure("a")
    assert not breaker.is_closed("a")
    assert breaker.is_closed("b")
    now = FIRST_PAUSE_SECONDS
    assert breaker.is_closed("a")
    breaker.note_failure("a")
    now += FIRST_PAUSE_SECONDS
    assert not breaker.is_closed("a")
    now += FIRST_PAUSE_SECONDS
    assert breaker.is_closed("a")
    breaker.note_success("a")
    breaker.note_failure("a")
    assert breaker.is_closed("a")


async def test_a_chat_s_model_is_its_own_and_holds_after_a_restart(
    rig: GatewayRig, server: ModelServer, second: ModelServer
) -> None:
    memory = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory) as (_, channel):
            await channel.say("/model fast")
            assert (await channel.wait_sent())[0].text == "fast answers here from now on."
        async with rig.open(memory) as (_, channel):
            await channel.say("hi")
            await channel.wait_sent(2)
            await channel.say("hi", chat_id="2")
            await channel.wait_sent(1, chat_id="2")
            await channel.say("/model")
            assert (await channel.wait_sent(4))[-1].text.startswith("Model: fast\n")
    [request] = second.requests
    assert (request.json["model"], request.json["temperature"], request.json["max_tokens"]) == ("quick", 0.5, 99)
    assert len(server.requests) == 1


async def test_a_model_that_does_not_exist_is_refused_and_changes_nothing(rig: GatewayRig, server: ModelServer) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("/model nowhere/x")
            assert (await channel.wait_sent())[0].text.startswith("There is no such model")
            await channel.say("hi")
            await channel.wait_sent(2)
    assert len(server.requests) == 1


async def test_the_busy_mode_of_a_chat_holds_after_a_restart(rig: GatewayRig, server: ModelServer) -> None:
    hold = anyio.Event()
    memory = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory) as (_, channel):
            await channel.say("/busy collect")
            assert "collect" in (await channel.wait_sent())[0].text
        server.reply_text("first", hold=hold)
        server.reply_text("both")
        async with rig.open(memory) as (_, channel):
            await channel.say("one")
            await server.wait_requests(1)
            await channel.say("two")
            await channel.say("three")
            hold.set()
            await channel.wait_sent(3)
            assert texts(channel)[1:] == ["first", "both"]


async def test_reasoning_is_shown_only_where_it_was_asked_for(rig: GatewayRig, server: ModelServer) -> None:
    for _ in range(2):
        server.reply_text("42", reasoning="six times\nseven")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("what is it?")
            await channel.wait_sent(1)
            await channel.say("/reasoning on")
            await channel.say("what is it?")
            await channel.wait_sent(3)
    assert texts(channel)[0] == "42"
    assert texts(channel)[2] == "> six times\n> seven\n\n42"
    assert [line["content"] for line in session_lines(rig) if line.get("role") == "assistant"] == ["42", "42"]


async def test_undo_takes_the_last_message_and_its_answer_out_of_the_context_also_after_a_restart(
    rig: GatewayRig, server: ModelServer
) -> None:
    memory = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory) as (_, channel):
            for number, text in enumerate(("keep", "mistake", "/undo"), 1):
                await channel.say(text)
                await channel.wait_sent(number)
            assert "mistake" in texts(channel)[-1]
        async with rig.open(memory) as (_, channel):
            await channel.say("next")
            await channel.wait_sent(4)
    heard = str(server.requests[-1].json["messages"][1:])
    assert "keep" in heard
    assert "mistake" not in heard


async def test_retry_answers_the_last_message_again_in_place_of_its_old_answer(
    rig: GatewayRig, server: ModelServer
) -> None:
    server.reply_text("bad answer")
    server.reply_text("better answer")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("question")
            await channel.wait_sent(1)
            await channel.say("/retry")
            assert (await channel.wait_sent(2))[1].reply_to == "1"
            assert texts(channel) == ["bad answer", "better answer"]
            await channel.say("/undo")
            await channel.say("/undo")
            assert (await channel.wait_sent(4))[-1].text == "There is nothing to undo."
    assert "bad answer" not in str(server.requests[-1].json)
    assert last_user(server.requests[-1].json).endswith("question")


def summary_call(body: Any) -> bool:
    return any(tool["function"]["name"] == "conversation_summary" for tool in body.get("tools", []))


async def test_a_long_conversation_is_summarized_in_the_background_and_goes_on_within_the_window(
    server: ModelServer, tmp_path: Path
) -> None:
    rig = GatewayRig(tmp_path, server.base_url, AgentSettings(context_tokens=8_000))
    server.reply_calls(("conversation_summary", {"summary": "They talked about bees."}), when=summary_call, times=None)
    memory = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory) as (_, channel):
            for number in range(30):
                await channel.say(f"q{number} " + "x" * 1500)
                await channel.wait_sent(number + 1)
        async with rig.open(memory) as (_, channel):
            await channel.say("newest")
            await channel.wait_sent(31)
    [*_, request] = [each.json["messages"] for each in server.requests if not summary_call(each.json)]
    assert "They talked about bees." in request[1]["content"]
    assert request[-1]["content"].endswith("newest")
    assert max(len(each.body) for each in server.requests) < 8_000 * 5
    assert [line for line in session_lines(rig) if line["kind"] == "compacted"]
    assert sum(1 for line in session_lines(rig) if line.get("role") == "user") == 31


async def test_a_summary_that_fails_costs_no_turn(server: ModelServer, tmp_path: Path) -> None:
    rig = GatewayRig(tmp_path, server.base_url, AgentSettings(context_tokens=8_000))
    server.reply_status(400, {"error": {"message": "no"}}, when=summary_call, times=None)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            for number in range(20):
                await channel.say(f"q{number} " + "x" * 1500)
                await channel.wait_sent(number + 1)
            assert {part.kind for part in channel.sent} == {PartKind.ANSWER}


async def test_a_request_that_the_server_finds_too_long_is_sent_once_more_with_less_history(
    rig: GatewayRig, server: ModelServer
) -> None:
    too_long = {"error": {"message": "too long", "code": "context_length_exceeded"}}
    with anyio.fail_after(LIMIT_SECONDS):
        async with replace(rig, agent=AgentSettings(context_tokens=8_000)).open() as (_, channel):
            for number in range(8):
                await channel.say(f"q{number} " + "x" * 400)
                await channel.wait_sent(number + 1)
            before = len(server.requests)
            server.reply_status(400, too_long)
            await channel.say("one more")
            assert (await channel.wait_sent(9))[-1].kind is PartKind.ANSWER
            shorter, longer = server.requests[-1], server.requests[before]
            assert len(shorter.body) < len(longer.body)
            server.reply_status(400, too_long, times=2)
            await channel.say("and one")
            notice = (await channel.wait_sent(10))[-1]
            assert notice.kind is PartKind.NOTICE
            assert "/new" in notice.text


async def test_old_tool_results_go_first_and_can_be_read_again(server: ModelServer, tmp_path: Path) -> None:
    rig = GatewayRig(tmp_path, server.base_url, AgentSettings(context_tokens=12_000))
    (tmp_path / "workspace").mkdir()
    text = "\n".join(f"line {number} of the big file" for number in range(300))
    (tmp_path / "workspace" / "big.txt").write_text(text)
    server.reply_status(400, {"error": {"message": "no"}}, when=summary_call, times=None)
    server.reply_calls(("read_file", {"path": "big.txt"}))
    server.reply_text("read it")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("read big.txt")
            await channel.wait_sent()
            left_out = {"content": ""}
            number = 1
            while "read_result" not in left_out["content"]:
                number += 1
                await channel.say(f"q{number} " + "x" * 1200)
                await channel.wait_sent(number)
                turn = next(each for each in reversed(server.requests) if not summary_call(each.json))
                [left_out] = [m for m in turn.json["messages"] if m["role"] == "tool"]
            server.reply_calls(("read_result", {"call_id": left_out["tool_call_id"]}), when=not_summary)
            server.reply_text("read again", when=not_summary)
            await channel.say("what was in it?")
            assert (await channel.wait_sent(number + 1))[-1].text == "read again"
    [result] = [line for line in session_lines(rig) if line.get("name") == "read_result"]
    assert "line 7 of the big file" in result["content"]


def not_summary(body: Any) -> bool:
    return not summary_call(body)
