"""MortalBus: a real bus that can die at any moment, and is opened again on what a kill would leave.

`kill -9` keeps what was written to the files and nothing else. So a death is a copy of the state
folder, made on the bus's own thread at a chosen point, and opened as the next life; the old bus
is closed and what it still writes is not seen by anybody. A power cut also takes what the session
files were given after their last fsync.
"""

import os
import shutil
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from nanobee.bus import syncing
from nanobee.bus.bus import TurnRef
from nanobee.bus.holder import LOCK_NAME, PID_NAME, hold
from nanobee.bus.sqlite import FILE_NAME, SqliteBus, open_bus
from nanobee.bus.writer import Transaction
from nanobee.errors import BusError
from nanobee.sessions.files import SessionFiles
from tests.bus.conftest import LIMITS, Heard, PlainNotices

T = TypeVar("T")
BARRIER = "test:barrier"
Dump = dict[str, list[tuple[Any, ...]]]


class DyingFiles(SessionFiles):
    """Session files at whose append the process can die, before it or in the middle of it."""

    def __init__(self, state: Path) -> None:
        super().__init__(state)
        self.on_append: Callable[[list[tuple[str, str]]], None] | None = None
        self.synced: dict[str, int] = {}
        """Bytes of each session's file that a power cut leaves."""

    def append(self, lines: Sequence[tuple[str, str]]) -> None:
        """Append, after the armed death."""
        dying, self.on_append = self.on_append, None
        if dying is not None:
            dying(list(lines))
        super().append(lines)

    def sync(self, session_keys: Any) -> set[str]:
        """Fsync, and note what is safe."""
        keys = list(session_keys)
        sizes = {key: self.path(key).stat().st_size for key in keys if self.path(key).exists()}
        safe = super().sync(keys)
        self.synced.update({key: size for key, size in sizes.items() if key in safe})
        return safe


