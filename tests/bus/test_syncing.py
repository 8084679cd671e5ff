"""Session files follow the journal: no journal row goes before its line is on disk, and a gap closes by itself."""

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import anyio
import anyio.lowlevel

from nanobee.bus import syncing
from nanobee.bus.lines import Line
from nanobee.bus.sqlite import open_bus
from nanobee.bus.writer import Transaction, Writer
from nanobee.sessions.files import SessionFiles
from nanobee.sessions.session import message_line
from nanobee.sessions.tail import read_backwards
from tests.bus.conftest import OpenBus, PlainNotices


def contents(files: SessionFiles, key: str = "test:1") -> list[object]:
    lines = [line for line in read_backwards(files.path(key)) if isinstance(line, Line)]
    return [line.data["content"] for line in lines][::-1]


async def test_a_line_is_told_of_only_when_the_file_has_it(tmp_path: Path) -> None:
    happened: list[str] = []
    is_told = anyio.Event()

    def project(lines: list[tuple[str, str]]) -> None:
        happened.append("projected")

    def operation(tx: Transaction) -> None:
        tx.lines.append(("test:1", "{}"))
        tx.after_lines += [lambda: happened.append("told"), is_told.set]

    writer = Writer(tmp_path / "bus.db", project)
    writer.start()
    await writer.submit(operation)
    with anyio.fail_after(10):
        await is_told.wait()
    assert happened == ["projected", "told"]
    await writer.aclose()


async def test_a_projection_that_falls_over_ends_no_transition_and_is_completed_at_the_next_start(
    tmp_path: Path,
) -> None:
    class Broken(SessionFiles):
        def append(self, lines: Sequence[tuple[str, str]]) -> None:
            raise RuntimeError("broken")

    async with open_bus(tmp_path, Broken(tmp_path), PlainNotices()) as bus:
        for text in ("one", "two"):
            await bus.append("test:1", [message_line("user", text)])
        assert len(await bus.journal("test:1")) == 2
    files = SessionFiles(tmp_path)
    async with open_bus(tmp_path, files, PlainNotices()):
        pass
    assert contents(files) == ["one", "two"]


async def test_a_session_file_that_could_not_be_written_is_completed_without_a_restart(open_state: OpenBus) -> None:
    async with open_state() as opened:
        path = opened.files.path("test:1")
        await opened.bus.append("test:1", [message_line("user", "one")])
        await opened.bus.syncer.sync()
        aside = path.rename(path.with_suffix(".aside"))
        path.mkdir()  # nothing can be appended to a folder
        for text in ("two", "three"):
            await opened.bus.append("test:1", [message_line("user", text)])
        await opened.bus.append("test:2", [message_line("user", "other")])
        await opened.bus.syncer.sync()
        assert [line.data["content"] for line in await opened.bus.journal("test:1")] == ["two", "three"]
        assert await opened.bus.journal("test:2") == ()
        path.rmdir()
        aside.rename(path)
        await opened.bus.append("test:1", [message_line("user", "four")])
        await opened.bus.syncer.sync()
        await opened.bus.syncer.sync()
        assert contents(opened.files) == ["one", "two", "three", "four"]
        assert await opened.bus.journal("test:1") == ()


async def test_a_session_that_is_quiet_is_completed_too(open_state: OpenBus) -> None:
    with patch.object(syncing, "SYNC_SECONDS", 0.0):
        async with open_state() as opened:
            await opened.bus.append("test:1", [message_line("user", "one")])
            await opened.bus.syncer.sync()
            path = opened.files.path("test:1")
            aside = path.rename(path.with_suffix(".aside"))
            path.mkdir()
            await opened.bus.append("test:1", [message_line("user", "two")])
            await opened.bus.syncer.sync()
            path.rmdir()
            aside.rename(path)
            with anyio.fail_after(10):
                while await opened.bus.journal("test:1"):
                    await anyio.lowlevel.checkpoint()
            assert contents(opened.files) == ["one", "two"]
