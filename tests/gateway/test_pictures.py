"""Pictures through a whole gateway: shown for the turn that needs them, named afterwards."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from PIL import Image as Pillow

from nanobee.config import AgentSettings, ModelSettings, PluginSettings
from nanobee.sessions.files import SessionFiles
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.model_server import ModelServer
from nanobee.testing.strict_history import StrictHistory
from tests.gateway.test_turns import LIMIT_SECONDS


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(history=StrictHistory(alternate=True, old_images=True)) as running:
        yield running


def rig_of(server: ModelServer, tmp_path: Path, *, vision: bool) -> GatewayRig:
    return GatewayRig(
        tmp_path,
        server.base_url,
        AgentSettings(model="eyes"),
        providers={"main": PluginSettings.model_validate({"kind": "openai", "base_url": server.base_url})},
        models={"eyes": ModelSettings(model="main/test-model", vision=vision)},
    )


async def test_o12_a_picture_is_shown_for_its_turn_and_only_named_in_later_ones(
    server: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "workspace").mkdir()
    Pillow.effect_noise((900, 900), 90).save(tmp_path / "workspace" / "cat.png")
    assert (tmp_path / "workspace" / "cat.png").stat().st_size > 500_000
    server.reply_calls(("read_file", {"path": "cat.png"}))
    server.reply_text("A cat.")
    rig = rig_of(server, tmp_path, vision=True)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("what is in cat.png?")
            await channel.wait_sent()
            for number in range(2, 12):
                await channel.say(f"text {number}")
                await channel.wait_sent(number)
    seen = [str(request.json["messages"]).count("data:image/png;base64,") for request in server.requests]
    assert seen == [0, 1, *[0] * 10]
    assert "cat.png is a picture" in str(server.requests[-1].json)
    assert SessionFiles(rig.settings.state).path("memory:1").stat().st_size < 100_000


async def test_a_model_that_cannot_see_is_told_so_and_gets_no_picture(server: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    Pillow.new("RGB", (4, 4)).save(tmp_path / "workspace" / "cat.png")
    server.reply_calls(("read_file", {"path": "cat.png"}))
    server.reply_text("I cannot see it.")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig_of(server, tmp_path, vision=False).open() as (_, channel):
            await channel.say("what is in cat.png?")
            await channel.wait_sent()
    assert "base64" not in str(server.requests[-1].json)
    assert "You cannot see pictures" in str(server.requests[-1].json)
