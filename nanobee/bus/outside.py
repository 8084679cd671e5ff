"""Outside: the bus read and changed by a process that does not hold the state folder.

SQLite keeps such a process and the holder apart: a change is one short transaction, which the
holder's own wait for. Only rows may be changed so, never the journal: the session files follow
what the holder itself wrote.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from nanobee.bus.schema import VERSION
from nanobee.bus.sqlite import FILE_NAME
from nanobee.bus.writer import Transaction
from nanobee.errors import BusError

BUSY_SECONDS = 5.0
"""How long a read or a change waits for the holder's transaction or checkpoint."""


@contextmanager
def reading(state: Path) -> Iterator[sqlite3.Connection | None]:
    """A connection that cannot write; None where there is no bus yet.

    Raises:
        BusError: the file is there, but it cannot be read, or was written by another version.
    """
    path = state / FILE_NAME
    if not path.exists():
        yield None
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_SECONDS)) as db:
            _check_version(db, path)
            yield db
    except sqlite3.Error as error:
        raise BusError(f"The bus {path} cannot be read: {error}") from error


@contextmanager
def changing(state: Path) -> Iterator[Transaction]:
    """One transaction, committed with the end of the block, and undone by any error in it.

    Raises:
        BusError: there is no bus, or it cannot be written.
    """
    path = state / FILE_NAME
    if not path.exists():
        raise BusError(f"There is no bus in {state} yet")
    try:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)) as db:
            _check_version(db, path)
            db.execute("pragma synchronous = full")
            db.execute("pragma foreign_keys = on")
            db.execute("begin immediate")
            tx = Transaction(db)
            try:
                yield tx
            except BaseException:
                db.execute("rollback")
                raise
            db.execute("commit")
    except sqlite3.Error as error:
        raise BusError(f"The bus {path} cannot be written: {error}") from error


def _check_version(db: sqlite3.Connection, path: Path) -> None:
    found = int(db.execute("pragma user_version").fetchone()[0])
    if found != VERSION:
        raise BusError(f"The bus {path} was written by another version of nanobee (schema {found}, not {VERSION})")
