"""DailyNotes: one file a day with what matters on the days around it, a bullet each with its time."""

import re
from datetime import date, datetime
from pathlib import Path

from nanobee.clock import Clock
from nanobee.errors import StateError
from nanobee.memory.entries import Entry, Tier, bullet_text, entry_id, is_fact, one_line, split_source
from nanobee.memory.files import read_text, replace_text
from nanobee.memory.scope import Scope

FOLDER = "daily"
_NAME = re.compile(r"(\d{4}-\d{2}-\d{2})\.md")
_TIME = re.compile(r"^(\d{1,2}:\d{2})\s+")


class DailyNotes:
    """The daily files of one scope. Who writes holds the scope's lock."""

    def __init__(self, root: Path, scope: Scope, clock: Clock) -> None:
        self.folder = root / FOLDER
        self._scope = scope
        self._clock = clock

    def path(self, day: date) -> Path:
        """The file of a day."""
        return self.folder / f"{day.isoformat()}.md"

    def days(self) -> list[date]:
        """The days that have a file, in order."""
        found = []
        for path in self.folder.glob("*.md"):
            match = _NAME.fullmatch(path.name)
            try:
                found.append(date.fromisoformat(match[1] if match else ""))
            except ValueError:
                continue
        return sorted(found)

    def read(self, day: date) -> str:
        """The day's text; empty where there is none.

        Raises:
            StateError: the file cannot be read.
        """
        return read_text(self.path(day))

    def add(self, at: datetime, text: str, source: str = "") -> bool:
        """Add a note to the day of `at`; False where the same note stands there.

        Raises:
            StateError: the disk refuses, or somebody else does not stop writing.
        """
        local = self._clock.local(at)
        note = one_line(text)
        for _ in range(5):
            current = self.read(local.date())
            if note in (entry.text for entry in self._entries(local.date(), current)):
                return False
            start = current.rstrip() or f"# {local.date().isoformat()}\n"
            ending = f" [{source}]" if source else ""
            new = f"{start}\n- {local.strftime('%H:%M')} {note}{ending}\n"
            if replace_text(self.path(local.date()), new, expected=current):
                return True
        raise StateError(f"{self.path(local.date())} is changed by somebody else again and again")

    def entries(self, day: date) -> list[Entry]:
        """The notes of a day, in their order.

        Raises:
            StateError: the file cannot be read.
        """
        return self._entries(day, self.read(day))

    def _entries(self, day: date, text: str) -> list[Entry]:
        entries = []
        for line in filter(is_fact, text.split("\n")):
            note = bullet_text(line)
            time = _TIME.match(note)
            said, source = split_source(note[time.end() :] if time else note)
            at = self._at(day, time[1] if time else "00:00")
            entries.append(Entry(entry_id(self._scope.key, Tier.DAILY, said), Tier.DAILY, said, at, source))
        return entries

    def _at(self, day: date, time: str) -> datetime:
        hour, minute = (int(part) for part in time.split(":"))
        local = datetime(day.year, day.month, day.day, min(hour, 23), min(minute, 59))
        aware = local if self._clock.zone is None else local.replace(tzinfo=self._clock.zone)
        return aware.astimezone(self._clock.now().tzinfo)

    def remove(self, day: date) -> None:
        """Delete a day's file, once it stands in HISTORY.md."""
        self.path(day).unlink(missing_ok=True)
