"""The real embedded model writes memory by the JSON-schema rung: what it says may be poor, its form is not."""

import os
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from nanobee.config import Settings
from nanobee.config_memory import MemorySettings
from nanobee.gateway import open_gateway, run_channel
from nanobee.providers.discover import choose_model
from nanobee.providers.model_file import find_model
from nanobee.testing.memory_channel import MemoryChannel
from tests.memory.conftest import say, settle
from tests.memory.test_consolidation import ranges

SECONDS = 180.0
"""On a busy machine."""


async def test_a_chat_past_the_threshold_gives_both_files_their_form(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason='not installed: pip install "nanobee-gateway[local]"')
    if find_model() is None:
        pytest.skip("the embedded model's file is not in the cache; to fetch it: nanobee models get")
    settings = Settings(
        workspace=tmp_path / "workspace",
        state=tmp_path / "state",
        owner=("memory:1",),
        memory=MemorySettings(consolidate_after_tokens=150),
    )
    environ = {"HOME": os.environ["HOME"], "NANOBEE_CACHE": os.environ.get("NANOBEE_CACHE", "")}
    model = replace(await choose_model(settings, environ, servers=()), note="")
    assert model.label.startswith("local/")
    channel = MemoryChannel(wait_seconds=SECONDS)
    try:
        with anyio.fail_after(SECONDS):
            async with (
                open_gateway(settings, {"memory": channel}, model) as gateway,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(run_channel, gateway, channel)
                for text in (
                    "My name is Ann and I live in Paris. My sister Bea lives in Rome.",
                    "I work as a teacher in a small school, and I like green tea.",
                ):
                    await say(channel, text)
                await settle(gateway, channel)
                await say(channel, "/new")
                await settle(gateway, channel)
                await gateway.wind_down(0)
                tasks.cancel_scope.cancel()
    finally:
        await model.provider.aclose()
    history = (tmp_path / "workspace/memory/HISTORY.md").read_text(encoding="utf-8")
    found = ranges(history)
    assert found[0][:2] == ("memory:1", 1)
    assert all(
        paragraph.startswith("[20") and "\n" not in paragraph for paragraph in history.split("\n\n") if paragraph
    )
    facts = (tmp_path / "workspace/memory/MEMORY.md").read_text(encoding="utf-8")
    assert facts.startswith("#")
    assert "You keep the long-term memory" not in facts + history
