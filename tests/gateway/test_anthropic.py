"""A Claude model that thinks, through a whole gateway: its sealed thinking outlives turns, commands and restarts."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nanobee.config import PluginSettings
from nanobee.testing.anthropic_history import StrictMessages
from nanobee.testing.anthropic_replies import call_block, redacted_block, text_block, thinking_block
from nanobee.testing.anthropic_server import AnthropicServer
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_server import ModelServer
from nanobee.testing.strict_history import StrictHistory
from tests.gateway.test_turns import LIMIT_SECONDS

THOUGHT = thinking_block("the file may say", "sealed")
REDACTED = redacted_block("opaque")
READ = call_block("read_file", {"path": "a.txt"}, "toolu_read")


@pytest.fixture
async def claude() -> AsyncIterator[AnthropicServer]:
    async with AnthropicServer(history=StrictMessages(binds_thinking=True)) as running:
        yield running


@pytest.fixture
async def other() -> AsyncIterator[ModelServer]:
    async with ModelServer(history=StrictHistory(alternate=True)) as running:
        yield running


@pytest.fixture
def rig(claude: AnthropicServer, other: ModelServer, tmp_path: Path) -> GatewayRig:
    """`main` is another maker's model; `claude/…` is reached by /model."""
    settings = {"kind": "anthropic", "base_url": claude.base_url}
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "a.txt").write_text("alpha\n")
    return GatewayRig(tmp_path, other.base_url, providers={"claude": PluginSettings.model_validate(settings)})


async def test_o05_sealed_thinking_goes_back_in_its_turn_and_after_a_restart(
    rig: GatewayRig, claude: AnthropicServer
) -> None:
    claude.reply_blocks([THOUGHT, REDACTED, text_block("Let me look."), READ])
    claude.reply_text("It says alpha.", thinking="now I know")
    claude.reply_text("As I said: alpha.")
    memory = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory) as (_, channel):
            await channel.say("/model claude/claude-sonnet-4-5")
            await channel.wait_sent()
            await channel.say("what does a.txt say?")
            assert (await channel.wait_sent(2))[-1].text == "It says alpha."
        async with rig.open(memory) as (_, channel):
            await channel.say("what?")
            assert (await channel.wait_sent(3))[-1].text == "As I said: alpha."
    _, results, later = [request.json["messages"] for request in claude.requests]
    assert [block["type"] for block in results[1]["content"]] == ["thinking", "redacted_thinking", "text", "tool_use"]
    assert results[1]["content"][:2] == later[1]["content"][:2] == [THOUGHT, REDACTED]


async def test_o05_a_conversation_changes_between_two_makers_models_and_back(
    rig: GatewayRig, claude: AnthropicServer, other: ModelServer
) -> None:
    claude.reply_blocks([THOUGHT, READ])
    claude.reply_text("It says alpha.")
    other.reply_calls(("read_file", {"path": "a.txt"}), text="Once more.")
    other.reply_text("Still alpha.")
    claude.reply_text("Alpha, twice.")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            for count, text in enumerate(
                (
                    "/model claude/claude-opus-5-5",
                    "read a.txt",
                    "/model main/test-model",
                    "again",
                    "/model claude/claude-opus-5-5",
                ),
                start=1,
            ):
                await channel.say(text)
                await channel.wait_sent(count)
            await channel.say("and?")
            assert (await channel.wait_sent(6))[-1].text == "Alpha, twice."
    assert "sealed" not in other.requests[0].body.decode()
    assert claude.requests[-1].json["messages"][1]["content"][0] == THOUGHT
