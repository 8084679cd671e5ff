"""A whole gateway whose model server plays the chat and the memory writer apart; memories without a gateway."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from nanobee.clock import Clock
from nanobee.config_memory import MemorySettings
from nanobee.gateway import Gateway
from nanobee.memory.finder import Finder
from nanobee.memory.lock import WriterLock
from nanobee.memory.memory import Memories, Memory
from nanobee.memory.scope import OWNER_SCOPE, Scopes
from nanobee.sessions.files import SessionFiles
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_server import ModelServer
from nanobee.testing.strict_history import StrictHistory

LIMIT_SECONDS = 30
LONG = "My sister Ann moves to Paris in May, and I will help her with the boxes. " * 4
"""Passes the threshold of the rig."""


@dataclass(slots=True)
class FakeTime:
    """A time that only the test moves."""

    now: datetime = field(default_factory=lambda: datetime(2026, 10, 7, 12, 0, tzinfo=UTC))

    def __call__(self) -> datetime:
        return self.now

    def move(self, **delta: float) -> None:
        self.now += timedelta(**delta)


@pytest.fixture
def fake_time() -> FakeTime:
    """A Wednesday at noon."""
    return FakeTime()


@pytest.fixture
def clock(fake_time: FakeTime) -> Clock:
    return Clock(ZoneInfo("Asia/Shanghai"), fake_time)


@pytest.fixture
def memories(tmp_path: Path, clock: Clock) -> Memories:
    """Chat `memory:1` is the owner's."""
    return Memories(Scopes(tmp_path / "workspace", ("memory:1",)), WriterLock(tmp_path / "state"), clock)


@pytest.fixture
def memory(memories: Memories) -> Memory:
    """The owner's."""
    return memories.of(OWNER_SCOPE)


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    return SessionFiles(tmp_path / "state")


@pytest.fixture
def finder(memories: Memories, files: SessionFiles, tmp_path: Path) -> Finder:
    return Finder(memories, files, tmp_path / "state")


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(history=StrictHistory(alternate=True)) as running:
        yield running


@pytest.fixture
def rig(server: ModelServer, tmp_path: Path) -> GatewayRig:
    """A long message passes the threshold; the chats 1 and 2 are the owner's private ones."""
    return GatewayRig(
        tmp_path,
        server.base_url,
        owner=("memory:1", "memory:2"),
        memory=MemorySettings(consolidate_after_tokens=100),
    )


def is_memory_call(body: Mapping[str, Any]) -> bool:
    """Whether a request is the memory writer's."""
    return "<conversation>" in str(body.get("messages"))


def is_chat(body: Mapping[str, Any]) -> bool:
    """Whether a request is a turn's."""
    return not is_memory_call(body)


def memory_file(rig: GatewayRig, name: str) -> Path:
    """A file of the owner's memory."""
    return rig.settings.workspace / "memory" / name


def read(path: Path) -> str:
    """The file's text; empty where there is none."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


async def say(channel: MemoryChannel, text: str, chat_id: str = "1") -> str:
    """Say something in a chat and return the answer."""
    count = len(channel.sent_to(chat_id))
    await channel.say(text, chat_id=chat_id, sender=chat_id)
    return (await channel.wait_sent(count + 1, chat_id=chat_id))[-1].text


async def settle(gateway: Gateway, channel: MemoryChannel, *chat_ids: str) -> None:
    """Return once what the chats' turns have set off is in memory: the next command begins after that."""
    for chat_id in chat_ids or ("1",):
        await say(channel, "/model", chat_id)
    await gateway.agent.memory.consolidator.wait_idle()
