"""Whole turns: a memory channel on one side, a strict model server on the other, a real bus between."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from nanobee.config import AgentSettings
from nanobee.errors import NotSentError, RefusedError, UnknownOutcomeError
from nanobee.messages import PartKind
from nanobee.sessions.files import SessionFiles
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel, MemorySettings
from nanobee.testing.model_server import ModelServer
from nanobee.testing.strict_history import StrictHistory

LIMIT_SECONDS = 10


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(history=StrictHistory(alternate=True)) as running:
        yield running


@pytest.fixture
def rig(server: ModelServer, tmp_path: Path) -> GatewayRig:
    return GatewayRig(tmp_path, server.base_url)


def last_user(body: Mapping[str, Any]) -> str:
    return str([message["content"] for message in body["messages"] if message["role"] == "user"][-1])


def session_lines(rig: GatewayRig, key: str = "memory:1") -> list[dict[str, Any]]:
    return [{"kind": line.kind, **line.data} for line in SessionFiles(rig.settings.state).read_backwards(key)][::-1]


async def test_a_message_is_answered_as_a_reply_to_it(rig: GatewayRig, server: ModelServer) -> None:
    server.reply_text("hello Ann")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("hi")
            [part] = await channel.wait_sent()
            assert (part.text, part.kind, part.reply_to, part.attempt) == ("hello Ann", PartKind.ANSWER, "1", 1)


async def test_the_answer_grows_in_the_chat_and_its_final_text_comes_once(rig: GatewayRig, server: ModelServer) -> None:
    hold = anyio.Event()
    server.reply_bytes(
        [
            b'data: {"choices":[{"delta":{"content":"one "}}]}\n\n',
            hold,
            b'data: {"choices":[{"delta":{"content":"two"},"finish_reason":"stop"}]}\n\n',
        ]
    )
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("hi")
            frames = await channel.wait_frames(1)
            assert frames[-1].text == "one "
            hold.set()
            assert [part.text for part in await channel.wait_sent()] == ["one two"]


async def test_a_turn_with_tools_leaves_a_legal_session_and_a_restart_carries_it_on(
    rig: GatewayRig, server: ModelServer
) -> None:
    (rig.root / "workspace").mkdir()
    (rig.root / "workspace" / "a.txt").write_text("alpha\n")
    (rig.root / "workspace" / "b.txt").write_text("beta\n")
    server.reply_calls(("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"}), text="Let me look.")
    server.reply_calls(("edit_file", {"path": "a.txt", "old_text": "alpha", "new_text": "gamma"}))
    server.reply_text("Changed.")
    server.reply_text("I changed a.txt.")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("replace alpha by gamma")
            assert [part.text for part in await channel.wait_sent()] == ["Changed."]
        assert (rig.root / "workspace" / "a.txt").read_text() == "gamma\n"
        async with rig.open(channel) as (_, channel):
            await channel.say("what did you do?")
            assert [part.text for part in await channel.wait_sent(2)][1:] == ["I changed a.txt."]
    roles = [message["role"] for message in server.requests[-1].json["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "tool", "assistant", "user"]
    results = [message["content"] for message in server.requests[-1].json["messages"] if message["role"] == "tool"]
    assert "alpha" in results[0]
    assert "beta" in results[1]
    kinds = [line["kind"] for line in session_lines(rig)]
    assert kinds.index("tool_started") == 6, "the intent of an effect stands before its result"


async def test_r11_call_ids_that_a_server_uses_again_stay_apart_in_history(
    rig: GatewayRig, server: ModelServer
) -> None:
    for _ in range(2):
        server.reply_calls(("list_dir", {}), ("list_dir", {"path": "memory"}), call_ids=["same", "same"])
        server.reply_text("ok")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            for text in ("one", "two"):
                await channel.say(text)
                await channel.wait_sent(1 if text == "one" else 2)
    ids = [line["tool_call_id"] for line in session_lines(rig) if line.get("role") == "tool"]
    assert len(set(ids)) == 4


async def test_twenty_messages_of_five_chats_are_answered_once_each_in_order(
    rig: GatewayRig, server: ModelServer
) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            for number in range(4):
                for chat in range(5):
                    channel.post(f"m{number}", chat_id=str(chat))
            await channel.wait_sent(20)
            for chat in range(5):
                texts = [part.text[-2:] for part in channel.sent_to(str(chat))]
                assert texts == ["m0", "m1", "m2", "m3"]


@pytest.mark.parametrize("content", ["", "   ", None])
async def test_o01_an_empty_answer_is_told_and_poisons_nothing(
    content: str | None, rig: GatewayRig, server: ModelServer
) -> None:
    body = {"choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}]}
    server.reply_status(200, body, times=3)
    server.reply_status(400, {"error": {"message": "POISON", "code": "bad"}})
    server.reply_text("fine")
    await three_turns(rig, server)


async def test_o01_c_reasoning_without_an_answer_is_not_shown_as_one(rig: GatewayRig, server: ModelServer) -> None:
    for _ in range(3):
        server.reply_text("", reasoning="SECRET THOUGHT")
    server.reply_status(400, {"error": {"message": "POISON", "code": "bad"}})
    server.reply_text("fine")
    await three_turns(rig, server)


async def three_turns(rig: GatewayRig, server: ModelServer) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            for number, text in enumerate(("one", "two", "three"), 1):
                await channel.say(text)
                await channel.wait_sent(number)
            kinds = [part.kind for part in channel.sent]
            assert kinds == [PartKind.NOTICE, PartKind.NOTICE, PartKind.ANSWER]
            assert channel.sent[-1].text == "fine"
            assert "SECRET" not in str(channel.sent)
            assert "SECRET" not in str([frame.text for frame in channel.frames])
    assert "POISON" not in str(server.requests[-1].json)
    assert all(word in last_user(server.requests[-1].json) for word in ("one", "two", "three"))


CHUNK = 'data: {"choices":[{"index":0,"delta":{"tool_calls":[%s]}}]}\n\n'


def deltas(*calls: str) -> list[bytes]:
    return [
        *((CHUNK % call).encode() for call in calls),
        b'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\n',
    ]


def split_call(index: int, call_id: str | None, path: str, later_id: str | None) -> list[str]:
    import json

    first = {"index": index, "id": call_id, "function": {"name": "read_file", "arguments": ""}}
    text = json.dumps({"path": path})
    rest = [{"index": index, "id": later_id, "function": {"arguments": letter}} for letter in text]
    return [json.dumps(each) for each in [first, *rest]]


def interleave(one: list[str], two: list[str]) -> list[str]:
    return [each for pair in zip(one, two, strict=True) for each in pair]


STREAMS = {
    "a_index_0_for_both": [*split_call(0, "x", "a.txt", "x"), *split_call(0, "y", "b.txt", "y")],
    "b_no_ids": [*split_call(0, None, "a.txt", None), *split_call(1, None, "b.txt", None)],
    "c_empty_id_later": [*split_call(0, "x", "a.txt", ""), *split_call(1, "y", "b.txt", "")],
    "e_interleaved": interleave(split_call(0, "x", "a.txt", None), split_call(1, "y", "b.txt", None)),
}


@pytest.mark.parametrize("stream", STREAMS)
async def test_o02_two_parallel_calls_run_twice_with_their_own_arguments(
    stream: str, rig: GatewayRig, server: ModelServer
) -> None:
    workspace = rig.root / "workspace"
    workspace.mkdir()
    (workspace / "a.txt").write_text("alpha")
    (workspace / "b.txt").write_text("beta")
    server.reply_bytes(deltas(*STREAMS[stream]))
    server.reply_text("read")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("read both")
            await channel.wait_sent()
    results = [line["content"] for line in session_lines(rig) if line.get("role") == "tool"]
    assert len(results) == 2
    assert "alpha" in results[0]
    assert "beta" in results[1]


async def test_o02_d_a_call_without_arguments_runs_with_an_empty_object(rig: GatewayRig, server: ModelServer) -> None:
    call = '{"index":0,"id":"x","function":{"name":"list_dir","arguments":""}}'
    server.reply_bytes(deltas(call))
    server.reply_text("listed")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("list")
            assert [part.text for part in await channel.wait_sent()] == ["listed"]
    [result] = [line for line in session_lines(rig) if line.get("role") == "tool"]
    assert "AGENTS.md" in result["content"]
    assert "is_error" not in result


async def test_o03_a_call_that_the_output_limit_cut_is_never_run_and_ends_in_a_notice(
    rig: GatewayRig, server: ModelServer
) -> None:
    server.reply_calls(("write_file", '{"path": "a.md", "content": "half of'), finish="length", times=20)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("write a long file")
            [notice] = await channel.wait_sent()
            assert notice.kind is PartKind.NOTICE
            assert not (rig.root / "workspace" / "a.md").exists()
            assert len(server.requests) < 5
            assert "limit" in str(server.requests[-1].json["messages"][-1]["content"])


async def test_arguments_that_are_no_json_go_back_to_the_model_and_are_not_run(
    rig: GatewayRig, server: ModelServer
) -> None:
    server.reply_calls(("write_file", '{"path": "a.md", content}'))
    server.reply_text("sorry")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("write")
            assert [part.text for part in await channel.wait_sent()] == ["sorry"]
    assert server.requests[-1].json["messages"][-1]["content"].startswith("Error")
    assert not (rig.root / "workspace" / "a.md").exists()


async def test_a_turn_that_never_ends_is_asked_once_more_without_tools_and_then_stopped(
    server: ModelServer, tmp_path: Path
) -> None:
    rig = GatewayRig(tmp_path, server.base_url, AgentSettings(max_steps=3))
    server.reply_calls(("list_dir", {}), times=None)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("loop")
            [notice] = await channel.wait_sent()
            assert notice.kind is PartKind.NOTICE
            assert len(server.requests) == 3
            assert server.requests[-1].json["tool_choice"] == "none"


async def test_o34_a_chat_whose_model_hangs_delays_no_other_and_keeps_its_order(
    rig: GatewayRig, server: ModelServer
) -> None:
    hold = anyio.Event()
    server.reply_text("slow", when=lambda body: "wait" in last_user(body), hold=hold)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("wait", chat_id="A")
            await server.wait_requests(1)
            for chat in ("B", "C", "D"):
                await channel.say("hi", chat_id=chat)
            await channel.say("second", chat_id="A")
            await channel.say("third", chat_id="A")
            await channel.wait_sent(3)
            assert {part.address.chat_id for part in channel.sent} == {"B", "C", "D"}
            hold.set()
            texts = [part.text for part in await channel.wait_sent(3, chat_id="A")]
            assert [text.split()[-1] for text in texts] == ["slow", "second", "third"]


async def test_o34_model_calls_at_once_are_bounded(rig: GatewayRig, server: ModelServer) -> None:
    hold = anyio.Event()
    server.reply_text("ok", times=None, hold=hold)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            for chat in range(80):
                channel.post("hi", chat_id=str(chat))
            await channel.wait_receipts(80)
            await server.wait_requests(64)
            assert await channel.say("/help", chat_id="79") == "stored"
            await channel.wait_sent(1, chat_id="79")
            assert len(server.requests) == 64
            hold.set()
            await channel.wait_sent(81)


async def test_a_send_that_hangs_delays_its_own_chat_only(rig: GatewayRig, server: ModelServer) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            channel.block("A")
            await channel.say("one", chat_id="A")
            await channel.wait_attempts(1, chat_id="A")
            await channel.say("two", chat_id="B")
            await channel.wait_sent(1, chat_id="B")
            channel.unblock("A")
            await channel.wait_sent(1, chat_id="A")


async def test_a_send_that_surely_failed_is_tried_again_and_stands_once(rig: GatewayRig, server: ModelServer) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            channel.fail("1", NotSentError("no network"))
            await channel.say("hi")
            [part] = await channel.wait_sent()
            assert part.attempt == 2


async def test_a_refused_send_is_not_tried_again_and_the_next_message_works(
    rig: GatewayRig, server: ModelServer
) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            channel.fail("1", RefusedError("blocked by the user"))
            await channel.say("one")
            await channel.wait_attempts(1)
            await channel.say("two")
            [part] = await channel.wait_sent()
            assert part.text.endswith("two")
            assert len(channel.attempts) == 2


async def test_a_send_without_word_is_tried_once_more_with_the_same_key(rig: GatewayRig, server: ModelServer) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            channel.fail("1", UnknownOutcomeError("cut"), is_delivered=True)
            await channel.say("one")
            first, second = await channel.wait_sent(2)
            assert first.idempotency_key == second.idempotency_key


async def test_stop_ends_the_turn_and_keeps_what_waits(rig: GatewayRig, server: ModelServer) -> None:
    server.reply_text("never", hold=anyio.Event())
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("one")
            await server.wait_requests(1)
            await channel.say("two")
            await channel.say("/stop")
            [notice] = await channel.wait_sent()
            assert notice.text.startswith("Stopped. 1 waiting")
            await channel.say("/resume")
            sent = await channel.wait_sent(3)
            assert sorted(part.text.split()[-1] for part in sent[1:]) == ["on.", "two"]
            assert "one" in last_user(server.requests[-1].json)


async def test_stop_with_nothing_running_says_so(rig: GatewayRig, server: ModelServer) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("/stop")
            assert [part.text for part in await channel.wait_sent()] == ["Nothing was running."]


async def test_another_chat_cannot_stop_it(rig: GatewayRig, server: ModelServer) -> None:
    hold = anyio.Event()
    server.reply_text("done", hold=hold)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("one", chat_id="1")
            await server.wait_requests(1)
            await channel.say("/stop", chat_id="2")
            await channel.wait_sent(1, chat_id="2")
            hold.set()
            assert [part.text for part in await channel.wait_sent(1, chat_id="1")] == ["done"]


async def test_new_begins_an_empty_history(rig: GatewayRig, server: ModelServer) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("old")
            await channel.say("/new")
            await channel.say("fresh")
            await channel.wait_sent(3)
    assert "old" not in str(server.requests[-1].json["messages"][1:])


async def test_an_unknown_command_costs_no_model_call_and_gets_a_suggestion(
    rig: GatewayRig, server: ModelServer
) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("/nwe")
            [part] = await channel.wait_sent()
            assert "/new" in part.text
            assert server.requests == []


async def test_the_start_button_is_greeted_without_a_model_call(rig: GatewayRig, server: ModelServer) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("/start deep-link")
            [part] = await channel.wait_sent()
            assert part.text.startswith("Hello!")
    assert server.requests == []


async def test_a_path_is_a_message_and_no_command(rig: GatewayRig, server: ModelServer) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("/etc/hosts is what?")
            [part] = await channel.wait_sent()
            assert part.kind is PartKind.ANSWER


async def test_status_tells_model_and_queue_while_a_turn_runs(rig: GatewayRig, server: ModelServer) -> None:
    hold = anyio.Event()
    server.reply_text("done", hold=hold)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("one")
            await server.wait_requests(1)
            await channel.say("two")
            await channel.say("/status")
            [part] = await channel.wait_sent()
            assert "main/test-model" in part.text
            assert "working; 1 waiting" in part.text
            hold.set()
            await channel.wait_sent(3)


async def test_a_turn_interrupted_by_a_stop_of_the_gateway_is_finished_by_the_next_start(
    rig: GatewayRig, server: ModelServer
) -> None:
    server.reply_text("never", hold=anyio.Event())
    server.reply_text("after the restart")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("one")
            await channel.say("two")
            await server.wait_requests(1)
        assert channel.sent == []
        async with rig.open() as (_, channel):
            sent = await channel.wait_sent(2)
            assert sent[0].text == "after the restart"
            assert sent[1].text.endswith("two")
    questions = [line["content"] for line in session_lines(rig) if line.get("role") == "user"]
    assert questions == ["one", "two"]


async def test_the_message_tool_sends_at_once_and_its_text_is_not_said_twice(
    rig: GatewayRig, server: ModelServer
) -> None:
    server.reply_calls(("message", {"text": "Working on it"}))
    server.reply_text("Working on it")
    server.reply_calls(("message", {"text": "first"}))
    server.reply_text("and the rest")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("one")
            await channel.say("two")
            await channel.wait_sent(3)
    assert [part.text for part in channel.sent] == ["Working on it", "first", "and the rest"]


async def test_the_message_tool_reaches_no_chat_but_its_own_and_the_owners(
    rig: GatewayRig, server: ModelServer
) -> None:
    server.reply_calls(("message", {"text": "psst", "to": "memory:99"}))
    server.reply_text("refused")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("tell chat 99")
            await channel.wait_sent()
    assert [part.text for part in channel.sent] == ["refused"]


async def test_o14_chats_with_lookalike_ids_share_no_history(rig: GatewayRig, server: ModelServer) -> None:
    chats = ["a_b", "a:b", "a/b", "A_B", "a_b ", "x" * 300, "🐝"]
    memory = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        for turns, word in enumerate(("first", "again"), 1):
            async with rig.open(memory) as (_, channel):
                for number, chat in enumerate(chats):
                    await channel.say(f"{word}{number}", chat_id=chat)
                await channel.wait_sent(turns * len(chats))
    for number in range(len(chats)):
        request = next(r for r in server.requests if last_user(r.json).endswith(f"again{number}"))
        heard = str(request.json["messages"][1:])
        assert f"first{number}" in heard
        assert not any(f"first{other}" in heard for other in range(len(chats)) if other != number)
    assert len(SessionFiles(rig.settings.state).keys()) == len(chats)


async def test_a_long_answer_arrives_in_parts_in_order(rig: GatewayRig, server: ModelServer) -> None:
    text = " ".join(str(number) for number in range(3000))
    server.reply_text(text)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            channel.fail("1", NotSentError("busy"))
            await channel.say("count")
            await channel.wait_sent(4)
            assert "".join(part.text for part in channel.sent) == text
            assert [part.part for part in channel.sent] == [0, 1, 2, 3]


async def test_strangers_cost_nothing(server: ModelServer, tmp_path: Path) -> None:
    rig = GatewayRig(tmp_path, server.base_url)
    closed = MemoryChannel("memory", MemorySettings(allow_from=("1",)))
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(closed) as (_, channel):
            assert await channel.say("hi", sender="2") == "refused"
            assert await channel.say("/stop", sender="2") == "refused"
            assert await channel.say("hi", sender="1", chat_id="5") == "stored"
            [part] = await channel.wait_sent()
            assert part.address.chat_id == "5"
    assert len(server.requests) == 1
    assert SessionFiles(rig.settings.state).keys() == ["memory:5"]
