"""Projection: what the bus asks of the session files, which follow its journal."""

from collections.abc import Iterable, Sequence
from typing import Protocol


class Projection(Protocol):
    """Appends committed lines to the session files. Called from the bus's own threads."""

    def append(self, lines: Sequence[tuple[str, str]]) -> None:
        """Append (session key, JSON line) in order. A failure is logged, the journal keeps the lines."""
        ...

    def sync(self, session_keys: Iterable[str]) -> set[str]:
        """Put the files' lines on disk; return the sessions for which all appended lines are safe."""
        ...

    def last_seq(self, session_key: str) -> int:
        """The last `seq` in the session's file, 0 where it has none."""
        ...
