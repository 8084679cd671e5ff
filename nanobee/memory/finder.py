"""Finder: search over the memory and the sessions of a scope, from indexes that follow the files."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, TypeVar

from anyio import CapacityLimiter, to_thread

from nanobee.memory.entries import Tier
from nanobee.memory.lock import FOLDER
from nanobee.memory.memory import Memories
from nanobee.memory.scope import Scope
from nanobee.sessions.files import SessionFiles

if TYPE_CHECKING:
    from nanobee.memory.index import Index
    from nanobee.memory.search import Matches, Query

T = TypeVar("T")

UPDATE_SECONDS = 2.0
"""How long a search waits for what has changed to come into the index; a first build goes on in the background."""
BUILD_SECONDS = 3600.0
MAX_THREADS = 2
"""Searches at once, over all scopes; apart from the threads that write."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search gave."""

    matches: "Matches"
    is_complete: bool
    """False while the index is being built: there may be more."""


@dataclass(slots=True)
class Finder:
    """One for all scopes. Its blocking methods are safe to call from any thread."""

    memories: Memories
    files: SessionFiles
    state: Path
    _indexes: "dict[str, Index]" = field(default_factory=dict)
    _changed: dict[str, set[str]] = field(default_factory=dict)
    """Sessions by scope whose files have changed since they were indexed."""
    _anew: set[str] = field(default_factory=set)
    """Scopes whose own files are read from their beginning."""
    _has_listed: bool = False
    _lock: Lock = field(default_factory=Lock)
    _searches: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MAX_THREADS))
    _stopped: Event = field(default_factory=Event)
    _builds: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))

    def note(self, session_key: str) -> None:
        """The session has new lines."""
        with self._lock:
            self._changed.setdefault(self.memories.scopes.of(session_key).key, set()).add(session_key)

    def note_scope(self, scope: Scope) -> None:
        """The scope's own files have changed."""
        with self._lock:
            self._changed.setdefault(scope.key, set())

    async def find(self, scope: Scope, query: "Query") -> Found:
        """Search one scope.

        Raises:
            StateError: the index cannot be read.
        """
        return await self.run(lambda: self.find_now(scope, query))

    async def run(self, work: Callable[[], T]) -> T:
        """Do blocking work in one of the threads for searches; who is cancelled does not wait for its end."""
        return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._searches)

    def find_now(self, scope: Scope, query: "Query") -> Found:
        """`find`, blocking."""
        from nanobee.memory.search import search  # not before somebody searches

        is_complete = self.update(scope, UPDATE_SECONDS)
        return Found(search(self.index(scope), query, self.memories.clock.now()), is_complete)

    def index(self, scope: Scope) -> "Index":
        """The index of a scope."""
        from nanobee.memory.index import Index  # not before somebody searches

        with self._lock:
            path = self.state / FOLDER / f"{scope.file_name}.db"
            return self._indexes.setdefault(scope.key, Index(path, self._stopped.is_set))

    def update(self, scope: Scope, max_seconds: float) -> bool:
        """Bring a scope's index up to date; False where there was more than could be done in that time.

        Raises:
            StateError: the index cannot be written.
        """
        from nanobee.memory.indexed import IndexedFile, memory_files

        self._list_sessions()
        with self._lock:
            changed = self._changed.pop(scope.key, set())
            is_anew = scope.key in self._anew
            self._anew.discard(scope.key)
        memory = self.memories.of(scope)
        own = memory_files(memory)
        talks = [IndexedFile(self.files.path(key), memory, Tier.SESSION, key) for key in sorted(changed)]
        # With no file present all of the folder are forgotten, and read from their beginning.
        index = self.index(scope)
        is_whole = not is_anew or index.update(memory.root, [], max_seconds=max_seconds)
        is_whole = is_whole and index.update(memory.root, [*own, *talks], max_seconds=max_seconds)
        if not is_whole:
            with self._lock:
                self._changed.setdefault(scope.key, set()).update(changed)
                self._anew.update({scope.key} if is_anew else ())
        return is_whole

    def _list_sessions(self) -> None:
        """At first every session may have changed: nobody told what happened before this process."""
        with self._lock:
            if self._has_listed:
                return
            self._has_listed = True
        for key in self.files.keys():
            self.note(key)

    def read_again(self, scope: Scope) -> None:
        """Read a scope's own files anew: something in their middle has changed."""
        with self._lock:
            self._anew.add(scope.key)
        self.note_scope(scope)

    def session_files(self, scope: Scope) -> list[Path]:
        """The files of a scope's sessions, the last changed first."""
        paths = [self.files.path(key) for key in self.files.keys() if self.memories.scopes.of(key).key == scope.key]
        return sorted(paths, key=_changed_at, reverse=True)

    def stop(self) -> None:
        """End the work of threads that nobody waits for."""
        self._stopped.set()

    async def build_changed(self) -> None:
        """Bring the indexes up to date of whose scopes something has changed, however long it takes.

        Raises:
            StateError: an index cannot be written.
        """
        for scope in await to_thread.run_sync(self._changed_scopes, limiter=self._builds):
            await to_thread.run_sync(self.update, scope, BUILD_SECONDS, limiter=self._builds, abandon_on_cancel=True)

    def _changed_scopes(self) -> list[Scope]:
        if not self._has_listed:
            for scope in self.memories.scopes.all():
                self.note_scope(scope)
        self._list_sessions()
        with self._lock:
            keys = sorted(self._changed)
        return [self.memories.scopes.named(key) for key in keys]


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
