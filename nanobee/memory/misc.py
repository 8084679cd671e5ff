"""MiscNotes: `misc.jsonl`, short-lived notes, each with the day on which it goes."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from nanobee.bus.lines import format_at, parse_at
from nanobee.errors import StateError
from nanobee.memory.entries import Entry, Tier, entry_id, one_line, split_source
from nanobee.memory.files import read_text, replace_text
from nanobee.memory.scope import Scope

NAME = "misc.jsonl"
MAX_NOTES = 1_000
"""Notes that are kept; past it, those go first that would go first anyway."""


@dataclass(frozen=True, slots=True)
class MiscNote:
    """One note."""

    text: str
    at: datetime
    expires_at: datetime
    source: str = ""
    is_trusted: bool = True
    uses: int = 0
    """How often a search or a recall has shown it."""

    def to_json(self) -> str:
        """One line of the file."""
        whole = {
            "text": self.text,
            "at": format_at(self.at),
            "expires_at": format_at(self.expires_at),
            "source": self.source,
            "trusted": self.is_trusted,
            "uses": self.uses,
        }
        return json.dumps(whole, ensure_ascii=False)


class MiscNotes:
    """The notes of one scope. Who writes holds the scope's lock. Lines that cannot be read are kept as they are."""

    def __init__(self, root: Path, scope: Scope) -> None:
        self.path = root / NAME
        self._scope = scope

    def load(self) -> list[MiscNote]:
        """All notes, the oldest first, those past their day too.

        Raises:
            StateError: the file cannot be read.
        """
        parsed = (_parse(line) for line in read_text(self.path).split("\n"))
        return [note for note in parsed if note is not None]

    def id_of(self, note: MiscNote) -> int:
        """The note's stable id."""
        return entry_id(self._scope.key, Tier.MISC, note.text)

    def entries(self, now: datetime) -> list[Entry]:
        """The notes that have not passed their day."""
        return [self._entry(note) for note in self.load() if note.expires_at > now]

    def _entry(self, note: MiscNote) -> Entry:
        _, source = split_source(f"x [{note.source}]") if note.source else ("", None)
        return Entry(self.id_of(note), Tier.MISC, note.text, note.at, source, note.expires_at, note.is_trusted)

    def add(self, note: MiscNote) -> bool:
        """Add a note; False where the same text is there, which then lasts as long as the longer of both.

        Raises:
            StateError: the disk refuses.
        """
        note = replace(note, text=one_line(note.text))
        known = {each.text: each for each in self.load()}
        old = known.get(note.text)
        if old is None:
            self._change(lambda notes: [*notes, note])
            return True
        if old.expires_at < note.expires_at:
            longer = replace(old, expires_at=note.expires_at)
            self._change(lambda notes: [longer if each.text == note.text else each for each in notes])
        return False

    def remove(self, ids: Iterable[int]) -> list[MiscNote]:
        """Take notes out; return those that were there.

        Raises:
            StateError: the disk refuses.
        """
        wanted = set(ids)
        gone = [note for note in self.load() if self.id_of(note) in wanted]
        if gone:
            self._change(lambda notes: [note for note in notes if self.id_of(note) not in wanted])
        return gone

    def note_use(self, ids: Iterable[int]) -> None:
        """Count that notes were shown.

        Raises:
            StateError: the disk refuses.
        """
        wanted = set(ids)
        self._change(lambda notes: [replace(n, uses=n.uses + 1) if self.id_of(n) in wanted else n for n in notes])

    def clean(self, now: datetime) -> int:
        """Drop what is past its day, and what is too much; return how many notes went.

        Raises:
            StateError: the disk refuses.
        """
        before = self.load()
        lasting = [note for note in before if note.expires_at > now]
        excess = len(lasting) - MAX_NOTES
        first = sorted(lasting, key=lambda note: note.expires_at)[: max(excess, 0)]
        kept = [note for note in lasting if note not in first]
        if len(kept) != len(before):
            self._change(lambda notes: [note for note in notes if note in kept])
        return len(before) - len(kept)

    def _change(self, change: Callable[[list[MiscNote]], list[MiscNote]]) -> None:
        for _ in range(5):
            current = read_text(self.path)
            lines = current.split("\n")
            unknown = [line for line in lines if line.strip() and _parse(line) is None]
            notes = [note for note in map(_parse, lines) if note is not None]
            new = "".join(f"{line}\n" for line in (*unknown, *(note.to_json() for note in change(notes))))
            if new == current or replace_text(self.path, new, expected=current):
                return
        raise StateError(f"{self.path} is changed by somebody else again and again")


def _parse(line: str) -> MiscNote | None:
    try:
        whole = json.loads(line)
        text, source, uses = whole["text"], whole.get("source", ""), whole.get("uses", 0)
        at, expires_at = parse_at(whole["at"]), parse_at(whole["expires_at"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not isinstance(text, str) or not isinstance(source, str) or type(uses) is not int or not text.strip():
        return None
    return MiscNote(text, at, expires_at, source, whole.get("trusted") is not False, uses)
