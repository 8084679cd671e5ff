"""Memory: the files of one scope together, and Memories: those of all scopes, with their one writer each."""

from dataclasses import dataclass
from pathlib import Path

from nanobee.clock import Clock
from nanobee.memory.daily import DailyNotes
from nanobee.memory.history_file import HistoryFile
from nanobee.memory.lock import WriterLock
from nanobee.memory.memory_file import MemoryFile
from nanobee.memory.misc import MiscNotes
from nanobee.memory.scope import Scope, Scopes


@dataclass(frozen=True, slots=True)
class Memory:
    """What one scope remembers."""

    scope: Scope
    root: Path
    history: HistoryFile
    facts: MemoryFile
    daily: DailyNotes
    misc: MiscNotes


@dataclass(frozen=True, slots=True)
class Memories:
    """Finds and locks the memory of each scope. The files are the truth; nothing of them is kept here."""

    scopes: Scopes
    lock: WriterLock
    clock: Clock

    def of(self, scope: Scope) -> Memory:
        """The files of a scope, which need not exist."""
        root = self.scopes.root(scope)
        return Memory(
            scope=scope,
            root=root,
            history=HistoryFile(root, self.clock),
            facts=MemoryFile(root, scope, self.clock),
            daily=DailyNotes(root, scope, self.clock),
            misc=MiscNotes(root, scope),
        )
