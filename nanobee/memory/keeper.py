"""MemoryKeeper: everything about memory that a gateway runs beside its turns."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from nanobee.clock import Clock
from nanobee.config_memory import MemorySettings
from nanobee.errors import StateError
from nanobee.memory.archive import Archive
from nanobee.memory.consolidation import Bookkeeping, ChooseModel, Consolidation
from nanobee.memory.consolidator import Consolidator
from nanobee.memory.entries import Entry, Tier
from nanobee.memory.finder import Finder
from nanobee.memory.forgetting import Forgetting, SessionWriter, Wanted
from nanobee.memory.lock import WriterLock
from nanobee.memory.memory import Memories
from nanobee.memory.scope import Scope, Scopes
from nanobee.messages import RESERVED_CHANNELS
from nanobee.sessions.files import SessionFiles
from nanobee.sessions.session import Session

logger = logging.getLogger(__name__)

FIRST_TIDY_SECONDS = 5.0
"""After a start, which has enough to do."""
TIDY_SECONDS = 3600.0
"""Between two looks at what has expired."""
INDEX_SECONDS = 1.0
"""How long the index waits for more changes."""
RECALL_SECONDS = 0.5
"""How long a turn waits for what fits its message; then it goes on without."""
MIN_RECALL_CHARS = 4


class Bus(Bookkeeping, SessionWriter, Protocol):
    """What memory asks of the bus."""


class Sessions(Protocol):
    """The part of the session store that memory needs."""

    async def load(self, session_key: str) -> Session:
        """The session with all lines that were committed before the call."""
        ...

    def forget(self, session_key: str) -> None:
        """Drop a session from memory, where lines were written that its object does not know."""
        ...


@dataclass(slots=True)
class MemoryKeeper:
    """One for all scopes. Lives on the event loop."""

    memories: Memories
    consolidator: Consolidator
    finder: Finder
    forgetting: Forgetting
    sessions: Sessions
    settings: MemorySettings
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def start(self, tasks: TaskGroup) -> None:
        """Work from now on; every task belongs to `tasks`."""
        self.consolidator.start(tasks)
        tasks.start_soon(self._keep_tidy, name="memory tidy")
        tasks.start_soon(self._keep_indexed, name="memory index")

    def look_at(self, session: Session) -> None:
        """A turn of the session has ended."""
        self.note_session(session.key)
        if _is_remembered(session.key):
            self.consolidator.look_at(session)

    def give_way(self) -> None:
        """A turn is about to ask an embedded model, which does one thing at a time."""
        self.consolidator.consolidation.give_way()

    def archive_soon(self, session_key: str) -> None:
        """The conversation has ended (`/new`)."""
        if _is_remembered(session_key):
            self.consolidator.archive_soon(session_key)

    def note_session(self, session_key: str) -> None:
        """The session, or what is remembered of it, has changed: the index follows soon."""
        self.finder.note(session_key)
        self._changed.set()

    def note_change(self, scope: Scope) -> None:
        """A scope's files have changed: the index follows soon."""
        self.finder.note_scope(scope)
        self._changed.set()

    async def recall(self, session_key: str, text: str) -> str:
        """What of memory fits a message, as it stands beside it; empty where nothing does, or it takes too long."""
        if not self.settings.recall or len(text) < MIN_RECALL_CHARS or not _is_remembered(session_key):
            return ""
        scope = self.memories.scopes.of(session_key)
        if not _has_notes(self.memories.scopes.root(scope)):
            return ""
        from nanobee.memory.recall import Recall, recall  # not before there is something to recall

        found = Recall()
        with anyio.move_on_after(RECALL_SECONDS):
            try:
                found = await self.finder.run(lambda: recall(self.finder.index(scope), text, self.memories.clock))
                await self.note_use(scope, found.entries)
            except StateError as error:
                logger.warning("%s: nothing is recalled: %s", session_key, error)
        return found.write(self.memories.clock)

    async def note_use(self, scope: Scope, entries: Sequence[Entry]) -> None:
        """Short-lived notes among these were of use.

        Raises:
            StateError: the disk refuses.
        """
        ids = [entry.id for entry in entries if entry.tier is Tier.MISC]
        if ids:

            def write() -> None:
                with self.memories.lock.hold(scope):
                    self.memories.of(scope).misc.note_use(ids)

            await to_thread.run_sync(write)

    def entries(self, scope: Scope) -> list[Entry]:
        """All facts and notes of a scope, by tier. Blocking."""
        memory = self.memories.of(scope)
        daily = [entry for day in memory.daily.days() for entry in memory.daily.entries(day)]
        return [*memory.facts.entries(), *daily, *memory.misc.entries(self.memories.clock.now())]

    def entries_with(self, scope: Scope, text: str) -> list[Entry]:
        """The facts and notes that say a text. Blocking."""
        wanted = Wanted(text)
        return [entry for entry in self.entries(scope) if wanted.is_in(entry.text)]

    async def forget_entry(self, scope: Scope, entry_id: int) -> bool:
        """Forget one fact or note by its id; False where there is none.

        Raises:
            StateError: the disk refuses.
        """
        entries = await to_thread.run_sync(self.entries, scope)
        entry = next((entry for entry in entries if entry.id == entry_id), None)
        if entry is None:
            return False
        return (await self.forgetting.forget(scope, entry.text)).places > 0

    async def _keep_tidy(self) -> None:
        await anyio.sleep(FIRST_TIDY_SECONDS)
        from nanobee.memory.tidying import tidy

        while True:
            for scope in await to_thread.run_sync(self.memories.scopes.all):
                try:
                    tidied = await to_thread.run_sync(tidy, self.memories, scope, self.settings)
                except (StateError, OSError) as error:
                    logger.warning("memory %s is not tidied: %s", scope.key, error)
                    continue
                if tidied.folded or tidied.promoted or tidied.expired:
                    self.note_change(scope)
            await anyio.sleep(TIDY_SECONDS)

    async def _keep_indexed(self) -> None:
        try:
            while True:
                await anyio.sleep(INDEX_SECONDS)
                try:
                    await self.finder.build_changed()
                except StateError as error:
                    logger.warning("the search index does not follow: %s", error)
                await self._changed.wait()
                self._changed = anyio.Event()
        finally:
            self.finder.stop()