class MortalBus:
    """One life after the other; `bus` is the present one's. Used from outside of its event loop."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lives = 0
        self._stack = ExitStack()
        self._life = ExitStack()
        # Nothing may happen by the clock.
        self._stack.enter_context(patch.object(syncing, "SYNC_SECONDS", 3600.0))
        self._portal: BlockingPortal = self._stack.enter_context(start_blocking_portal())
        self._copied: Path | None = None
        self._synced: dict[str, int] = {}
        self.state = root / "life0"
        self._open()

    def _open(self) -> None:
        self.files = DyingFiles(self.state)
        self.files.synced.update(self._synced)
        self.heard = Heard()
        self._life.enter_context(hold(self.state))
        opening: AbstractContextManager[SqliteBus] = self._portal.wrap_async_context_manager(
            self._portal.call(open_bus, self.state, self.files, PlainNotices(), LIMITS)
        )
        self.bus = self._life.enter_context(opening)
        self.run(self.bus.listen, self.heard)
        self.settle()
        self.reader = sqlite3.connect(self.state / FILE_NAME, isolation_level=None)
        self._life.callback(self.reader.close)

    def close(self) -> None:
        """End for good."""
        self._life.close()
        self._stack.close()

    def run(self, call: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Wait for a transition."""
        return self._portal.call(call, *arguments)

    def settle(self) -> None:
        """Return once everything that was executed is committed, projected and announced."""
        for _ in range(2):
            self.run(self.bus.append, BARRIER, ())

    @property
    def has_died(self) -> bool:
        """Whether the armed death came; `kill` makes it true."""
        return self._copied is not None

    # Ends

    def restart(self) -> None:
        """Stop as SIGTERM does, and start again on the same folder."""
        self._life.close()
        self._synced = self.files.synced
        self._open()

    def kill(self, *, is_power_cut: bool = False, left: float = 0.0) -> None:
        """Die now, or at the point that was armed; then live again.

        Of what a power cut may take from a session file, the share `left` survives.
        """
        if self._copied is None:
            self.settle()
            self._copy(None)
        state, self._copied = self._copied, None
        assert state is not None
        if is_power_cut:
            self._cut_files(state, left)
        self.files.on_append = None
        self._life.close()
        shutil.rmtree(self.state)
        self.state = state
        self._open()

    def arm(self, torn: float | None) -> None:
        """Die when the next transition's lines are committed, with the share `torn` of their bytes in the files."""

        def die(lines: list[tuple[str, str]]) -> None:
            if self._copied is None:
                self._copy(None if torn is None else (lines, torn))

        self.files.on_append = die

    def disarm(self) -> None:
        """Do not die at the armed point."""
        self.files.on_append = None

    def kill_before_commit(self, call: Callable[[], Awaitable[object]]) -> None:
        """Die when a transition is executed but not committed: nothing of it may be found."""
        self.settle()
        before = self.dump()
        self._in_one_transaction(call, lambda tx: self._copy(None))
        assert self._copied is not None
        assert dump(self._copied / FILE_NAME) == before, "a transition was there before its commit"
        self.kill()

    def fail_commit(self, call: Callable[[], Awaitable[object]]) -> tuple[object, list[TurnRef]]:
        """Let the commit fail that a transition shares.

        Returns what its caller was told, and the turns that would run now.
        """
        self.settle()
        before = self.dump()
        refs: list[TurnRef] = []

        def spoil(tx: Transaction) -> None:
            found = tx.db.execute(
                "select distinct session, turn, epoch from inbox join session on key = session"
                " where state = 'running' and lane > 0"
            )
            refs.extend(TurnRef(*ref) for ref in found)
            tx.db.execute("pragma defer_foreign_keys = on")
            tx.db.execute("insert into suspension values ('!', 'nobody', '', '', '', '', '', '', '', null, 0, 0)")

        told = self._in_one_transaction(call, spoil)
        self.settle()
        assert self.dump() == before, "a part of a failed transaction stayed"
        return told, refs

    def _in_one_transaction(self, call: Callable[[], Awaitable[object]], last: Callable[[Transaction], None]) -> object:
        """Run a transition, then `last`, inside one transaction; returns what the caller was told."""
        gate, has_begun = threading.Event(), threading.Event()

        def wait(tx: Transaction) -> None:
            has_begun.set()
            gate.wait()

        writer = self.bus.syncer._writer

        async def both() -> object:
            told: list[object] = []

            async def first() -> None:
                try:
                    told.append(await call())
                except BusError as error:
                    told.append(error)

            async def quietly(operation: Callable[[Transaction], None]) -> None:
                with suppress(BusError):
                    await writer.submit(operation)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(quietly, wait)
                await anyio.to_thread.run_sync(has_begun.wait)
                tasks.start_soon(first)
                await anyio.wait_all_tasks_blocked()
                tasks.start_soon(quietly, last)
                await anyio.wait_all_tasks_blocked()
                gate.set()
            return told[0]

        return self.run(both)

    # What is left

    def _copy(self, torn: tuple[list[tuple[str, str]], float] | None) -> None:
        self._lives += 1
        copied = self._root / f"life{self._lives}"
        ignore = shutil.ignore_patterns("*-shm", LOCK_NAME, PID_NAME)
        shutil.copytree(self.state, copied, ignore=ignore)
        if torn is not None:
            lines, share = torn
            by_session: dict[str, bytes] = {}
            for key, line in lines:
                by_session[key] = by_session.get(key, b"") + f"{line}\n".encode()
            files = SessionFiles(copied)
            for key, data in by_session.items():
                # The newline is what SessionFiles itself begins with where the file's last line was torn before.
                data = files._missing_newline(files.path(key)) + data
                files.path(key).parent.mkdir(parents=True, exist_ok=True)
                with files.path(key).open("ab") as file:
                    file.write(data[: int(len(data) * share)])
        self._copied, self._synced = copied, dict(self.files.synced)

    def _cut_files(self, state: Path, left: float) -> None:
        files = SessionFiles(state)
        for key in files.keys():
            path = files.path(key)
            safe, size = self._synced.get(key, 0), path.stat().st_size
            os.truncate(path, max(safe, safe + int((size - safe) * left)))

    def dump(self) -> Dump:
        """All rows of all tables."""
        return dump(self.state / FILE_NAME)


def dump(path: Path) -> Dump:
    """All rows of a bus's file."""
    db = sqlite3.connect(path)
    try:
        tables = [name for (name,) in db.execute("select name from sqlite_master where type = 'table' order by name")]
        return {table: sorted(db.execute(f"select * from {table}").fetchall(), key=repr) for table in tables}
    finally:
        db.close()
