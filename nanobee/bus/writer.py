"""Writer: one thread that owns the database and shares each commit among all who wait."""

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from nanobee.bus import schema
from nanobee.bus.checkpoints import checkpoint
from nanobee.errors import BusError, NanobeeError

logger = logging.getLogger(__name__)

T = TypeVar("T")
MAX_BATCH = 512
"""Operations that share one transaction at most, so that nobody waits long for the others."""
CLOSE_SECONDS = 10.0
"""How long closing waits for the thread to commit what is queued."""


@dataclass(slots=True)
class Transaction:
    """What an operation may do beside its SQL: tell what to announce after the commit."""

    db: sqlite3.Connection
    after_commit: list[Callable[[], None]] = field(default_factory=list)
    """Called on the event loop once the operation is on disk."""
    lines: list[tuple[str, str]] = field(default_factory=list)
    """(session key, JSON line) that the projection appends after the commit."""
    after_lines: list[Callable[[], None]] = field(default_factory=list)
    """Called on the event loop once the projection was given the lines."""
    changed: bool = True
    """An operation that found nothing to do sets it to False: nobody waits for a commit."""


Operation = Callable[[Transaction], T]
Project = Callable[[list[tuple[str, str]]], None]


@dataclass(slots=True, eq=False)
class _Job(Generic[T]):
    operation: Operation[T]
    future: "asyncio.Future[T]"
    is_waited_for: bool
    tx: Transaction
    result: T | None = None
    error: BaseException | None = None

    @property
    def waits_for_commit(self) -> bool:
        return self.is_waited_for and self.tx.changed and self.error is None


class Writer:
    """Runs operations in the order in which they were submitted, many in one transaction.

    An operation that raises is rolled back alone; a commit that fails (disk full) fails
    all operations of its batch with BusError.
    """

    def __init__(self, path: Path, project: Project) -> None:
        self._path = path
        self._project = project
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._db = self._open()
        self._thread = threading.Thread(target=self._run, name="bus-writer", daemon=True)
        self._is_closed = False

    def _open(self) -> sqlite3.Connection:
        db: sqlite3.Connection | None = None
        try:
            self._path.touch(mode=0o600)
            db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, cached_statements=256)
            schema.prepare(db)
        except (sqlite3.Error, OSError, ValueError) as error:
            if db is not None:
                db.close()
            raise BusError(f"The bus {self._path} cannot be opened: {error}") from error
        return db

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    async def submit(self, operation: Operation[T], *, is_waited_for: bool = True) -> T:
        """Run `operation`; return after its commit, or after its execution where it isn't waited for.

        Raises:
            BusError: nothing of it was stored.
            NanobeeError: what the operation itself raised; nothing of it was stored.
        """
        if self._is_closed:
            raise BusError(f"The bus {self._path} is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(_Job(operation, future, is_waited_for, Transaction(self._db)))
        return await future

    async def aclose(self) -> None:
        """Commit what is queued, then close the database."""
        if self._is_closed:
            return
        self._is_closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join, CLOSE_SECONDS)

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch = [self._jobs.get()]
            while len(batch) < MAX_BATCH and not self._jobs.empty():
                batch.append(self._jobs.get())
            is_open = None not in batch
            self._commit([job for job in batch if job is not None])
        self._db.close()

    def _commit(self, jobs: list[_Job[Any]]) -> None:
        if not jobs:
            return
        try:
            self._db.execute("begin immediate")
            for job in jobs:
                self._execute(job)
            early = [job for job in jobs if not job.waits_for_commit]
            if early:
                self._call(self._resolve, early)
            self._db.execute("commit")
        except sqlite3.Error as error:
            self._fail(jobs, error)
            return
        self._call(self._announce, jobs)
        self._append_lines([job.tx for job in jobs if job.error is None])

    def _append_lines(self, done: list[Transaction]) -> None:
        lines = [line for tx in done for line in tx.lines]
        try:
            if lines:
                self._project(lines)
                checkpoint("lines.appended")
        except Exception:
            # The journal has the lines; a fault of the projection must not end the thread that stores all else.
            logger.exception("session files could not be written")
        for tx in done:
            for call in tx.after_lines:
                self._call(call)

    def _execute(self, job: _Job[Any]) -> None:
        self._db.execute("savepoint job")
        try:
            job.result = job.operation(job.tx)
        except (NanobeeError, sqlite3.Error) as error:
            job.error = error
        except Exception as error:
            # A fault of ours in one operation must not end the thread that stores all others.
            logger.exception("a bus operation failed")
            job.error = error
        if job.error is not None and self._db.in_transaction:
            self._db.execute("rollback to job")
        self._db.execute("release job")

    def _fail(self, jobs: list[_Job[Any]], error: sqlite3.Error) -> None:
        logger.error("the bus %s cannot be written: %s", self._path, error)
        if self._db.in_transaction:
            try:
                self._db.execute("rollback")
            except sqlite3.Error:
                logger.exception("the bus %s could not roll back", self._path)
        for job in jobs:
            job.error = error
        self._call(self._resolve, jobs)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            logger.warning("the event loop ended before the bus; what was committed stays committed")

    def _announce(self, jobs: list[_Job[Any]]) -> None:
        self._resolve(jobs)
        for job in jobs:
            if job.error is None:
                for call in job.tx.after_commit:
                    call()

    def _resolve(self, jobs: list[_Job[Any]]) -> None:
        for job in jobs:
            if job.future.done():
                continue
            if job.error is None:
                job.future.set_result(job.result)
            elif isinstance(job.error, sqlite3.Error):
                failure = BusError(f"The bus {self._path} cannot be written: {job.error}")
                failure.__cause__ = job.error
                job.future.set_exception(failure)
            else:
                job.future.set_exception(job.error)
