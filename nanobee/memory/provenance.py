"""Provenance: the session lines that something in memory came from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anyio import to_thread

from nanobee.memory.archive import Archive
from nanobee.memory.entries import UNVERIFIED, Entry, Source, Tier, facts, split_source
from nanobee.memory.finder import Finder
from nanobee.memory.memory import Memory
from nanobee.memory.search import Query
from nanobee.memory.transcript import Said, said_in
from nanobee.memory.words import normalize, overlap, tokens

MAX_ENTRIES = 10
MAX_LINES = 3
"""Session lines that are shown for one entry, the most alike."""
MIN_LIKENESS = 0.25
ALIKE = 0.6
MAX_LOG_ENTRIES = 20
"""Entries of HISTORY.md that are looked at for a fact whose own source is not known."""


@dataclass(frozen=True, slots=True)
class Origin:
    """One entry, and where it is from."""

    entry: Entry
    came_by: str
    """The source that is kept with it: session lines, `hand`, a tool's name; empty where none is."""
    session_key: str = ""
    said: tuple[Said, ...] = ()
    """The session lines that say it, the most alike first."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Looks things up in one scope."""

    memory: Memory
    archive: Archive
    finder: Finder

    async def explain(self, text: str) -> list[Origin]:
        """Where what fits `text` came from: facts and notes first, then the log.

        Raises:
            StateError: a file cannot be read.
        """
        entries = await to_thread.run_sync(self._fitting, text)
        return [await self._explain_one(entry) for entry in entries]

    def _fitting(self, text: str) -> list[Entry]:
        wanted = " ".join(normalize(text).split())
        words = frozenset(tokens(text))
        now = self.memory.facts.entries() + self.memory.misc.entries(self.finder.memories.clock.now())
        notes = [entry for day in self.memory.daily.days() for entry in self.memory.daily.entries(day)]
        alike = [
            entry
            for entry in [*now, *notes]
            if wanted in normalize(entry.text) or (overlap(text, frozenset(tokens(entry.text))) >= ALIKE and words)
        ]
        found = self.finder.find_now(self.memory.scope, Query(text, (Tier.HISTORY,), limit=MAX_ENTRIES))
        return [*alike, *(match.entry for match in found.matches.found)][:MAX_ENTRIES]

    async def _explain_one(self, entry: Entry) -> Origin:
        came_by = await to_thread.run_sync(self._came_by, entry)
        for source in await to_thread.run_sync(self._sources, entry, came_by):
            lines = await self.archive.read_range(source.session_key, source.first, source.last)
            said = _most_alike(entry.text, said_in(lines))
            if said:
                return Origin(entry, came_by or str(source), source.session_key, said)
        return Origin(entry, came_by)

    def _came_by(self, entry: Entry) -> str:
        if entry.source is not None:
            return str(entry.source)
        if entry.tier is Tier.IMPORTANT:
            for version in self.memory.facts.versions.load():
                if entry.text in facts(version.text.split("\n")):
                    return version.source
        if entry.tier is Tier.MISC:
            return next((note.source for note in self.memory.misc.load() if note.text == entry.text), "")
        return ""

    def _sources(self, entry: Entry, came_by: str) -> Sequence[Source]:
        """Where to look: the entry's own source, else those of the log's entries that are like it."""
        own = entry.source or split_source(f"x [{came_by}]")[1]
        if own is not None:
            return [own]
        query = Query(entry.text.replace(UNVERIFIED, ""), (Tier.HISTORY, Tier.SESSION), limit=MAX_LOG_ENTRIES)
        found = self.finder.find_now(self.memory.scope, query).matches.found
        return [match.entry.source for match in found if match.entry.source is not None]


def _most_alike(text: str, said: Iterator[Said]) -> tuple[Said, ...]:
    scored = [(overlap(text, frozenset(tokens(each.whole or each.text))), each) for each in said]
    best = sorted((pair for pair in scored if pair[0] >= MIN_LIKENESS), key=lambda pair: -pair[0])
    return tuple(each for _, each in best[:MAX_LINES])
