"""GatewayProcess: the real gateway in a process of its own, between a fake Telegram and a model server."""

import signal
from dataclasses import dataclass, field
from pathlib import Path

from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from nanobee.testing.model_server import ModelServer
from nanobee.testing.telegram_server import TOKEN, TelegramServer
from tests.cli.conftest import Nanobee, provider

ANN, BOB = 1001, 1002


def install(home: Path, server: ModelServer, telegram: TelegramServer) -> Nanobee:
    """The command of a user whose configuration names both servers."""
    home.mkdir()
    made = Nanobee(home)
    made.configure(
        f"{provider(server)}channels: {{telegram: {{kind: telegram, token: '{TOKEN}', allow_from: ['*'],"
        f" base_url: '{telegram.base_url}'}}}}\nmemory: {{max_calls_per_day: 0}}\n"
    )
    return made


@dataclass
class GatewayProcess:
    """A gateway that was started."""

    process: Process
    log: str = field(default="", repr=False)

    async def wait_logged(self, text: str) -> None:
        """Wait until its log says `text`."""
        assert self.process.stderr is not None
        stream = TextReceiveStream(self.process.stderr, errors="replace")
        while text not in self.log:
            self.log += await stream.receive()

    async def end(self) -> int:
        """Ask it to end, and give how it ended."""
        self.process.terminate()
        return await self.wait()

    async def kill(self) -> None:
        """End it without any warning."""
        self.process.kill()
        assert await self.wait() == -signal.SIGKILL

    async def wait(self) -> int:
        """Wait for its end, taking in what it logs."""
        assert self.process.stderr is not None
        async for text in TextReceiveStream(self.process.stderr, errors="replace"):
            self.log += text
        return await self.process.wait()


async def start(nanobee: Nanobee) -> GatewayProcess:
    """Start a gateway; end it before the test does."""
    return GatewayProcess(await nanobee.start("gateway"))
