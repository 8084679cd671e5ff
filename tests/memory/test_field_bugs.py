"""What went wrong with memory elsewhere (the numbers are those of the list of field bugs)."""

import json
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from nanobee.memory import writer
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_replies import RecordedRequest
from nanobee.testing.model_server import ModelServer
from tests.memory.conftest import LIMIT_SECONDS, LONG, is_chat, is_memory_call, memory_file, read, say, settle
from tests.memory.test_consolidation import ranges

FACTS = "# Memory\n\n" + "".join(f"- Fact number {number} about the house in Kyoto\n" for number in range(90))
"""About 4 kB."""
PAGE = "<!DOCTYPE html><html><body>" + "<p>Bad gateway</p>" * 12_000 + "</body></html>"


def memory_calls(server: ModelServer) -> int:
    return sum(is_memory_call(request.json) for request in server.requests)


def chats(server: ModelServer) -> list[RecordedRequest]:
    return [request for request in server.requests if is_chat(request.json)]


def write_facts(rig: GatewayRig) -> None:
    memory_file(rig, "").mkdir(parents=True)
    memory_file(rig, "MEMORY.md").write_text(FACTS, encoding="utf-8")


def save(server: ModelServer, **arguments: Any) -> None:
    server.reply_calls(("save_memory", arguments), when=is_memory_call)


async def consolidate(rig: GatewayRig) -> None:
    """One conversation long enough, and what comes of it."""
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            assert await say(channel, LONG)
            await settle(gateway, channel)


