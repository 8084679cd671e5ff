"""Indexed: the files that a scope's index is made of, and what of each goes into it.

The files are the truth. Those that only grow are read on from where the index stopped; the others
are small and read whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nanobee.bus.lines import Line, LineKind
from nanobee.memory.entries import Entry, Source, Tier, entry_id
from nanobee.memory.memory import Memory
from nanobee.memory.transcript import gone_seqs, said_in

MAX_TEXT_CHARS = 8_000
"""Of one entry, in the index."""
OLD = datetime(1970, 1, 2, tzinfo=UTC)
"""Stands for the time of entries that have none, and of those from before."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One entry with its place in its file."""

    entry: Entry
    end: int = 0
    """Offset behind it, in a file that only grows."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Session lines that were taken back."""

    seqs: frozenset[int]
    end: int = 0


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """One file of a scope."""

    path: Path
    memory: Memory
    tier: Tier
    session_key: str = ""

    @property
    def only_grows(self) -> bool:
        """Whether what was read once stays as it is."""
        return self.tier in (Tier.HISTORY, Tier.SESSION)

    def read(self, start: int = 0) -> Iterator[Piece | Gone]:
        """What the file says from an offset on.

        Raises:
            StateError: it cannot be read.
            OSError: the same.
        """
        match self.tier:
            case Tier.HISTORY:
                yield from self._read_history(start)
            case Tier.SESSION:
                yield from self._read_session(start)
            case Tier.DAILY:
                day = datetime.strptime(self.path.stem, "%Y-%m-%d").date()
                yield from map(Piece, self.memory.daily.entries(day))
            case Tier.MISC:
                yield from map(Piece, self.memory.misc.entries(OLD))
            case _:
                yield from map(Piece, self.memory.facts.entries())

    def _read_history(self, start: int) -> Iterator[Piece]:
        key = self.memory.scope.key
        for each in self.memory.history.entries(start):
            text = each.text[:MAX_TEXT_CHARS]
            named = f"{text} [{each.source}]" if each.source else text
            at = max(each.at or OLD, OLD)
            yield Piece(Entry(entry_id(key, Tier.HISTORY, named), Tier.HISTORY, text, at, each.source), each.end)

    def _read_session(self, start: int) -> Iterator[Piece | Gone]:
        with self.path.open("rb") as file:
            file.seek(start)
            for data in file:
                start += len(data)
                if not data.endswith(b"\n"):
                    return  # it is being written
                try:
                    line = Line.from_json(data)
                except (ValueError, RecursionError):
                    continue
                yield from self._read_line(line, start)

    def _read_line(self, line: Line, end: int) -> Iterator[Piece | Gone]:
        if line.kind in (LineKind.UNDONE, LineKind.FORGOTTEN):
            yield Gone(frozenset(gone_seqs([line])), end)
            return
        if line.kind not in (LineKind.MESSAGE, LineKind.RECORD) or line.data.get("role") == "tool":
            return
        for said in said_in([line]):
            source = Source(self.session_key, line.seq, line.seq)
            number = entry_id(self.memory.scope.key, Tier.SESSION, str(source))
            who = said.name or said.role
            text = f"{who}: {said.text[:MAX_TEXT_CHARS]}"
            yield Piece(Entry(number, Tier.SESSION, text, max(line.at, OLD), source), end)


def memory_files(memory: Memory) -> list[IndexedFile]:
    """The files of the scope's own folder that are there."""
    files = [
        IndexedFile(memory.facts.path, memory, Tier.IMPORTANT),
        IndexedFile(memory.misc.path, memory, Tier.MISC),
        *(IndexedFile(memory.daily.path(day), memory, Tier.DAILY) for day in memory.daily.days()),
        IndexedFile(memory.history.path, memory, Tier.HISTORY),
    ]
    return [file for file in files if file.path.exists()]
