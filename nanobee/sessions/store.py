"""SessionStore: sessions by key, loaded from the tail of their files and from the journal."""

from collections import OrderedDict
from typing import Protocol

import anyio

from nanobee.bus.lines import Line, LineKind
from nanobee.sessions.files import SessionFiles
from nanobee.sessions.session import MAX_LINES, Session

MAX_CACHED = 256
"""Sessions kept in memory; the least recently used goes."""

MAX_READERS = 8
"""Session files being read at once: each takes a thread."""


class Journal(Protocol):
    """The part of the bus that the store needs."""

    async def journal(self, session_key: str) -> tuple[Line, ...]:
        """The session's lines that are not yet known to be in its file."""
        ...


class SessionStore:
    """Gives a turn its session. A session is worked on by one turn at a time."""

    def __init__(self, files: SessionFiles, journal: Journal) -> None:
        self._files = files
        self._journal = journal
        self._cached: OrderedDict[str, Session] = OrderedDict()
        self._readers = anyio.CapacityLimiter(MAX_READERS)

    async def load(self, session_key: str) -> Session:
        """The session with all lines that were committed before the call."""
        cached = self._cached.get(session_key)
        if cached is not None:
            self._cached.move_to_end(session_key)
            return cached
        # The journal first: a line leaves it only once it is in the file.
        pending = await self._journal.journal(session_key)
        in_file = await anyio.to_thread.run_sync(self._read_tail, session_key, limiter=self._readers)
        last = in_file[-1].seq if in_file else 0
        session = Session(session_key)
        session.extend([*in_file, *(line for line in pending if line.seq > last)])
        self._cached[session_key] = session
        if len(self._cached) > MAX_CACHED:
            self._cached.popitem(last=False)
        return session

    def forget(self, session_key: str) -> None:
        """Drop a session from memory, where lines were written that its object does not know."""
        self._cached.pop(session_key, None)

    def _read_tail(self, session_key: str) -> list[Line]:
        lines: list[Line] = []
        for line in self._files.read_backwards(session_key):
            lines.append(line)
            if line.kind == LineKind.RESET or len(lines) >= MAX_LINES:
                break
        lines.reverse()
        return lines
