"""Removal: session lines, or whole sessions, taken off the disk for good. For the holder of the state folder only.

nanobee itself never deletes a session: this is what a person asks for by a command. What is taken
out leaves its numbers behind, so that the others keep theirs.
"""

import base64
import binascii
import json
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from nanobee.bus.lines import Line
from nanobee.bus.outside import BUSY_SECONDS
from nanobee.bus.sqlite import FILE_NAME
from nanobee.errors import BusError, StateError
from nanobee.sessions.files import BAD_SUFFIX, SessionFiles
from nanobee.sessions.texts import texts

REDACTED = "redacted"
"""Kind of the line that stands where one was taken out; readers skip it."""
MARK = "[redacted]"
"""Stands in the bus's rows where a text was."""
MIN_TEXT_CHARS = 12
"""Texts of a line that is taken out by its number are looked for in the bus from this length on."""
OPEN_STATES = "('arriving', 'ready', 'running', 'suspended', 'parked')"


@dataclass(frozen=True, slots=True)
class Removed:
    """What is gone."""

    lines: int = 0
    rows: int = 0
    """Of the bus: messages in and out that said it."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Takes out of one state folder, which the caller holds."""

    state: Path
    files: SessionFiles

    def redact(self, session_key: str, goes: Callable[[str], bool], seqs: frozenset[int] = frozenset()) -> Removed:
        """Take out the lines with these numbers, and those of whose texts one `goes`.

        Raises:
            StateError: a turn of the session still works with them, or the disk refuses.
        """

        said: set[str] = set()

        def is_gone(line: Line) -> bool:
            if line.seq in seqs:
                said.update(text for text in texts(line.data) if len(text) > MIN_TEXT_CHARS)
            return line.seq in seqs or any(map(goes, texts(line.data)))

        with self._bus() as db:
            self._refuse_open(db, session_key)
            lines = self._rewrite(session_key, is_gone)
            lines = max(lines, self._redact_journal(db, session_key, is_gone))
            rows = self._redact_rows(db, session_key, lambda text: text in said or goes(text))
            db.execute("commit")
            db.execute("vacuum")
            db.execute("pragma wal_checkpoint(truncate)")
        return Removed(lines, rows)

    def remove(self, session_key: str) -> None:
        """Delete a session's file, and its messages in the bus. A session of that name goes on with new numbers.

        Raises:
            StateError: a turn of the session still works, or the disk refuses.
        """
        with self._bus() as db:
            self._refuse_open(db, session_key)
            db.execute("delete from journal where session = ?", (session_key,))
            db.execute(f"delete from inbox where session = ? and state not in {OPEN_STATES}", (session_key,))
            db.execute("delete from suspension where session = ?", (session_key,))
            db.execute("delete from outbox where address = ?", (session_key,))
            db.execute("update consolidation set wanted = 0, answer = null where session = ?", (session_key,))
            path = self.files.path(session_key)
            for each in (path, path.with_name(path.name + BAD_SUFFIX)):
                each.unlink(missing_ok=True)
            db.execute("commit")
            db.execute("vacuum")

    def _bus(self) -> "closing[sqlite3.Connection]":
        try:
            db = sqlite3.connect(self.state / FILE_NAME, isolation_level=None, timeout=BUSY_SECONDS)
            db.executescript("pragma secure_delete = on; pragma synchronous = full; begin immediate;")
        except sqlite3.Error as error:
            raise BusError(f"The bus in {self.state} cannot be written: {error}") from error
        return closing(db)

    @staticmethod
    def _refuse_open(db: sqlite3.Connection, session_key: str) -> None:
        for sql in (
            f"select 1 from inbox where session = ? and state in {OPEN_STATES} limit 1",
            "select 1 from outbox where address = ? and state in ('ready', 'sending', 'unknown') limit 1",
        ):
            if db.execute(sql, (session_key,)).fetchone() is None:
                continue
            raise StateError(f"{session_key} has messages that are not done: see `nanobee bus ls`")

    def _rewrite(self, session_key: str, is_gone: Callable[[Line], bool]) -> int:
        path = self.files.path(session_key)
        if not path.exists():
            return 0
        count = 0

        def rows() -> Iterator[bytes]:
            nonlocal count
            for data in path.read_bytes().split(b"\n"):
                redacted = _redact(data, is_gone)
                count += redacted != data
                yield redacted

        _replace(path, b"\n".join(rows()))
        self._redact_side(path.with_name(path.name + BAD_SUFFIX))
        return count

    @staticmethod
    def _redact_side(side: Path) -> None:
        """Bytes that are no line may hold anything: nobody can say what, so they go."""
        if not side.exists():
            return
        rows = []
        for row in side.read_text(encoding="ascii", errors="replace").split("\n"):
            try:
                whole = json.loads(row)
                base64.b64decode(whole["base64"])
            except (ValueError, KeyError, TypeError, binascii.Error):
                continue
            rows.append(json.dumps({"offset": whole["offset"], "base64": ""}))
        _replace(side, "".join(f"{row}\n" for row in rows).encode())

    @staticmethod
    def _redact_journal(db: sqlite3.Connection, session_key: str, is_gone: Callable[[Line], bool]) -> int:
        found = db.execute("select seq, line from journal where session = ?", (session_key,)).fetchall()
        count = 0
        for seq, text in found:
            redacted = _redact(text.encode(), is_gone).decode()
            if redacted != text:
                count += 1
                db.execute("update journal set line = ? where session = ? and seq = ?", (redacted, session_key, seq))
        return count

    @staticmethod
    def _redact_rows(db: sqlite3.Connection, session_key: str, goes: Callable[[str], bool]) -> int:
        """Empty what the bus still keeps of done messages that say it."""
        count = 0
        for table, where, columns in (
            ("inbox", "session", ("payload", "message")),
            ("outbox", "address", ("payload",)),
            ("suspension", "session", ("arguments", "question", "answer")),
        ):
            found = db.execute(f"select rowid, {', '.join(columns)} from {table} where {where} = ?", (session_key,))
            for rowid, *values in found.fetchall():
                scrubbed = [None if value is None else _scrub_column(value, goes) for value in values]
                if scrubbed != values:
                    assignments = ", ".join(f"{column} = ?" for column in columns)
                    db.execute(f"update {table} set {assignments} where rowid = ?", (*scrubbed, rowid))
                    count += 1
        return count


def _redact(data: bytes, is_gone: Callable[[Line], bool]) -> bytes:
    try:
        line = Line.from_json(data)
    except (ValueError, RecursionError):
        return data
    if line.kind == REDACTED or not is_gone(line):
        return data
    return Line(line.seq, line.at, line.turn, REDACTED, {}).to_json().encode()


def _scrub_column(text: str, goes: Callable[[str], bool]) -> str:
    """A column's JSON with a mark in place of each text that goes; other columns hold one text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return MARK if goes(text) else text
    scrubbed = _scrub(value, goes)
    return text if scrubbed == value else json.dumps(scrubbed, ensure_ascii=False)


def _scrub(value: object, goes: Callable[[str], bool]) -> object:
    match value:
        case str():
            return MARK if any(map(goes, texts(value))) else value
        case dict():
            return {key: _scrub(each, goes) for key, each in value.items()}
        case list():
            return [_scrub(each, goes) for each in value]
        case _:
            return value


def _replace(path: Path, data: bytes) -> None:
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"{path} cannot be written: {error.strerror}") from error
