"""What was said goes into HISTORY.md and MEMORY.md, once, in the background."""

from pathlib import Path

import anyio

from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.model_server import ModelServer
from tests.memory.conftest import is_memory_call

LIMIT_SECONDS = 20
LONG = "My sister Ann moves to Paris in May and I will help her with the boxes. " * 4


def memory_file(rig: GatewayRig, name: str) -> Path:
    return rig.settings.workspace / "memory" / name


async def test_a_long_enough_conversation_is_in_both_files_with_its_source(
    rig: GatewayRig, server: ModelServer
) -> None:
    server.reply_calls(
        (
            "save_memory",
            {"history_entry": "The user helps Ann to move.", "memory_update": "# Memory\n\n- Ann is a sister"},
        ),
        when=is_memory_call,
    )
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            await channel.say(LONG)
            await channel.wait_sent()
            await gateway.agent.memory.consolidator.wait_idle()
            history = memory_file(rig, "HISTORY.md").read_text()
    assert history.endswith("The user helps Ann to move. [memory:1 seq 1–4]\n\n")
    assert memory_file(rig, "MEMORY.md").read_text() == "# Memory\n\n- Ann is a sister\n"
