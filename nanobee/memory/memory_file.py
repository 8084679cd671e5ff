"""MemoryFile: MEMORY.md, the lasting facts, rewritten whole by compare-and-swap, its last texts kept."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from nanobee.clock import Clock
from nanobee.errors import StateError
from nanobee.memory.entries import Entry, Tier, entry_id, facts
from nanobee.memory.files import read_text, replace_text
from nanobee.memory.merging import merge
from nanobee.memory.scope import Scope
from nanobee.memory.versions import Versions

NAME = "MEMORY.md"
HEADING = "# Memory"
MAX_TRIES = 5
"""Times that somebody else may change the file between our read and our write."""

Change = Callable[[str], str]


class MemoryFile:
    """The file of one scope. Who writes holds the scope's lock; people write whenever they like."""

    def __init__(self, root: Path, scope: Scope, clock: Clock) -> None:
        self.path = root / NAME
        self.versions = Versions(root)
        self._scope = scope
        self._clock = clock

    def read(self) -> str:
        """The text as it stands now.

        Raises:
            StateError: the file cannot be read.
        """
        return read_text(self.path)

    def update(self, change: Change, source: str) -> str:
        """Put what `change` makes of the current text in place; return it. A change of nothing writes nothing.

        `change` is called again where the file was edited meanwhile.

        Raises:
            StateError: the disk refuses, or somebody else does not stop writing.
        """
        for _ in range(MAX_TRIES):
            current = self.read()
            new = change(current)
            if new == current:
                return current
            self.versions.keep(current, new, source, self._clock.now())
            if replace_text(self.path, new, expected=current):
                return new
        raise StateError(f"{self.path} is changed by somebody else again and again")

    def apply(self, base: str, update: str, source: str) -> str:
        """Take in an update that was made from `base`; what came into the file since then stays.

        Raises:
            StateError: as `update`.
        """
        return self.update(lambda current: merge(base, update, current), source)

    def add_fact(self, text: str, source: str) -> bool:
        """Add a fact as the last bullet; False where it stands there already.

        Raises:
            StateError: as `update`.
        """
        if text in facts(self.read().split("\n")):
            return False
        self.update(lambda current: append_fact(current, text), source)
        return True

    def entries(self) -> list[Entry]:
        """The facts, in their order."""
        try:
            at = datetime.fromtimestamp(self.path.stat().st_mtime, self._clock.now().tzinfo)
        except OSError:
            return []
        return [
            Entry(entry_id(self._scope.key, Tier.IMPORTANT, fact), Tier.IMPORTANT, fact, at)
            for fact in dict.fromkeys(facts(self.read().split("\n")))
        ]


def append_fact(current: str, text: str) -> str:
    """The text of the file with one more bullet at its end."""
    start = current.rstrip() or HEADING
    gap = "\n" if start.rpartition("\n")[2].lstrip().startswith(("-", "*", "+")) else "\n\n"
    return f"{start}{gap}- {text}\n"
