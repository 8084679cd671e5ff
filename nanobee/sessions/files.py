"""SessionFiles: the JSONL files of all sessions, appended after the bus's commits."""

import base64
import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from threading import Lock

from nanobee.bus.lines import Line
from nanobee.sessions.names import SUFFIX, key_of_path, path_of_key
from nanobee.sessions.tail import BadLine, read_backwards

logger = logging.getLogger(__name__)

FOLDER = "sessions"
BAD_SUFFIX = ".bad"
"""Side file of a session's file that keeps bytes which are not a session line."""


class SessionFiles:
    """Implements `nanobee.bus.projection.Projection`; also reads and lists the files."""

    def __init__(self, state: Path) -> None:
        self.root = state / FOLDER
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._is_whole: set[str] = set()
        self._failed: set[str] = set()
        self._lock = Lock()
        self._named: set[Path] = set()
        """Files whose names are on disk."""

    def path(self, session_key: str) -> Path:
        """Where the session's file is, or would be."""
        return self.root / path_of_key(session_key)

    def append(self, lines: Sequence[tuple[str, str]]) -> None:
        """Append (session key, JSON line) in order.

        A failure is logged and remembered: that session's file gets no later line before those
        that it lacks, so that its order holds.
        """
        grouped: dict[str, list[str]] = {}
        for session_key, line in lines:
            grouped.setdefault(session_key, []).append(line)
        with self._lock:
            for session_key, texts in grouped.items():
                if session_key in self._failed:
                    texts = self._following(session_key, texts)
                if texts:
                    self._append_one(session_key, "".join(f"{text}\n" for text in texts).encode())

    def _following(self, session_key: str, texts: Sequence[str]) -> list[str]:
        """The lines that the file lacks, in order; none where there would be a gap before them."""
        try:
            last = self.last_seq(session_key)
        except OSError:
            return []
        by_seq = {Line.from_json(text).seq: text for text in texts}
        return [by_seq[seq] for seq in sorted(by_seq) if seq > last] if last + 1 in by_seq else []

    def _append_one(self, session_key: str, data: bytes) -> None:
        path = self.path(session_key)
        try:
            if session_key not in self._is_whole:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                data = self._missing_newline(path) + data
            with path.open("ab", buffering=0) as file:
                before = os.fstat(file.fileno()).st_size
                if file.write(data) != len(data):
                    os.ftruncate(file.fileno(), before)
                    raise OSError("the disk took a part of it only")
        except OSError as error:
            self._failed.add(session_key)
            self._is_whole.discard(session_key)
            logger.error("session file %s cannot be written (%s); its lines stay in the journal", path, error)
        else:
            self._failed.discard(session_key)
            self._is_whole.add(session_key)

    @staticmethod
    def _missing_newline(path: Path) -> bytes:
        """A newline where the file's last line was torn, so that it costs that line only."""
        if not path.exists() or path.stat().st_size == 0:
            return b""
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return b"" if file.read(1) == b"\n" else b"\n"

    def sync(self, session_keys: Iterable[str]) -> set[str]:
        """Fsync the sessions' files; return those for which all appended lines are on disk."""
        safe = set()
        for session_key in session_keys:
            with self._lock:
                if session_key in self._failed:
                    continue
            try:
                self._sync_one(self.path(session_key))
            except OSError as error:
                logger.warning("session file %s cannot be synced: %s", self.path(session_key), error)
            else:
                safe.add(session_key)
        return safe

    def _sync_one(self, path: Path) -> None:
        with path.open("rb") as file:
            os.fsync(file.fileno())
        if path not in self._named:
            # A new file's name stands in its folders, up to the one that was there before.
            for folder in (path.parent, *path.parent.parents):
                descriptor = os.open(folder, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                if folder == self.root:
                    break
            self._named.add(path)

    def last_seq(self, session_key: str) -> int:
        """The last `seq` in the session's file, 0 where it has none."""
        for line in read_backwards(self.path(session_key)):
            if isinstance(line, Line):
                return line.seq
        return 0

    def read_backwards(self, session_key: str) -> Iterator[Line]:
        """The session's lines, last first. Bad bytes are kept in the side file, and said once."""
        path = self.path(session_key)
        bad: list[BadLine] = []
        try:
            for line in read_backwards(path):
                if isinstance(line, Line):
                    yield line
                else:
                    bad.append(line)
        finally:
            if bad:
                _keep(path, bad)

    def keys(self) -> list[str]:
        """The keys of all sessions that have a file, sorted."""
        found = []
        for path in self.root.rglob(f"*{SUFFIX}"):
            key = key_of_path(PurePosixPath(path.relative_to(self.root).as_posix()))
            if key is not None:
                found.append(key)
        return sorted(found)


def _keep(path: Path, bad: Sequence[BadLine]) -> None:
    """Write bad bytes to the side file, each once."""
    side = path.with_name(path.name + BAD_SUFFIX)
    try:
        known = set(side.read_text(encoding="ascii").splitlines()) if side.exists() else set()
        entries = [
            json.dumps({"offset": line.offset, "base64": base64.b64encode(line.data).decode("ascii")})
            for line in reversed(bad)
        ]
        new = [entry for entry in entries if entry not in known]
        if not new:
            return
        with side.open("a", encoding="ascii") as file:
            file.writelines(f"{entry}\n" for entry in new)
    except OSError as error:
        logger.warning("bad lines of %s could not be put aside: %s", path, error)
        return
    logger.warning("%d unreadable lines in %s were skipped; their bytes are kept in %s", len(new), path, side)
