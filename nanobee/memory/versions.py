"""Versions: the last texts of MEMORY.md, with what each came from."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from nanobee.bus.lines import format_at, parse_at
from nanobee.memory.files import read_text, replace_text

NAME = ".versions.jsonl"
MAX_VERSIONS = 20
"""Texts that are kept."""
BY_HAND = "hand"
"""Source of a text that nobody of ours wrote."""


@dataclass(frozen=True, slots=True)
class Version:
    """One text that MEMORY.md had."""

    number: int
    at: datetime
    """When it was first seen or written; aware UTC."""
    source: str
    """`session-key seq a–b`, `hand`, `restore 3`, `forget`, or what a tool says."""
    text: str

    def to_json(self) -> str:
        """One line; foreign bytes of a hand edit are kept."""
        whole = {"number": self.number, "at": format_at(self.at), "source": self.source, "text": self.text}
        return json.dumps(whole)


class Versions:
    """The kept texts of one scope. Who writes holds the scope's lock."""

    def __init__(self, root: Path) -> None:
        self.path = root / NAME

    def load(self) -> list[Version]:
        """All that are kept, the oldest first; lines that cannot be read are left out."""
        versions = []
        for line in read_text(self.path).split("\n"):
            version = _parse(line)
            if version is not None:
                versions.append(version)
        return versions

    def keep(self, current: str, new: str, source: str, at: datetime) -> None:
        """Keep what stands in the file now, if nobody of ours wrote it, and what will stand there.

        Raises:
            StateError: the disk refuses.
        """
        versions = self.load()
        for text, origin in ((current, BY_HAND), (new, source)):
            if versions and versions[-1].text == text:
                continue
            if text.strip() or versions:
                number = versions[-1].number + 1 if versions else 1
                versions.append(Version(number, at, origin, text))
        self._save(versions[-MAX_VERSIONS:])

    def redact(self, change: Callable[[str], str]) -> None:
        """Rewrite the texts; only forgetting may do this.

        Raises:
            StateError: the disk refuses.
        """
        versions = self.load()
        changed = [replace(version, text=change(version.text)) for version in versions]
        if changed != versions:
            self._save(changed)

    def _save(self, versions: Iterable[Version]) -> None:
        replace_text(self.path, "".join(f"{version.to_json()}\n" for version in versions))


def _parse(line: str) -> Version | None:
    try:
        whole = json.loads(line)
        number, source, text = whole["number"], whole["source"], whole["text"]
        at = parse_at(whole["at"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if type(number) is not int or not isinstance(source, str) or not isinstance(text, str):
        return None
    return Version(number, at, source, text)
