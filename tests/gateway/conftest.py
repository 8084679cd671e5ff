"""A whole gateway between a memory channel and a strict model server."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.model_server import ModelServer
from nanobee.testing.strict_history import StrictHistory
from nanobee.testing.watch import Watch


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(history=StrictHistory(alternate=True)) as running:
        yield running


@pytest.fixture
def rig(server: ModelServer, tmp_path: Path) -> GatewayRig:
    return GatewayRig(tmp_path, server.base_url)


class Logged(logging.Handler):
    """What was logged as a warning or worse, and a way to wait for it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self._watch = Watch()
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        self._loop.call_soon_threadsafe(self._watch.notify)

    async def wait(self, text: str, count: int = 1) -> None:
        """Wait until so many lines with `text` were logged."""
        await self._watch.until(lambda: self.count(text) >= count)

    def count(self, text: str) -> int:
        """How many lines with `text` were logged."""
        return sum(text in line for line in self.texts)


@pytest.fixture
async def logged() -> AsyncIterator[Logged]:
    handler = Logged()
    logging.getLogger("nanobee").addHandler(handler)
    yield handler
    logging.getLogger("nanobee").removeHandler(handler)
