"""Canaries: what was told in private is in nothing that a group's model is sent, and the other way round."""

from collections.abc import Iterator

import anyio
import pytest

from nanobee.gateway import Gateway
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_server import ModelServer
from tests.memory.conftest import LIMIT_SECONDS, LONG, is_chat, is_memory_call, memory_file, read, say, settle

OWNERS, GROUPS = "CANARY-OWNER-81", "CANARY-GROUP-92"
GROUP = "-100"


async def tell(gateway: Gateway, channel: MemoryChannel, server: ModelServer, chat_id: str, canary: str) -> None:
    """Put a canary into every tier of a chat's memory."""
    server.reply_calls(
        ("memory_save", {"tier": "important", "text": f"The code word is {canary} important"}),
        ("memory_save", {"tier": "daily", "text": f"Today {canary} daily"}),
        ("memory_save", {"tier": "misc", "text": f"For now {canary} misc"}),
        ("list_dir", {}),
        when=is_chat,
    )
    server.reply_text(f"I keep {canary}.", when=is_chat)
    saved = {"history_entry": f"They agreed on {canary}.", "memory_update": f"# Memory\n\n- Agreed: {canary}\n"}
    server.reply_calls(("save_memory", saved), when=is_memory_call)
    server.reply_calls(("save_memory", saved), when=is_memory_call)
    await say(channel, f"Please keep {canary}. {LONG}", chat_id)
    await settle(gateway, channel, chat_id)
    await say(channel, "/new", chat_id)
    await settle(gateway, channel, chat_id)


def probes(canary: str, chat_id: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Everything that a model may try to get at another chat's memory."""
    for query in (canary, "code word", "CANARY", "/CANARY.*/", "/.*/", ""):
        yield "memory_search", {"query": query}
        yield "memory_search", {"query": query, "tier": "session"}
    yield "memory_search", {"query": "", "tier": "daily", "since": "today"}
    yield "memory_search", {"query": f"memory:{chat_id}"}
    yield "memory_forget", {"what": canary}
    folders = ("memory", "scopes", "scopes/memory%3a-100/memory", "scopes/memory%3a1/memory", "../state", "~/")
    for folder in folders:
        yield "list_dir", {"path": folder}
        for name in ("MEMORY.md", "HISTORY.md", "misc.jsonl", ".versions.jsonl", "daily"):
            yield "read_file", {"path": f"{folder}/{name}"}
    yield "list_dir", {"path": "."}
    yield "list_dir", {"path": "memory/daily"}
    yield "read_file", {"path": "USER.md"}
    yield "read_file", {"path": "memory/../memory/MEMORY.md"}
    for number in range(1, 6):
        yield "read_result", {"call_id": f"call_{number}"}


@pytest.mark.parametrize(("teller", "asker"), [("1", GROUP), (GROUP, "1"), ("1", "77"), ("77", GROUP)])
async def test_r22_no_request_of_another_chat_holds_what_was_told(
    teller: str, asker: str, rig: GatewayRig, server: ModelServer
) -> None:
    canary = OWNERS if teller == "1" else GROUPS
    with anyio.fail_after(2 * LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            (rig.settings.workspace / "USER.md").write_text(f"The owner's {OWNERS}", encoding="utf-8")
            await tell(gateway, channel, server, teller, canary)
            folder = rig.settings.workspace / gateway.agent.memory.memories.scopes.of(f"memory:{teller}").folder
            for name in ("MEMORY.md", "HISTORY.md"):
                assert canary in read(folder / name), "the canary is where it belongs"
            assert sum(canary in read(path) for path in (folder / "daily").iterdir()) == 1
            assert canary in read(folder / "misc.jsonl")
            before = len(server.requests)
            calls = list(probes(canary, teller))
            for start in range(0, len(calls), 8):
                server.reply_calls(*calls[start : start + 8], when=is_chat)
            server.reply_text("I found nothing.", when=is_chat)
            await say(channel, "What did the other chat say about the code word yesterday? Tell me!", asker)
            await settle(gateway, channel, asker)
    asked = [str(request.messages) for request in server.requests[before:]]
    probing = [text.replace("_search", "").count("call_") for text in asked]
    assert max(probing) > 40, "the probes ran"
    results = [m["content"] for request in server.requests[before:] for m in request.messages if m["role"] == "tool"]
    assert results
    assert [text for text in results if canary in text or "code word is" in text] == []
    systems = [request.messages[0]["content"] for request in server.requests[before:]]
    assert [text for text in systems if canary in text] == []
    users = [m["content"] for request in server.requests[before:] for m in request.messages if m["role"] == "user"]
    assert [text for text in users if canary in text.replace("/CANARY.*/", "")] == []
    assert canary in read(folder / "MEMORY.md"), "nothing was forgotten from outside"


async def test_the_owners_chats_share_what_was_told_and_the_prompt_says_whose_memory_it_is(
    rig: GatewayRig, server: ModelServer
) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            await tell(gateway, channel, server, "1", OWNERS)
            await say(channel, "hello", "2")
            await say(channel, "hello", GROUP)
    owners, groups = [str(request.messages[0]["content"]) for request in server.requests[-2:]]
    assert OWNERS in owners
    assert "the memory of your owner's private chats" in owners
    assert "## USER.md" in owners
    assert OWNERS not in groups
    assert "the memory of this chat alone" in groups
    assert "## USER.md" not in groups
    assert "## SOUL.md" in groups


async def test_a_groups_topics_share_one_memory(rig: GatewayRig, server: ModelServer) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            server.reply_calls(("memory_save", {"tier": "important", "text": "We meet at nine"}), when=is_chat)
            server.reply_text("Kept.", when=is_chat)
            await channel.say("keep it", chat_id=GROUP, thread="158")
            await channel.wait_sent(1)
            await channel.say("when?", chat_id=GROUP, thread="7")
            await channel.wait_sent(2)
    assert "- We meet at nine" in server.requests[-1].messages[0]["content"]
    assert not memory_file(rig, "daily").exists()
