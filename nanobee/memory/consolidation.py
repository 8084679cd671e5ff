"""Consolidation: what was said in a session goes into memory, part by part, each once.

Whatever dies in between: the model's answer is stored in the bus, applied to the files by its
source, and only then the pointer moves. A repeat applies the stored answer and asks nobody.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio import to_thread

from nanobee.bus.consolidation_table import Bookmark
from nanobee.bus.lines import Line
from nanobee.config_memory import MemorySettings
from nanobee.errors import ContextLengthError, NanobeeError, StructuredError
from nanobee.memory.accepted import Accepted
from nanobee.memory.archive import Archive, Journal
from nanobee.memory.entries import Source
from nanobee.memory.memory import Memories
from nanobee.memory.part import Part
from nanobee.memory.scope import Scope
from nanobee.memory.transcript import write_raw_entry, write_transcript
from nanobee.providers.model import Model

if TYPE_CHECKING:
    from nanobee.memory.writer import Material, MemoryWriter, Written

logger = logging.getLogger(__name__)

MAX_AT_ONCE = 2
"""Sessions that ask a model at once, over all."""
MAX_PARTS = 200
"""Parts of one session in a row, so that a long backlog does not keep the others waiting."""
MIN_PART_TOKENS = 500
"""A part that the server finds too long is not halved below this."""

ChooseModel = Callable[[], Awaitable[Model]]


class Bookkeeping(Journal, Protocol):
    """What consolidation asks of the bus."""

    async def bookmark(self, session_key: str) -> Bookmark:
        """How far a session is in memory."""
        ...

    async def unfinished_consolidations(self) -> list[str]:
        """The sessions of which something has still to go into memory, however little it is."""
        ...

    async def accept_consolidation(self, session_key: str, after: int, answer: str) -> bool:
        """Store a model's answer for the range behind `after`, once."""
        ...

    async def remember_consolidation(self, session_key: str, through: int) -> None:
        """How far the session's own lines say that it is in memory."""
        ...

    async def finish_consolidation(self, session_key: str, through: int) -> tuple[Line, ...]:
        """The lines up to `through` are in memory."""
        ...

    async def count_memory_call(self, day: str, max_calls: int) -> bool:
        """Count one model call of that day; False where it would be one too many."""
        ...


@dataclass(slots=True)
class Gates:
    """One way into each scope's memory at a time, for what must not be overtaken by a forgetting."""

    _locks: dict[str, anyio.Lock] = field(default_factory=dict)
    _forgets: dict[str, int] = field(default_factory=dict)

    def of(self, scope: Scope) -> anyio.Lock:
        """Held while an answer is accepted and applied, and while something is forgotten."""
        return self._locks.setdefault(scope.key, anyio.Lock())

    def forgets(self, scope: Scope) -> int:
        """How often something was forgotten: an answer that was asked for before that is stale."""
        return self._forgets.get(scope.key, 0)

    def note_forget(self, scope: Scope) -> None:
        """Something is being forgotten."""
        self._forgets[scope.key] = self.forgets(scope) + 1


class GaveWayError(NanobeeError):
    """A model that does one thing at a time is wanted by a turn."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one run did."""

    parts: int = 0
    raw_parts: int = 0
    """Those of which a model made nothing usable."""


