"""A real gateway on a full disk: it acknowledges nothing, status says so, and it goes on when there is room."""

import resource
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nanobee.testing.model_server import ModelServer
from nanobee.testing.telegram_server import TelegramServer
from tests.cli.conftest import COMMAND, Nanobee
from tests.gateway.gateway_process import ANN, install, start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux sets another process's limits")
PROCESS_SECONDS = 60


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as running:
        yield running


@pytest.fixture
def nanobee(tmp_path: Path, server: ModelServer, telegram: TelegramServer) -> Nanobee:
    return install(tmp_path / "home", server, telegram)


def limit_files(pid: int, max_bytes: int) -> None:
    """Let a process write no file past so many bytes; -1 lifts the limit."""
    hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (max_bytes, hard))


async def status(nanobee: Nanobee, max_kilobytes: str) -> str:
    """What `nanobee status` says on the same disk."""
    command = ["bash", "-c", 'ulimit -S -f "$0"; "$@"', max_kilobytes, *COMMAND, "status"]
    done = await anyio.run_process(command, env=nanobee.environment)
    return done.stdout.decode()


async def test_a_gateway_on_a_full_disk_loses_nothing_says_so_and_recovers_without_a_restart(
    nanobee: Nanobee, server: ModelServer, telegram: TelegramServer
) -> None:
    ann = telegram.private(ANN)
    for text in ("one", "two"):
        server.reply_text(text)
    with anyio.fail_after(PROCESS_SECONDS):
        gateway = await start(nanobee)
        ann.says("hi")
        await telegram.wait_texts("one")
        assert "cannot be written" not in await status(nanobee, "unlimited")
        limit_files(gateway.process.pid, 0)
        ann.says("hi again")
        await gateway.wait_logged("cannot be written")
        assert len(telegram.updates.acknowledged) == 1
        assert f"{nanobee.state} cannot be written" in await status(nanobee, "0")
        limit_files(gateway.process.pid, -1)
        await telegram.wait_texts("one", "two")
        await telegram.wait_acknowledged(2)
        assert "cannot be written" not in await status(nanobee, "unlimited")
        assert await gateway.end() == 0
