"""Forgetting, provenance, versions, and the commands for them."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from nanobee.bus.lines import Line
from nanobee.gateway import Gateway
from nanobee.memory.forgetting import MARK, Wanted
from nanobee.memory.memory import Memory
from nanobee.memory.provenance import Origin, Provenance
from nanobee.sessions.files import SessionFiles
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_server import ModelServer
from tests.memory.conftest import LIMIT_SECONDS, LONG, is_chat, is_memory_call, memory_file, read, say, settle

SECRET = "PIN is 4711"


@pytest.mark.parametrize(
    ("paragraph", "left"),
    [
        (
            "[2026-10-07 20:00] Ann came. The PIN is 4711. Bob left. [a:1 seq 1–2]",
            f"[2026-10-07 20:00] Ann came. {MARK} Bob left. [a:1 seq 1–2]",
        ),
        ("[2026-10-07 20:00] the pin  IS 4711 [a:1 seq 1–2]", f"[2026-10-07 20:00] {MARK} [a:1 seq 1–2]"),
        ("他来了。PIN is 4711。他走了。", f"他来了。{MARK} 他走了。"),
        ("user: my PIN is 4711 | assistant: ok", f"{MARK} assistant: ok"),
        ("Nothing of it.", "Nothing of it."),
    ],
)
def test_the_sentence_that_says_it_goes_and_the_rest_of_the_entry_stays(paragraph: str, left: str) -> None:
    assert Wanted(SECRET).cut_sentences(paragraph) == left


@pytest.fixture
async def told(rig: GatewayRig, server: ModelServer) -> AsyncIterator[tuple[Gateway, MemoryChannel]]:
    """A gateway whose owner has told a secret, which is now everywhere."""
    saved = {
        "history_entry": f"Ann moves in May. The {SECRET}. All is well.",
        "memory_update": f"# Memory\n\n- The {SECRET}\n- Ann moves in May\n",
        "daily_note": f"{SECRET}, note it",
    }
    server.reply_calls(("memory_save", {"tier": "misc", "text": f"door {SECRET}"}), when=is_chat)
    server.reply_text("Kept.", when=is_chat)
    server.reply_calls(("save_memory", saved), when=is_memory_call)
    server.reply_calls(("save_memory", {"history_entry": "Later."}), when=is_memory_call, times=None)
    with anyio.fail_after(2 * LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            await say(channel, f"My {SECRET}. {LONG}")
            await settle(gateway, channel)
            yield gateway, channel


def everywhere(rig: GatewayRig) -> list[Path]:
    folder = memory_file(rig, "")
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and SECRET in read(path).replace("\\u", "")]


async def test_forget_in_chat_takes_it_out_of_every_file_every_version_context_search_and_later_memory(
    told: tuple[Gateway, MemoryChannel], rig: GatewayRig, server: ModelServer
) -> None:
    gateway, channel = told
    assert len(everywhere(rig)) == 5, "facts, versions, daily, misc and history"
    answer = await say(channel, f"/forget {SECRET.lower()}")
    assert "Forgotten: 1 facts, 2 notes, 1 entries of the history; " in answer
    assert everywhere(rig) == []
    assert "Ann moves in May. [forgotten] All is well. [memory:1 seq 1–" in read(memory_file(rig, "HISTORY.md"))
    assert read(memory_file(rig, "MEMORY.md")) == "# Memory\n\n- Ann moves in May\n"
    lines = list(SessionFiles(rig.settings.state).read_backwards("memory:1"))
    assert [line.kind for line in lines].count("forgotten") == 1
    assert any(SECRET in str(line.data) for line in lines), "the file keeps its lines until they are redacted"
    count = len(server.requests)
    await say(channel, "what was my PIN? " + LONG)
    assert SECRET not in str([request.messages for request in server.requests[count:]])
    assert SECRET not in await say(channel, "/memory PIN")
    await settle(gateway, channel)
    assert everywhere(rig) == []


async def test_what_is_forgotten_while_a_model_is_asked_about_it_is_not_remembered_by_its_answer(
    rig: GatewayRig, server: ModelServer
) -> None:
    hold = anyio.Event()
    saved = {"history_entry": f"The {SECRET}.", "memory_update": f"- The {SECRET}\n"}
    slow = server.reply_calls(("save_memory", saved), when=is_memory_call, hold=hold)
    server.reply_calls(("save_memory", {"history_entry": "They talked of boxes."}), when=is_memory_call, times=None)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            await say(channel, f"My {SECRET}. {LONG}")
            await say(channel, LONG)
            await slow.asked.wait()
            await say(channel, f"/forget {SECRET}")
            hold.set()
            await settle(gateway, channel)
    assert everywhere(rig) == []
    asked = [str(request.messages) for request in server.requests if is_memory_call(request.json)]
    assert SECRET in asked[0]
    assert SECRET not in str(asked[1:])
    assert "They talked of boxes." in read(memory_file(rig, "HISTORY.md"))


async def test_another_chats_forget_reaches_nothing_here(told: tuple[Gateway, MemoryChannel], rig: GatewayRig) -> None:
    _, channel = told
    assert await say(channel, f"/forget {SECRET}", "-100") == "Nothing in memory says that."
    assert len(everywhere(rig)) == 5
    assert "Forgotten" in await say(channel, f"/forget {SECRET}", "2"), (
        "the owner's other private chat is the same memory"
    )
    assert everywhere(rig) == []


@pytest.mark.parametrize("text", ["", " ", "x", "…"])
async def test_a_forget_that_would_be_everything_asks_for_more(
    text: str, told: tuple[Gateway, MemoryChannel], rig: GatewayRig
) -> None:
    assert "/forget TEXT" in await say(told[1], f"/forget {text}")
    assert len(everywhere(rig)) == 5


async def test_memory_shows_what_is_remembered_here(told: tuple[Gateway, MemoryChannel]) -> None:
    text = await say(told[1], "/memory")
    assert text.startswith("The memory of your private chats")
    assert "- Ann moves in May" in text
    assert "misc: door" in text
    assert "Nothing is remembered yet" in await say(told[1], "/memory", "-100")


async def test_a_model_forgets_by_id_or_by_a_text_that_is_not_everywhere(rig: GatewayRig, server: ModelServer) -> None:
    memory_file(rig, "").mkdir(parents=True)
    memory_file(rig, "MEMORY.md").write_text("".join(f"- cat number {n}\n" for n in range(9)), encoding="utf-8")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            keeper = gateway.agent.memory
            [entry] = [
                e
                for e in keeper.memories.of(keeper.memories.scopes.of("memory:1")).facts.entries()
                if e.text == "cat number 3"
            ]
            server.reply_calls(
                ("memory_forget", {"what": f"#{entry.id}"}),
                ("memory_forget", {"what": "cat number"}),
                ("memory_forget", {"what": "cat number 7"}),
                ("memory_forget", {"what": "99999999999"}),
                ("memory_forget", {"what": "no such text"}),
                when=is_chat,
            )
            server.reply_text("Done.", when=is_chat)
            await say(channel, "forget some")
    results = [m["content"] for m in server.requests[-1].messages if m["role"] == "tool"]
    assert results[0] == "It is forgotten."
    assert "8 entries say that" in results[1]
    assert results[2].startswith("Forgotten: 1 facts")
    assert "no entry" in results[3]
    assert results[4] == "Nothing here says that."
    kept = read(memory_file(rig, "MEMORY.md"))
    assert [n for n in range(9) if f"cat number {n}\n" not in kept] == [3, 7]


def provenance(gateway: Gateway) -> Provenance:
    keeper = gateway.agent.memory
    memory: Memory = keeper.memories.of(keeper.memories.scopes.of("memory:1"))
    return Provenance(memory, keeper.consolidator.consolidation.archive, keeper.finder)


async def test_why_shows_the_lines_that_each_entry_came_from(told: tuple[Gateway, MemoryChannel]) -> None:
    origins = await provenance(told[0]).explain("Ann moves in May")
    assert {origin.entry.tier for origin in origins} == {"important", "history"}
    for origin in origins:
        assert origin.came_by.startswith("memory:1 seq 1–")
        assert origin.session_key == "memory:1"
        assert origin.said[0].role == "user"
        assert "Ann moves to Paris in May" in origin.said[0].text
    assert await provenance(told[0]).explain("volcanoes of Iceland") == []


async def test_a_fact_of_a_person_has_no_lines_but_a_hand(told: tuple[Gateway, MemoryChannel], rig: GatewayRig) -> None:
    memory_file(rig, "MEMORY.md").write_text("# Memory\n\n- Volcanoes are nice\n", encoding="utf-8")
    gateway, _ = told
    keeper = gateway.agent.memory
    memory = keeper.memories.of(keeper.memories.scopes.of("memory:1"))
    with keeper.memories.lock.hold(memory.scope):
        memory.facts.add_fact("One more", "s")
    origins: list[Origin] = await provenance(gateway).explain("volcanoes")
    assert [(origin.came_by, origin.said) for origin in origins] == [("hand", ())]


async def test_a_text_that_is_everywhere_is_not_forgotten_by_a_slip(rig: GatewayRig, server: ModelServer) -> None:
    server.reply_calls(("memory_forget", {"what": "boxes"}), when=is_chat)
    server.reply_text("Too much.", when=is_chat)
    files = SessionFiles(rig.settings.state)
    at = datetime(2026, 10, 1, tzinfo=UTC)
    lines = [Line(n, at, None, "message", {"role": "user", "content": f"boxes {n}"}).to_json() for n in range(1, 400)]
    files.append([("memory:2", line) for line in lines])
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await say(channel, "please")
            assert (await say(channel, "/forget boxes")).startswith("That stands in 4")
            assert "Forgotten: 0 facts, 0 notes, 0 entries of the history; 1 lines" in await say(
                channel, "/forget boxes 77"
            )
    [result] = [m["content"] for m in server.requests[1].messages if m["role"] == "tool"]
    assert "places; name more" in result
