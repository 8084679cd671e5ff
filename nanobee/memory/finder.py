"""Finder: search over the memory and the sessions of a scope, from indexes that follow the files."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from anyio import CapacityLimiter, to_thread

from nanobee.memory.entries import Tier
from nanobee.memory.index import Index
from nanobee.memory.indexed import IndexedFile, memory_files
from nanobee.memory.lock import FOLDER
from nanobee.memory.memory import Memories
from nanobee.memory.scope import Scope
from nanobee.memory.search import Matches, Query, search
from nanobee.sessions.files import SessionFiles

logger = logging.getLogger(__name__)

UPDATE_SECONDS = 2.0
"""How long a search waits for what has changed to come into the index; a first build goes on in the background."""
BUILD_SECONDS = 3600.0
MAX_THREADS = 2
"""Searches at once, over all scopes; apart from the threads that write."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search gave."""

    matches: Matches
    is_complete: bool
    """False while the index is being built: there may be more."""


@dataclass(slots=True)
class Finder:
    """One for all scopes. Its blocking methods are safe to call from any thread."""

    memories: Memories
    files: SessionFiles
    state: Path
    _indexes: dict[str, Index] = field(default_factory=dict)
    _changed: dict[str, set[str]] = field(default_factory=dict)
    """Sessions by scope whose files have changed since they were indexed."""
    _has_listed: bool = False
    _lock: Lock = field(default_factory=Lock)
    _searches: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MAX_THREADS))

    def note(self, session_key: str) -> None:
        """The session has new lines."""
        with self._lock:
            self._changed.setdefault(self.memories.scopes.of(session_key).key, set()).add(session_key)

    async def find(self, scope: Scope, query: Query) -> Found:
        """Search one scope.

        Raises:
            StateError: the index cannot be read.
        """
        return await to_thread.run_sync(self.find_now, scope, query, limiter=self._searches)

    def find_now(self, scope: Scope, query: Query) -> Found:
        """`find`, blocking."""
        is_complete = self.update(scope, UPDATE_SECONDS)
        return Found(search(self.index(scope), query, self.memories.clock.now()), is_complete)

    def index(self, scope: Scope) -> Index:
        """The index of a scope."""
        with self._lock:
            path = self.state / FOLDER / f"{scope.file_name}.db"
            return self._indexes.setdefault(scope.key, Index(path))

    def update(self, scope: Scope, max_seconds: float) -> bool:
        """Bring a scope's index up to date; False where there was more than could be done in that time.

        Raises:
            StateError: the index cannot be written.
        """
        self._list_sessions()
        with self._lock:
            changed = self._changed.pop(scope.key, set())
        memory = self.memories.of(scope)
        own = memory_files(memory)
        talks = [IndexedFile(self.files.path(key), memory, Tier.SESSION, key) for key in sorted(changed)]
        is_whole = self.index(scope).update(memory.root, [*own, *talks], max_seconds=max_seconds)
        if not is_whole:
            with self._lock:
                self._changed.setdefault(scope.key, set()).update(changed)
        return is_whole

    def _list_sessions(self) -> None:
        """At first every session may have changed: nobody told what happened before this process."""
        with self._lock:
            if self._has_listed:
                return
            self._has_listed = True
        for key in self.files.keys():
            self.note(key)

    def forget(self, scope: Scope) -> None:
        """Delete a scope's index: something in the middle of its files has changed."""
        self.index(scope).delete()
        with self._lock:
            self._has_listed = False

    async def build_all(self, after_each: Callable[[Scope], None] = lambda scope: None) -> None:
        """Bring all indexes up to date, however long it takes."""
        for scope in await to_thread.run_sync(self._scopes):
            await to_thread.run_sync(self.update, scope, BUILD_SECONDS)
            after_each(scope)

    def _scopes(self) -> list[Scope]:
        self._list_sessions()
        with self._lock:
            keys = set(self._changed)
        scopes = self.memories.scopes
        return list({scope.key: scope for scope in (*scopes.all(), *map(scopes.named, sorted(keys)))}.values())
