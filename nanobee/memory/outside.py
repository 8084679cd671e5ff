"""Outside: memory looked at and changed by a process that runs no gateway, beside one that does.

The files are locked for each change, so that both may write. What has to be told to the sessions as
well (forgetting) needs the state folder.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nanobee.bus.bus import Notices
from nanobee.bus.holder import hold
from nanobee.bus.lines import Line
from nanobee.bus.outside import reading
from nanobee.bus.sqlite import open_bus
from nanobee.clock import load_clock
from nanobee.config import Settings
from nanobee.errors import ConfigError
from nanobee.memory.archive import Archive
from nanobee.memory.consolidation import Consolidation
from nanobee.memory.finder import Finder
from nanobee.memory.forgetting import Forgetting
from nanobee.memory.lock import WriterLock
from nanobee.memory.memory import Memories
from nanobee.memory.scope import Scope, Scopes
from nanobee.providers.model import Model
from nanobee.sessions.files import SessionFiles

TERMINAL = "terminal"
"""Kind and usual name of the channel that only the owner can reach."""


@dataclass(frozen=True, slots=True)
class OutsideJournal:
    """Lines that are committed and not in their file yet."""

    settings: Settings

    async def journal(self, session_key: str) -> tuple[Line, ...]:
        """The session's lines that are not yet known to be in its file."""
        with reading(self.settings.state) as db:
            if db is None:
                return ()
            found = db.execute("select line from journal where session = ? order by seq", (session_key,)).fetchall()
        return tuple(Line.from_json(line) for (line,) in found)


@dataclass(frozen=True, slots=True)
class Outside:
    """The memories of a configuration."""

    memories: Memories
    finder: Finder
    archive: Archive

    def scope(self, key: str) -> Scope:
        """The scope of that key, or of a session key; `owner` is the owner's."""
        scopes = self.memories.scopes
        return scopes.of(key) if ":" in key else scopes.named("owner")


def look_at(settings: Settings) -> Outside:
    """The memories of a configuration; writes nothing, but for the search index."""
    terminals = {TERMINAL, *(name for name, section in settings.channels.items() if section.kind == TERMINAL)}
    scopes = Scopes(settings.workspace, frozenset(settings.owner), frozenset(terminals), settings.memory.scope)
    memories = Memories(scopes, WriterLock(settings.state), load_clock(settings.timezone))
    files = SessionFiles(settings.state)
    return Outside(memories, Finder(memories, files, settings.state), Archive(OutsideJournal(settings), files))


@asynccontextmanager
async def forgetting(settings: Settings, notices: Notices) -> AsyncIterator[Forgetting]:
    """What forgets, as the holder of the state folder.

    Raises:
        HeldError: a gateway runs; it must be asked to forget.
        StateError: the state folder cannot be used.
    """
    outside = look_at(settings)
    files = outside.finder.files
    with hold(settings.state):
        async with open_bus(settings.state, files, notices) as bus:
            consolidation = Consolidation(bus, Archive(bus, files), outside.memories, settings.memory, _no_model)

            def on_change(scope: Scope, session_keys: object) -> None:
                outside.finder.index(scope).delete()

            yield Forgetting(outside.memories, consolidation, bus, files, on_change)


async def _no_model() -> Model:
    raise ConfigError([])
