"""SessionStore: sessions by key, loaded from the tail of their files and from the journal."""

from collections import OrderedDict
from typing import Protocol

import anyio

from nanobee.bus.lines import Line, LineKind
from nanobee.sessions.files import SessionFiles
from nanobee.sessions.session import MAX_LINES, Session
from nanobee.tokens import estimate_tokens

MAX_CACHED = 256
"""Sessions kept in memory; the least recently used goes."""

MAX_READERS = 8
"""Session files being read at once: each takes a thread."""

DEFAULT_TOKENS = 40_000
"""Estimated tokens that are read of a session's file, where nobody says how many a context takes."""


class Journal(Protocol):
    """The part of the bus that the store needs."""

    async def journal(self, session_key: str) -> tuple[Line, ...]:
        """The session's lines that are not yet known to be in its file."""
        ...


class SessionStore:
    """Gives a turn its session. A session is worked on by one turn at a time."""

    def __init__(self, files: SessionFiles, journal: Journal, max_tokens: int = DEFAULT_TOKENS) -> None:
        self._max_tokens = max_tokens
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
        """As much of the file's end as a context can hold, from a user message on."""
        lines: list[Line] = []
        tokens, through = 0, 0
        for line in self._files.read_backwards(session_key):
            lines.append(line)
            if line.kind == LineKind.COMPACTED:
                through = max(through, _through(line))
            tokens += estimate_tokens(str(line.data.get("content", "")))
            is_full = tokens >= self._max_tokens and line.data.get("role") == "user"
            if is_full or line.kind == LineKind.RESET or line.seq <= through or len(lines) >= MAX_LINES:
                break
        lines.reverse()
        return lines


def _through(line: Line) -> int:
    through = line.data.get("through")
    return through if isinstance(through, int) else 0
