"""HistoryFile: HISTORY.md, the log of what happened, one entry a paragraph, only ever appended to.

`[YYYY-MM-DD HH:MM] text [session-key seq a–b]`, in local time. Forgetting is the one exception.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nanobee.clock import Clock
from nanobee.errors import StateError
from nanobee.memory.entries import Source, one_line, split_source
from nanobee.memory.files import append_text, contains_bytes, decode, encode, rewrite

NAME = "HISTORY.md"
_BLANK_LINE = re.compile(rb"\n\r?\n")
_STAMP = re.compile(r"^\[(\d{4}-\d{2}-\d{2} \d{2}:\d{2})\]\s*")
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One paragraph of the file."""

    at: datetime | None
    """Aware UTC; None where it has no stamp, or none that is a time."""
    text: str
    source: Source | None
    end: int
    """Offset in the file behind it."""


class HistoryFile:
    """The file of one scope. Who writes holds the scope's lock."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self.path = root / NAME
        self._clock = clock

    def append(self, at: datetime, text: str, source: str, *, is_replay: bool = False) -> None:
        """Add one entry, on disk at the return. A replay adds it only where its source is not there yet.

        Raises:
            StateError: the disk refuses.
        """
        stamp = self._clock.local(at).strftime("%Y-%m-%d %H:%M")
        ending = f"[{source}]"
        if is_replay and contains_bytes(self.path, f" {ending}\n".encode()):
            return
        append_text(self.path, f"[{stamp}] {one_line(text)} {ending}", drops_cut=is_replay)

    def entries(self, start: int = 0) -> Iterator[HistoryEntry]:
        """The entries from an offset on, which is 0 or the `end` of one. A last one without a blank line counts.

        Raises:
            StateError: the file cannot be read.
        """
        for paragraph, end in self._paragraphs(start):
            yield from self._read(paragraph, end)

    def _paragraphs(self, start: int = 0) -> Iterator[tuple[bytes, int]]:
        """Raw paragraphs with the blank line behind them, and the offset there."""
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                rest, offset = b"", start
                while block := file.read(BLOCK_BYTES):
                    rest += block
                    position = 0
                    for blank in _BLANK_LINE.finditer(rest):
                        yield rest[position : blank.end()], offset + blank.end()
                        position = blank.end()
                    rest, offset = rest[position:], offset + position
                if rest:
                    yield rest, offset + len(rest)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StateError(f"{self.path} cannot be read: {error.strerror}") from error

    def _read(self, data: bytes, end: int) -> Iterator[HistoryEntry]:
        paragraph = decode(data).strip()
        if not paragraph or paragraph.startswith("# "):
            return
        match = _STAMP.match(paragraph)
        text, source = split_source(paragraph[match.end() :] if match else paragraph)
        yield HistoryEntry(self._at(match[1]) if match else None, text, source, end)

    def _at(self, stamp: str) -> datetime | None:
        try:
            local = datetime.strptime(stamp, "%Y-%m-%d %H:%M")
        except ValueError:
            return None
        # Without a zone of our own, `astimezone` takes it as the machine's local time.
        return (local if self._clock.zone is None else local.replace(tzinfo=self._clock.zone)).astimezone(UTC)

    def redact(self, change: Callable[[str], str]) -> int:
        """Rewrite the paragraphs that `change` changes; return how many. Only forgetting may do this.

        The file is copied piece by piece, since it may be long.

        Raises:
            StateError: the disk refuses; nothing was changed.
        """
        count = 0

        def paragraphs() -> Iterator[bytes]:
            nonlocal count
            for paragraph, _ in self._paragraphs():
                text = decode(paragraph)
                changed = change(text) if text.strip() else text
                count += changed != text
                yield paragraph if changed == text else encode(changed)

        rewrite(self.path, paragraphs())
        return count