# O-06: an HTML page


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (200, 3), (502, 3)])
async def test_o06_a_page_from_a_proxy_enters_no_memory_and_the_part_is_tried_again_later(
    status: int, tries: int, rig: GatewayRig, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PAUSES_SECONDS", (0.01, 0.01))
    server.reply_status(status, PAGE, when=is_memory_call, times=tries)
    save(server, history_entry="They talked about boxes.")
    channel = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(channel) as (gateway, _):
            await say(channel, LONG)
            await settle(gateway, channel)
            assert memory_calls(server) == tries
            assert read(memory_file(rig, "HISTORY.md")) == ""
        async with rig.open(channel) as (gateway, _):
            await say(channel, "and one more thing")
            await settle(gateway, channel)
    assert ranges(read(memory_file(rig, "HISTORY.md")))[0][1] == 1
    everything = "".join(
        path.read_text(errors="replace") for path in rig.root.rglob("*") if path.suffix in (".md", ".jsonl")
    )
    assert "<html" not in everything
    assert "<html" not in str([request.messages for request in server.requests])


async def test_o06_a_page_inside_a_save_call_is_refused(rig: GatewayRig, server: ModelServer) -> None:
    write_facts(rig)
    save(server, history_entry=PAGE, memory_update=PAGE)
    save(server, history_entry="They talked.", memory_update=PAGE)
    await consolidate(rig)
    assert "<" not in read(memory_file(rig, "HISTORY.md"))
    assert read(memory_file(rig, "MEMORY.md")) == FACTS


# O-07 (c), O-19 (a): a call that hangs


async def test_o07_c_o19_a_while_the_memory_call_hangs_the_chat_is_answered(
    rig: GatewayRig, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.reply_hang(when=is_memory_call, times=None)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await say(channel, LONG)
            for number in range(5):
                with anyio.fail_after(2):
                    assert await say(channel, f"hi {number}")
                    assert await say(channel, "hi", chat_id="9")
    assert memory_calls(server) <= 2, "one a session"
    assert len({part.idempotency_key for part in channel.sent}) == len(channel.sent)


async def test_o07_c_a_call_without_an_end_is_given_up(
    rig: GatewayRig, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "CALL_SECONDS", 0.2)
    server.reply_hang(when=is_memory_call, times=None)
    await consolidate(rig)
    assert memory_calls(server) == 1
    assert read(memory_file(rig, "HISTORY.md")) == ""


# O-16: the model does not call the tool


async def test_o16_prose_only_loses_nothing_and_calls_grow_far_slower_than_turns(
    rig: GatewayRig, server: ModelServer
) -> None:
    write_facts(rig)
    server.reply_text("I would rather talk about the weather.", when=is_memory_call, times=None)
    turns = 30
    with anyio.fail_after(2 * LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            for number in range(turns):
                assert await say(channel, f"message {number:02d} {LONG}")
                await settle(gateway, channel)
    assert read(memory_file(rig, "MEMORY.md")) == FACTS
    assert memory_calls(server) <= turns // 2
    history = read(memory_file(rig, "HISTORY.md"))
    last = ranges(history)[-1][2]
    assert last > 4
    texts = [f"message {number:02d}" for number in range(turns)]
    in_history = [text for text in texts if text in history]
    assert in_history == texts[: len(in_history)]
    assert len(in_history) > 2
    assert max(len(request.body) for request in server.requests if is_memory_call(request.json)) < 200_000


# O-17: wrong types


WRONG: Mapping[str, tuple[str, str, str | None]] = {
    "a json in json": (
        json.dumps(json.dumps({"history_entry": "Talked of boxes.", "memory_update": FACTS})),
        "boxes",
        None,
    ),
    "b list": (json.dumps([{"history_entry": "Talked of boxes."}]), "boxes", None),
    "c other types": (
        json.dumps({"history_entry": {"what": "Talked of boxes"}, "memory_update": FACTS.strip().split("\n")}),
        "boxes",
        None,
    ),
    "d no update": (json.dumps({"history_entry": "Talked of boxes."}), "boxes", None),
    "e empty update": (json.dumps({"history_entry": "Talked of boxes.", "memory_update": ""}), "boxes", "would lose"),
    "f unknown field": (json.dumps({"history_entry": "Talked of boxes.", "mood": "good"}), "boxes", None),
    "g surrogates": ('{"history_entry": "Talked of boxes \\ud83d\\ude00 \\ud83d."}', "boxes 😀 \ufffd", None),
}


@pytest.mark.parametrize("name", WRONG)
async def test_o17_wrong_types_are_read_or_refused_and_memory_is_never_emptied(
    name: str, rig: GatewayRig, server: ModelServer
) -> None:
    arguments, wanted, objection = WRONG[name]
    write_facts(rig)
    server.reply_calls(("save_memory", arguments), when=is_memory_call, times=2)
    await consolidate(rig)
    assert wanted in read(memory_file(rig, "HISTORY.md"))
    assert len(ranges(read(memory_file(rig, "HISTORY.md")))) == 1
    kept = read(memory_file(rig, "MEMORY.md"))
    assert [line for line in FACTS.split("\n") if line not in kept] == []
    asked = [request.messages[-1]["content"] for request in server.requests if is_memory_call(request.json)]
    assert [bool(objection and objection in text) for text in asked] == [False, *([True] if objection else [])]


async def test_o17_d_no_entry_is_asked_for_once_more(rig: GatewayRig, server: ModelServer) -> None:
    save(server, memory_update="# Memory\n\n- x\n")
    save(server, history_entry="They talked of boxes.")
    await consolidate(rig)
    assert "They talked of boxes." in read(memory_file(rig, "HISTORY.md"))


async def test_o17_h_two_calls_in_one_answer_are_one_entry(rig: GatewayRig, server: ModelServer) -> None:
    server.reply_calls(
        ("save_memory", {"history_entry": "First."}), ("save_memory", {"history_entry": "Second."}), when=is_memory_call
    )
    await consolidate(rig)
    assert len(ranges(read(memory_file(rig, "HISTORY.md")))) == 1


# O-18: /new and the background


async def test_o18_new_is_answered_at_once_and_each_range_is_archived_once(
    rig: GatewayRig, server: ModelServer
) -> None:
    memory_file(rig, "").mkdir(parents=True)
    older = "[2026-01-01 10:00] Something older. [memory:1 seq 900–901]\n\n"
    memory_file(rig, "HISTORY.md").write_text(older, encoding="utf-8")
    hold = anyio.Event()
    slow = server.reply_calls(("save_memory", {"history_entry": "Slow."}), when=is_memory_call, hold=hold)
    server.reply_calls(("save_memory", {"history_entry": "Next."}), when=is_memory_call, times=None)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            await say(channel, LONG)
            await slow.asked.wait()
            with anyio.fail_after(1):
                for _ in range(3):
                    await channel.say("/new")
                await channel.wait_sent(4)
                assert "fresh start" in await say(channel, "fresh start")
            assert memory_calls(server) == 1, "never two calls for one session at once"
            assert LONG not in str(chats(server)[-1].messages)
            hold.set()
            await settle(gateway, channel)
    history = read(memory_file(rig, "HISTORY.md"))
    assert history.startswith(older)
    found = ranges(history)[1:]
    assert [entry[1] for entry in found] == sorted({entry[1] for entry in found})
    assert found[0][1:] == (1, 4)


async def test_o18_where_the_archive_call_fails_the_old_messages_are_kept_and_archived_later(
    rig: GatewayRig, server: ModelServer
) -> None:
    server.reply_status(401, {"error": {"message": "no key"}}, when=is_memory_call)
    save(server, history_entry="They talked about boxes.")
    channel = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(channel) as (gateway, _):
            await say(channel, "short talk about boxes")
            await say(channel, "/new")
            await say(channel, "fresh start")
            await settle(gateway, channel)
            assert read(memory_file(rig, "HISTORY.md")) == ""
            assert "boxes" not in str(chats(server)[-1].messages[1:])
        async with rig.open(channel) as (gateway, _):  # a start takes up what waits
            await settle(gateway, channel)
    assert ranges(read(memory_file(rig, "HISTORY.md"))) == [("memory:1", 1, 5)]


# Rivals 8, 9


async def test_r08_two_chats_that_consolidate_at_once_lose_nothing_of_either(
    rig: GatewayRig, server: ModelServer
) -> None:
    write_facts(rig)
    hold = anyio.Event()
    replies = [
        server.reply_calls(
            ("save_memory", {"history_entry": f"Chat {chat}.", "memory_update": f"{FACTS}- New from chat {chat}\n"}),
            when=lambda body, chat=chat: is_memory_call(body) and f"chat {chat}" in str(body["messages"]),  # type: ignore[misc]
            hold=hold,
        )
        for chat in ("1", "2")
    ]
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            for chat in ("1", "2"):
                await say(channel, f"I am chat {chat}. {LONG}", chat)
            for reply in replies:
                await reply.asked.wait()
            hold.set()
            await settle(gateway, channel, "1", "2")
    kept = read(memory_file(rig, "MEMORY.md"))
    assert [line for line in FACTS.split("\n") if line not in kept] == []
    assert kept.count("New from chat 1") == kept.count("New from chat 2") == 1
    assert {entry[0] for entry in ranges(read(memory_file(rig, "HISTORY.md")))} == {"memory:1", "memory:2"}


@pytest.mark.parametrize("update", ["", "   \n", "# Memory\n", "- x\n"])
async def test_r08_an_empty_update_never_wipes_memory(update: str, rig: GatewayRig, server: ModelServer) -> None:
    write_facts(rig)
    server.reply_calls(
        ("save_memory", {"history_entry": "They talked.", "memory_update": update}), when=is_memory_call, times=None
    )
    await consolidate(rig)
    kept = read(memory_file(rig, "MEMORY.md"))
    assert [line for line in FACTS.split("\n") if line not in kept] == []
    assert memory_calls(server) == 2


async def test_r08_new_is_not_undone_by_a_consolidation_that_began_before(rig: GatewayRig, server: ModelServer) -> None:
    hold = anyio.Event()
    slow = server.reply_calls(("save_memory", {"history_entry": "Old talk."}), when=is_memory_call, hold=hold)
    channel = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(channel) as (gateway, _):
            await say(channel, f"OLD {LONG}")
            await slow.asked.wait()
            await say(channel, "/new")
            await say(channel, "new message one")
            hold.set()
            await settle(gateway, channel)
            await say(channel, "new message two")
        assert "OLD" not in str(chats(server)[-1].messages[1:])
        assert "new message one" in str(chats(server)[-1].messages)
        async with rig.open(channel) as (gateway, _):
            await say(channel, "new message three")
    assert "OLD" not in str(chats(server)[-1].messages[1:])
    assert "new message one" in str(chats(server)[-1].messages)


async def test_r09_a_foreign_byte_in_any_memory_file_stops_no_turn_and_is_kept(
    rig: GatewayRig, server: ModelServer
) -> None:
    memory_file(rig, "daily").mkdir(parents=True)
    foreign = "- 喜欢北京\n".encode("gbk")
    for name in ("MEMORY.md", "HISTORY.md", "misc.jsonl", "daily/2026-10-07.md"):
        memory_file(rig, name).write_bytes(foreign)
    save(server, history_entry="They talked.", memory_update="- \ufffd\ufffd\n- Ann is a sister\n")
    save(server, history_entry="They talked.", memory_update="- Ann is a sister\n")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            assert (await say(channel, LONG)).startswith("echo")
            await settle(gateway, channel)
            assert (await say(channel, "still there?")).startswith("echo")
    assert memory_file(rig, "HISTORY.md").read_bytes().startswith(foreign)
    assert memory_file(rig, "misc.jsonl").read_bytes() == foreign
    assert foreign.strip() in memory_file(rig, "MEMORY.md").read_bytes()
    assert "Ann is a sister" in memory_file(rig, "MEMORY.md").read_text(errors="replace")
