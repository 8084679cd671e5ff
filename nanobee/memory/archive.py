"""Archive: the lines of sessions, read for memory from their files and from the journal before them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

from anyio import to_thread

from nanobee.bus.consolidation_table import Bookmark
from nanobee.bus.lines import Line, LineKind
from nanobee.errors import StateError
from nanobee.memory.part import Part, find_part
from nanobee.sessions.files import SessionFiles
from nanobee.sessions.forward import read_forward, read_takebacks, takes_back


class Journal(Protocol):
    """The part of the bus that knows lines before their file does."""

    async def journal(self, session_key: str) -> tuple[Line, ...]:
        """The session's lines that are not yet known to be in its file."""
        ...


@dataclass(frozen=True, slots=True)
class Archive:
    """Reads lines; blocking work is done in threads."""

    bus: Journal
    files: SessionFiles

    async def next_part(
        self, session_key: str, after: int, bookmark: Bookmark, max_tokens: int, enough: int
    ) -> Part | None:
        """The next range behind `after` that can go into memory.

        Raises:
            StateError: the session's file cannot be read.
        """
        # The journal first: a line leaves it only once it is in the file.
        pending = [line for line in await self.bus.journal(session_key) if line.seq > after]

        def find() -> Part | None:
            takebacks = [
                *self._read(session_key, after, read_takebacks),
                *(each for each in pending if takes_back(each)),
            ]
            lines = self._read(session_key, after, read_forward)
            # What came later than the bookmark may belong to a turn that the bookmark does not know.
            known = takewhile(lambda line: line.seq <= bookmark.last, _merged(lines, pending))
            return find_part(known, takebacks, bookmark.open_turns, max_tokens, enough)

        return await to_thread.run_sync(find)

    async def find_through(self, session_key: str) -> int:
        """How far the session is in memory, by its own lines: for a bus that has lost its count."""

        def find() -> int:
            for line in self.files.read_backwards(session_key):
                through = line.data.get("through") if line.kind == LineKind.CONSOLIDATED else None
                if type(through) is int:
                    return through
            return 0

        return await to_thread.run_sync(find)

    async def read_range(self, session_key: str, first: int, last: int) -> list[Line]:
        """The lines of a range, without those that were taken back.

        Raises:
            StateError: the session's file cannot be read.
        """
        pending = [line for line in await self.bus.journal(session_key) if line.seq >= first]

        def read() -> list[Line]:
            lines = self._read(session_key, first - 1, read_forward)
            return list(takewhile(lambda line: line.seq <= last, _merged(lines, pending)))

        return await to_thread.run_sync(read)

    def _read(self, session_key: str, after: int, reader: Callable[..., Iterator[Line]]) -> Iterator[Line]:
        path = self.files.path(session_key)
        try:
            yield from reader(path, after)
        except OSError as error:
            raise StateError(f"{path} cannot be read: {error.strerror}") from error


def _merged(lines: Iterator[Line], pending: list[Line]) -> Iterator[Line]:
    """The file's lines, then those of the journal that it has not."""
    last = 0
    for line in lines:
        last = line.seq
        yield line
    yield from (line for line in pending if line.seq > last)
