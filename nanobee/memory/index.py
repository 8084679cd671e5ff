"""Index: what a scope's files say, by words, in SQLite. It may be deleted at any time: the files make it again.

The row ids are times, so that the newest come first and a span of time is a range of rows. The
words are cut by us, two neighboring characters of Chinese at a time: neither of FTS5's own
tokenizers finds a Chinese word of two characters.
"""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

from nanobee.errors import StateError
from nanobee.memory.entries import Entry, Source, Tier
from nanobee.memory.indexed import Gone, IndexedFile, Piece
from nanobee.memory.words import tokens
from nanobee.workspace import make_private_folder

logger = logging.getLogger(__name__)

VERSION = 1
TABLES = """
create table file(
    path text primary key, size integer not null, mtime integer not null, inode integer not null,
    offset integer not null, mark blob not null
);
create table entry(
    at integer primary key, id integer not null, tier text not null, file text not null,
    session text, first integer, last integer, expires real, trusted integer not null, text text not null
);
create index entry_file on entry(file, first);
create index entry_id on entry(id);
create virtual table word using fts5(
    words, tier, content='', tokenize="unicode61 remove_diacritics 0 categories 'L* N* Co Mn Mc'"
);
"""
PRAGMAS = "pragma journal_mode = wal; pragma synchronous = off; pragma busy_timeout = 5000; pragma secure_delete = on;"
COLUMNS = "at, id, tier, session, first, last, expires, trusted, text"
MARK_BYTES = 256
"""Of a growing file before the offset: whether they are still the same tells whether it has only grown."""
WORK_SECONDS = 0.004
REST_SECONDS = 0.002
"""Long work rests in between, so that the event loop's thread gets its turn at once."""
PER_COMMIT = 1_000
MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class _Known:
    """What the index knows of a file."""

    size: int
    mtime: int
    inode: int
    offset: int
    mark: bytes


class _StoppedError(Exception):
    """The process ends; what is left of a batch is done by the next one."""


