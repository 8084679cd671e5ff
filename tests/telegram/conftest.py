"""A fake Telegram on loopback, and channels on it."""

from collections.abc import AsyncIterator, Callable

import anyio.lowlevel
import pytest
from pydantic import SecretStr

from nanobee.testing.telegram_server import TelegramServer
from nanobee.testing.watch import Watch
from nanobee_telegram import TelegramChannel, TelegramSettings

TOKEN = "424242:CANARY-token-that-nobody-may-see"


class Pauses:
    """Stands in for sleeping: keeps what was asked for, and takes no time."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._watch = Watch()

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        self._watch.notify()
        await anyio.lowlevel.checkpoint()

    async def wait(self, count: int) -> None:
        """Wait until so many pauses were asked for."""
        await self._watch.until(lambda: len(self.asked) >= count)


class Clock:
    """Stands in for the event loop's clock: time passes when the test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def tick(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with TelegramServer(TOKEN) as server:
        yield server


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def clock() -> Clock:
    return Clock()


OpenChannel = Callable[..., TelegramChannel]
"""Takes the settings' keys; token and address are filled in."""


@pytest.fixture
async def open_channel(server: TelegramServer, pauses: Pauses, clock: Clock) -> AsyncIterator[OpenChannel]:
    """Makes channels on the fake; they are closed after the test."""
    opened: list[TelegramChannel] = []

    def open_channel(**keys: object) -> TelegramChannel:
        settings = {"token": SecretStr(TOKEN), "base_url": server.base_url, **keys}
        channel = TelegramChannel("telegram", TelegramSettings.model_validate(settings), sleep=pauses, now=clock)
        opened.append(channel)
        return channel

    yield open_channel
    for channel in opened:
        await channel.aclose()


@pytest.fixture
def server_less_channel() -> TelegramChannel:
    """A channel that no test may connect."""
    return TelegramChannel("telegram", TelegramSettings(token=SecretStr(TOKEN), base_url="http://127.0.0.1:9"))