@dataclass(slots=True)
class Consolidation:
    """Takes sessions into memory. Lives on the event loop; files are read and written in threads."""

    bus: Bookkeeping
    archive: Archive
    memories: Memories
    settings: MemorySettings
    choose_model: ChooseModel
    gates: Gates = field(default_factory=Gates)
    _limit: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(MAX_AT_ONCE))
    _yielding: set[anyio.CancelScope] = field(default_factory=set)

    def give_way(self) -> None:
        """A turn begins: calls to an embedded model, which does one thing at a time, are broken off."""
        for scope in self._yielding:
            scope.cancel()

    async def run(self, session_key: str, patience: int = 1) -> Report:
        """Take in what is due: `patience` times as much as the threshold asks for, or all before a `reset`.

        One run a session at a time.

        Raises:
            ProviderError: no model answered; nothing was moved.
            GaveWayError: a turn needs the model; nothing was moved.
            StateError: the disk refuses; what is half applied is completed by the next run.
        """
        report = Report()
        for _ in range(MAX_PARTS):
            scope = self.memories.scopes.of(session_key)
            await self.settle(session_key)
            bookmark = await self.bus.bookmark(session_key)
            after = bookmark.through
            if after is None:
                after = await self.archive.find_through(session_key)
                await self.bus.remember_consolidation(session_key, after)
            forgets = self.gates.forgets(scope)
            found = await self._write_next(session_key, scope, after, bookmark, patience)
            if found is None:
                return report
            part, accepted, is_raw = found
            async with self.gates.of(scope):
                if self.gates.forgets(scope) != forgets:
                    continue
                if accepted is None:
                    await self.bus.finish_consolidation(session_key, part.last)
                elif await self.bus.accept_consolidation(session_key, after, accepted.to_json()):
                    await self._apply(accepted, is_replay=False)
                    logger.info("%s: lines %d to %d are in memory", session_key, part.first, part.last)
            report = Report(report.parts + 1, report.raw_parts + is_raw)
        return report

    def threshold(self, model: Model) -> int:
        """Tokens of a conversation that are enough for a call."""
        return min(self.settings.consolidate_after_tokens, model.context_tokens // 2)

    async def settle(self, session_key: str) -> None:
        """Apply an answer that was accepted and may not be in all files yet.

        Raises:
            StateError: the disk refuses.
        """
        if (await self.bus.bookmark(session_key)).answer is None:
            return
        async with self.gates.of(self.memories.scopes.of(session_key)):
            answer = (await self.bus.bookmark(session_key)).answer
            if answer is not None:
                await self._apply(Accepted.from_json(answer), is_replay=True)

    async def _apply(self, accepted: Accepted, *, is_replay: bool) -> None:
        await to_thread.run_sync(lambda: accepted.apply(self.memories, is_replay=is_replay))
        await self.bus.finish_consolidation(accepted.source.session_key, accepted.source.last)

    async def _write_next(
        self, session_key: str, scope: Scope, after: int, bookmark: Bookmark, patience: int
    ) -> tuple[Part, Accepted | None, bool] | None:
        """The next part and what of it is to be remembered; nothing for a part that says nothing."""
        from nanobee.memory.writer import Material, MemoryWriter  # with its tool, not before it is called

        model = await self.choose_model()
        enough = self.threshold(model) * patience
        writer = MemoryWriter(self.settings, self.memories.clock, self.bus.count_memory_call)
        memory = self.memories.of(scope)
        now = self.memories.clock.now()
        base = await to_thread.run_sync(memory.facts.read)
        notes = await to_thread.run_sync(memory.misc.entries, now)
        lasting = [note.text for note in notes if note.is_trusted]
        room = writer.room(model, self.threshold(model), base, lasting)
        while True:
            part = await self.archive.next_part(session_key, after, bookmark, room, enough)
            if part is None or not (part.tokens >= enough or part.last <= bookmark.wanted):
                return None
            if part.at is None:
                return part, None, False
            material = Material(base, lasting, write_transcript(part.said, self.memories.clock))
            source = Source(session_key, part.first, part.last)
            try:
                async with self._limit:
                    written = await self._write(writer, model, material)
            except ContextLengthError as error:
                if room // 2 >= MIN_PART_TOKENS:
                    room //= 2
                    continue
                logger.warning("%s: %s", session_key, error)
            except StructuredError as error:
                logger.warning("%s: %s", session_key, error)
            else:
                return part, _accept(scope, source, part, material, written), False
            return part, Accepted(scope.key, source, part.at, write_raw_entry(part.said)), True

    async def _write(self, writer: "MemoryWriter", model: Model, material: "Material") -> "Written":
        with anyio.CancelScope() as scope:
            if model.is_tiny:
                self._yielding.add(scope)
            try:
                return await writer.write(model, material)
            finally:
                self._yielding.discard(scope)
        raise GaveWayError("a turn needs the model")


def _accept(scope: Scope, source: Source, part: Part, material: "Material", written: "Written") -> Accepted:
    from nanobee.memory.trust import Origins

    origins = Origins(part.said)
    assert part.at is not None
    base = material.memory
    return Accepted(
        scope_key=scope.key,
        source=source,
        at=part.at,
        entry=written.entry,
        base=base,
        update=None if written.update is None else origins.mark_new(base, written.update),
        note=origins.mark(written.note) if written.note else "",
        promoted=tuple(material.notes[place] for place in written.promoted),
    )
