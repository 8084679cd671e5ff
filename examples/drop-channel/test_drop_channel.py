"""The drop channel holds to the channel contract, and a whole gateway answers through it."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from anyio import from_thread
from drop_channel import DropChannel, DropSettings

from nanobee.errors import NotSentError
from nanobee.messages import Address, OutboundPart
from nanobee.testing.channel_contract import (
    AcknowledgingContract,
    ChannelHarness,
    ReceivingContract,
    SendingContract,
    part_of,
)
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.model_server import ModelServer
from nanobee.testing.watch import Watch


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class WatchedChannel(DropChannel):
    """Tells when it has taken files away or written one."""

    def __init__(self, folder: Path) -> None:
        super().__init__("drop", DropSettings(folder=folder, poll_seconds=0.01, allow_from=("1001",)))
        self.watch = Watch()

    def _forget(self, files: list[Path]) -> None:
        super()._forget(files)
        from_thread.run_sync(self.watch.notify)

    def _write(self, folder: Path, part: OutboundPart) -> str:
        name = super()._write(folder, part)
        from_thread.run_sync(self.watch.notify)
        return name


class DropHarness(ChannelHarness):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._said = 0
        self.restart()

    @property
    def channel(self) -> WatchedChannel:
        return self._channel

    @property
    def address(self) -> Address:
        return Address("drop", "1001")

    def restart(self) -> None:
        self._channel = WatchedChannel(self._folder)

    async def say(self, text: str, *, sender: str = "1001") -> None:
        folder = self._folder / "in" / sender
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f"{next(self._numbers):04}.draft"
        draft.write_text(text, encoding="utf-8")
        draft.rename(draft.with_suffix(".txt"))
        self._said += 1

    async def visible(self) -> Sequence[str]:
        return [file.read_text(encoding="utf-8") for file in sorted((self._folder / "out").glob("*/*.md"))]

    def acknowledged(self) -> int:
        return self._said - len(list((self._folder / "in").glob("*/*.txt")))

    async def wait_acknowledged(self, count: int) -> None:
        await self._channel.watch.until(lambda: self.acknowledged() >= count)


class TestDropChannel(ReceivingContract, AcknowledgingContract, SendingContract):
    package = "drop_channel"

    @asynccontextmanager
    async def open_harness(self) -> AsyncIterator[ChannelHarness]:
        with TemporaryDirectory() as folder:
            yield DropHarness(Path(folder))


async def test_a_folder_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("no folder", encoding="utf-8")
    with pytest.raises(NotSentError):
        await WatchedChannel(tmp_path).send(part_of(Address("drop", "1001"), "an answer"))


async def test_a_question_in_a_file_gets_its_answer_in_a_file(tmp_path: Path) -> None:
    harness = DropHarness(tmp_path / "drop")
    async with ModelServer() as server:
        server.reply_text("About 384,400 km.")
        async with GatewayRig(tmp_path, server.base_url).open(others={"drop": harness.channel}):
            await harness.say("How far is the moon?")
            await harness.channel.watch.until(lambda: any((tmp_path / "drop" / "out").glob("*/*.md")))
    assert list(await harness.visible()) == ["About 384,400 km."]
    assert harness.acknowledged() == 1
