"""Accepted: what goes into memory for one range of a session, stored in the bus before it is applied to the files."""

import json
from dataclasses import dataclass
from datetime import datetime

from nanobee.bus.checkpoints import checkpoint
from nanobee.bus.lines import format_at, parse_at
from nanobee.memory.entries import Source, Tier, entry_id
from nanobee.memory.memory import Memories
from nanobee.memory.scope import Scope
from nanobee.memory.words import overlap, tokens


@dataclass(frozen=True, slots=True)
class Accepted:
    """An answer that has passed the guard."""

    scope_key: str
    source: Source
    at: datetime
    """Of the range's last message; aware UTC."""
    entry: str
    """For HISTORY.md."""
    base: str = ""
    """MEMORY.md as the model saw it."""
    update: str | None = None
    """What it is to become; None leaves it as it is."""
    note: str = ""
    """For the notes of the day; may be empty."""
    promoted: tuple[str, ...] = ()
    """Texts of short-lived notes that become facts."""

    def to_json(self) -> str:
        """As the bus stores it."""
        whole = {
            "scope": self.scope_key,
            "session": self.source.session_key,
            "first": self.source.first,
            "last": self.source.last,
            "at": format_at(self.at),
            "entry": self.entry,
            "base": self.base,
            "update": self.update,
            "note": self.note,
            "promoted": list(self.promoted),
        }
        return json.dumps(whole)

    @classmethod
    def from_json(cls, text: str) -> "Accepted":
        """The inverse of `to_json`."""
        whole = json.loads(text)
        return cls(
            scope_key=whole["scope"],
            source=Source(whole["session"], whole["first"], whole["last"]),
            at=parse_at(whole["at"]),
            entry=whole["entry"],
            base=whole["base"],
            update=whole["update"],
            note=whole["note"],
            promoted=tuple(whole["promoted"]),
        )

    def apply(self, memories: Memories, *, is_replay: bool) -> None:
        """Bring it into the four targets, each of which takes it once. Blocks; holds the scope's lock.

        Raises:
            StateError: the disk refuses; it may be applied in part, and is to be replayed.
        """
        scope = memories.scopes.named(self.scope_key)
        memory = memories.of(scope)
        source = str(self.source)
        with memories.lock.hold(scope):
            memory.history.append(self.at, self.entry, source, is_replay=is_replay)
            checkpoint("memory.history")
            if self.update is not None:
                memory.facts.apply(self.base, self.update, source)
            self._promote(memories, scope)
            checkpoint("memory.facts")
            if self.note:
                memory.daily.add(self.at, self.note, source)
            checkpoint("memory.daily")
            memory.misc.remove(entry_id(scope.key, Tier.MISC, text) for text in self.promoted)
            checkpoint("memory.misc")

    def _promote(self, memories: Memories, scope: Scope) -> None:
        facts = memories.of(scope).facts
        for text in self.promoted:
            # The update may say it already, in other words.
            if overlap(text, frozenset(tokens(facts.read()))) < 1.0:
                facts.add_fact(text, str(self.source))
