"""MemoryKeeper: everything about memory that a gateway runs beside its turns."""

from dataclasses import dataclass
from pathlib import Path

from anyio.abc import TaskGroup

from nanobee.clock import Clock
from nanobee.config_memory import MemorySettings
from nanobee.memory.archive import Archive
from nanobee.memory.consolidation import Bookkeeping, ChooseModel, Consolidation
from nanobee.memory.consolidator import Consolidator
from nanobee.memory.lock import WriterLock
from nanobee.memory.memory import Memories
from nanobee.memory.scope import Scopes
from nanobee.memory.writer import MemoryWriter
from nanobee.messages import RESERVED_CHANNELS
from nanobee.sessions.files import SessionFiles
from nanobee.sessions.session import Session


@dataclass(slots=True)
class MemoryKeeper:
    """One for all scopes. Lives on the event loop."""

    memories: Memories
    consolidator: Consolidator

    def start(self, tasks: TaskGroup) -> None:
        """Work from now on; every task belongs to `tasks`."""
        self.consolidator.start(tasks)

    def look_at(self, session: Session) -> None:
        """A turn of the session has ended."""
        if _is_remembered(session.key):
            self.consolidator.look_at(session)

    def archive_soon(self, session_key: str) -> None:
        """The conversation has ended (`/new`)."""
        if _is_remembered(session_key):
            self.consolidator.archive_soon(session_key)


def _is_remembered(session_key: str) -> bool:
    """Whether a session is a conversation with people. What workers and jobs found out reaches people's chats."""
    return session_key.partition(":")[0] not in RESERVED_CHANNELS


@dataclass(frozen=True, slots=True)
class Keeping:
    """What a keeper is made of."""

    bus: Bookkeeping
    files: SessionFiles
    scopes: Scopes
    choose_model: ChooseModel
    """Writes the memory."""
    settings: MemorySettings
    clock: Clock
    state: Path

    def create_keeper(self) -> MemoryKeeper:
        """The keeper, which does nothing before its `start`."""
        memories = Memories(self.scopes, WriterLock(self.state), self.clock)
        archive = Archive(self.bus, self.files)
        writer = MemoryWriter(self.settings, self.clock, self._count_call)
        consolidation = Consolidation(self.bus, archive, memories, writer, self.choose_model)
        return MemoryKeeper(memories, Consolidator(consolidation))

    async def _count_call(self, day: str) -> bool:
        return await self.bus.count_memory_call(day, self.settings.max_calls_per_day)