def _has_notes(root: Path) -> bool:
    """Whether anything was ever written down beside MEMORY.md, which stands in the prompt anyway."""
    return any((root / name).exists() for name in ("HISTORY.md", "misc.jsonl", "daily"))


def _is_remembered(session_key: str) -> bool:
    """Whether a session is a conversation with people. What workers and jobs found out reaches people's chats."""
    return session_key.partition(":")[0] not in RESERVED_CHANNELS


@dataclass(frozen=True, slots=True)
class Keeping:
    """What a keeper is made of."""

    bus: Bus
    files: SessionFiles
    sessions: Sessions
    scopes: Scopes
    choose_model: ChooseModel
    """Writes the memory."""
    settings: MemorySettings
    clock: Clock
    state: Path

    def create_keeper(self) -> MemoryKeeper:
        """The keeper, which does nothing before its `start`."""
        memories = Memories(self.scopes, WriterLock(self.state), self.clock)
        finder = Finder(memories, self.files, self.state)
        archive = Archive(self.bus, self.files)
        consolidation = Consolidation(self.bus, archive, memories, self.settings, self.choose_model)

        def on_forget(scope: Scope, session_keys: Sequence[str]) -> None:
            finder.read_again(scope)
            for session_key in session_keys:
                finder.note(session_key)
                self.sessions.forget(session_key)

        forgetting = Forgetting(memories, consolidation, self.bus, self.files, on_forget)
        keeper = MemoryKeeper(memories, Consolidator(consolidation), finder, forgetting, self.sessions, self.settings)
        keeper.consolidator.on_change = keeper.note_session
        return keeper
