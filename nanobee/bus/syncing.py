"""Syncer: puts session files on disk, then forgets the journal rows that they hold."""

import logging
from collections.abc import Callable

import anyio

from nanobee.bus.checkpoints import checkpoint
from nanobee.bus.projection import Projection
from nanobee.bus.writer import Transaction, Writer
from nanobee.errors import BusError

logger = logging.getLogger(__name__)

SYNC_SECONDS = 2.0
"""How long journal rows whose lines stand in a session file wait for the file's fsync."""


class Syncer:
    """Knows which session files grew since their last fsync. Lives on the event loop."""

    def __init__(self, writer: Writer, projection: Projection) -> None:
        self._writer = writer
        self._projection = projection
        self._unsynced: dict[str, int] = {}
        self._has_unsynced = anyio.Event()

    def note(self, session_key: str, seq: int) -> None:
        """The session's file was given lines up to `seq`."""
        self._unsynced[session_key] = max(seq, self._unsynced.get(session_key, 0))
        self._has_unsynced.set()

    async def run(self) -> None:
        """Sync some time after files grew, until cancelled."""
        while True:
            await self._has_unsynced.wait()
            await anyio.sleep(SYNC_SECONDS)
            await self.finish()

    async def finish(self) -> None:
        """Sync once; a failure leaves the lines in the journal and is logged."""
        try:
            await self.sync()
        except BusError as error:
            logger.warning("%s; the journal keeps its lines", error)

    async def sync(self) -> None:
        """Fsync the session files that grew, then forget their journal rows.

        What was committed before the call is in the files by then, so it is among it.

        Raises:
            BusError: the journal cannot be written.
        """
        await self._writer.submit(_look, is_waited_for=False)
        batch, self._unsynced, self._has_unsynced = self._unsynced, {}, anyio.Event()
        safe = await anyio.to_thread.run_sync(self._projection.sync, list(batch))
        done = [(key, seq) for key, seq in batch.items() if key in safe]
        behind = [(key, seq) for key, seq in batch.items() if key not in safe]

        def operation(tx: Transaction) -> None:
            tx.changed = bool(done)
            tx.db.executemany("delete from journal where session = ? and seq <= ?", done)
            for session_key, seq in behind:
                self._complete(tx, session_key, seq)
            checkpoint("lines.synced")

        try:
            await self._writer.submit(operation)
        except BusError:
            for session_key, seq in batch.items():
                self.note(session_key, seq)
            raise

    def complete(self, tx: Transaction) -> None:
        """At start: hand the lines to the projection that the session files lack."""
        sessions = tx.db.execute("select session, max(seq) from journal group by session").fetchall()
        for session_key, last in sessions:
            self._complete(tx, session_key, last)

    def _complete(self, tx: Transaction, session_key: str, last: int) -> None:
        tx.after_lines.append(self._noting(session_key, last))
        try:
            in_file = self._projection.last_seq(session_key)
        except OSError as error:
            logger.error("the file of session %s cannot be read: %s", session_key, error)
            return
        missing = tx.db.execute(
            "select session, line from journal where session = ? and seq > ? order by seq", (session_key, in_file)
        )
        tx.lines += missing.fetchall()

    def _noting(self, session_key: str, seq: int) -> Callable[[], None]:
        return lambda: self.note(session_key, seq)


def _look(tx: Transaction) -> None:
    """Changes nothing; once it has run, the lines of all earlier transitions are in their files."""
    tx.changed = False