class Index:
    """The index of one scope. Blocking: use it in worker threads; one of them writes at a time."""

    def __init__(self, path: Path, is_stopped: Callable[[], bool] = lambda: False) -> None:
        self.path = path
        self._is_stopped = is_stopped
        self._writing = threading.Lock()
        self._rested_at = 0.0

    # Reading

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for queries, beside whoever writes.

        Raises:
            StateError: it cannot be read.
        """
        with self._open() as db:
            try:
                yield db
            except sqlite3.DatabaseError as error:
                raise StateError(f"the search index {self.path} cannot be read: {error}") from error

    # Writing

    def update(self, folder: Path, files: Sequence[IndexedFile], *, max_seconds: float) -> bool:
        """Take in what has changed in these files; False where the time was up before all was.

        Files of `folder` that are not among them are forgotten. A file that cannot be read is left
        out and logged. An index that is broken is made anew.

        Raises:
            StateError: the index cannot be written.
        """
        ends_at = time.monotonic() + max_seconds
        if not self._writing.acquire(timeout=max_seconds):
            return False
        try:
            with self._open() as db:
                self._drop_missing(db, folder, {str(file.path) for file in files})
                return all(self._take(db, file, ends_at) for file in files)
        except _StoppedError:
            return False
        except sqlite3.DatabaseError as error:
            logger.warning("the search index %s is made anew: %s", self.path, error)
            self.delete()
            return False
        finally:
            self._writing.release()

    def _drop_missing(self, db: sqlite3.Connection, folder: Path, present: set[str]) -> None:
        between = (f"{folder}{os.sep}", f"{folder}{chr(ord(os.sep) + 1)}")
        known = db.execute("select path from file where path > ? and path < ?", between).fetchall()
        for (path,) in known:
            if path not in present:
                self._forget_file(db, path)

    def delete(self) -> None:
        """Delete the index; the next update makes it again."""
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    @staticmethod
    def _create(db: sqlite3.Connection) -> None:
        """Make the tables, unless another thread did so a moment ago."""
        db.execute("begin immediate")
        if int(db.execute("pragma user_version").fetchone()[0]) == 0:
            for statement in TABLES.split(";"):
                db.execute(statement)
            db.execute(f"pragma user_version = {VERSION}")
        db.execute("commit")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        make_private_folder(self.path.parent)
        try:
            db = sqlite3.connect(self.path, isolation_level=None)
        except sqlite3.Error as error:
            raise StateError(f"the search index {self.path} cannot be opened: {error}") from error
        try:
            db.executescript(PRAGMAS)
            found = int(db.execute("pragma user_version").fetchone()[0])
            if found not in (0, VERSION):
                raise sqlite3.DatabaseError(f"it has the form {found}, this is {VERSION}")
            if found == 0:
                self._create(db)
            yield db
        finally:
            db.close()

    def _take(self, db: sqlite3.Connection, file: IndexedFile, ends_at: float) -> bool:
        """Bring one file up to date; False where the time was up before."""
        try:
            stat = file.path.stat()
            known = _known(db, file)
            if known is not None and (known.size, known.mtime, known.inode) == _identity(stat):
                return True
            if time.monotonic() >= ends_at:
                return False
            start = known.offset if known is not None and _has_only_grown(file, known) else 0
            if start == 0:
                self._forget_file(db, str(file.path))
            return self._read_on(db, file, start, ends_at)
        except FileNotFoundError:
            self._forget_file(db, str(file.path))
        except (OSError, StateError) as error:
            logger.warning("%s is not in the search index: %s", file.path, error)
        return True

    def _read_on(self, db: sqlite3.Connection, file: IndexedFile, start: int, ends_at: float) -> bool:
        """Add what the file says from `start` on, batch by batch as long as there is time."""
        identity = _identity(file.path.stat())
        offset = start
        for batch in _batches(file.read(start)):
            with _transaction(db):
                for piece in batch:
                    self._add(db, str(file.path), piece)
                    offset = piece.end or offset
                    self._rest()
                _remember(db, file, (-1, 0, 0), offset)
            if file.only_grows and time.monotonic() >= ends_at:
                return False
        _remember(db, file, identity, offset)
        return True

    def _add(self, db: sqlite3.Connection, path: str, piece: Piece | Gone) -> None:
        if isinstance(piece, Gone):
            for seq in piece.seqs:
                self._remove(db, "file = ? and first = ? and last = first", path, seq)
            return
        entry = piece.entry
        if db.execute("select 1 from entry where id = ? and file = ?", (entry.id, path)).fetchone():
            return  # a batch that died is read again
        at = _free_place(db, int(entry.at.timestamp() * MICROSECONDS))
        source = entry.source
        expires = None if entry.expires_at is None else entry.expires_at.timestamp()
        where = (source.session_key, source.first, source.last) if source else (None, None, None)
        db.execute(
            "insert into entry values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (at, entry.id, entry.tier, path, *where, expires, entry.is_trusted, _storable(entry.text)),
        )
        db.execute(
            "insert into word(rowid, words, tier) values (?, ?, ?)", (at, " ".join(tokens(entry.text)), entry.tier)
        )

    def _remove(self, db: sqlite3.Connection, where: str, *values: object) -> None:
        found = db.execute(f"select at, text, tier from entry where {where}", values).fetchall()
        for at, text, tier in found:
            db.execute(
                "insert into word(word, rowid, words, tier) values ('delete', ?, ?, ?)",
                (at, " ".join(tokens(text)), tier),
            )
            db.execute("delete from entry where at = ?", (at,))
            self._rest()

    def _forget_file(self, db: sqlite3.Connection, path: str) -> None:
        with _transaction(db):
            self._remove(db, "file = ?", path)
            db.execute("delete from file where path = ?", (path,))

    def _rest(self) -> None:
        now = time.monotonic()
        if now - self._rested_at >= WORK_SECONDS:
            if self._is_stopped():
                raise _StoppedError
            time.sleep(REST_SECONDS)
            self._rested_at = time.monotonic()


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("begin immediate")
    try:
        yield
    except BaseException:
        db.execute("rollback")
        raise
    db.execute("commit")


def _batches(pieces: Iterator[Piece | Gone]) -> Iterator[list[Piece | Gone]]:
    while batch := list(islice(pieces, PER_COMMIT)):
        yield batch


def _identity(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


def _known(db: sqlite3.Connection, file: IndexedFile) -> _Known | None:
    row = db.execute("select size, mtime, inode, offset, mark from file where path = ?", (str(file.path),)).fetchone()
    return None if row is None else _Known(*row)


def _remember(db: sqlite3.Connection, file: IndexedFile, identity: tuple[int, int, int], offset: int) -> None:
    mark = _mark(file.path, offset) if file.only_grows else b""
    db.execute(
        "insert into file values (?, ?, ?, ?, ?, ?) on conflict(path) do update set size = excluded.size,"
        " mtime = excluded.mtime, inode = excluded.inode, offset = excluded.offset, mark = excluded.mark",
        (str(file.path), *identity, offset, mark),
    )


def _has_only_grown(file: IndexedFile, known: _Known) -> bool:
    """Whether what was read of a growing file is still there as it was."""
    return file.only_grows and file.path.stat().st_size >= known.offset and _mark(file.path, known.offset) == known.mark


def _mark(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        start = max(offset - MARK_BYTES, 0)
        file.seek(start)
        return blake2b(file.read(offset - start), digest_size=16).digest()


def _free_place(db: sqlite3.Connection, wanted: int) -> int:
    """A row id for a time, as close behind it as there is room: many entries know their minute only."""
    if db.execute("select 1 from entry where at = ?", (wanted,)).fetchone() is None:
        return wanted
    last = db.execute(
        "select max(at) from entry where at >= ? and at < ?", (wanted, wanted + 30 * MICROSECONDS)
    ).fetchone()[0]
    return int(last) + 1


def _storable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def read_entry(row: tuple[Any, ...]) -> Entry:
    """Read `COLUMNS`."""
    at, number, tier, session, first, last, expires, trusted, text = row
    return Entry(
        id=number,
        tier=Tier(tier),
        text=text,
        at=datetime.fromtimestamp(at / MICROSECONDS, UTC),
        source=None if session is None else Source(session, first, last),
        expires_at=None if expires is None else datetime.fromtimestamp(expires, UTC),
        is_trusted=bool(trusted),
    )
