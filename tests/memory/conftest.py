"""A whole gateway whose model server plays the chat and the memory writer apart."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from nanobee.config_memory import MemorySettings
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.model_server import ModelServer
from nanobee.testing.strict_history import StrictHistory


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(history=StrictHistory(alternate=True)) as running:
        yield running


@pytest.fixture
def rig(server: ModelServer, tmp_path: Path) -> GatewayRig:
    """Every turn passes the threshold; the chats 1 and 2 are the owner's private ones."""
    return GatewayRig(
        tmp_path,
        server.base_url,
        owner=("memory:1", "memory:2"),
        memory=MemorySettings(consolidate_after_tokens=50),
    )


def is_memory_call(body: Mapping[str, Any]) -> bool:
    """Whether a request is the memory writer's."""
    return "<conversation>" in str(body.get("messages"))


def is_chat(body: Mapping[str, Any]) -> bool:
    """Whether a request is a turn's."""
    return not is_memory_call(body)
