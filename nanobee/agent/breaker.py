"""Breaker: leaves a failing provider alone for a while, so that its time-outs do not cost every turn."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_FAILURES = 3
"""Failed steps in a row that open the breaker."""
FIRST_PAUSE_SECONDS = 30.0
MAX_PAUSE_SECONDS = 600.0
"""How long a provider is left alone; twice as long each time that it fails again."""


@dataclass(slots=True)
class _Record:
    failures: int = 0
    open_until: float = 0.0


@dataclass(slots=True)
class Breaker:
    """One for all providers of a process, by name."""

    now: Callable[[], float] = time.monotonic
    _records: dict[str, _Record] = field(default_factory=dict)

    def is_closed(self, name: str) -> bool:
        """Whether the provider may be asked."""
        return name not in self._records or self._records[name].open_until <= self.now()

    def note_success(self, name: str) -> None:
        """It works: everything before is forgotten."""
        self._records.pop(name, None)

    def note_failure(self, name: str) -> None:
        """It failed a step, retries included."""
        record = self._records.setdefault(name, _Record())
        record.failures += 1
        if record.failures >= MAX_FAILURES:
            pause = FIRST_PAUSE_SECONDS * 2 ** (record.failures - MAX_FAILURES)
            record.open_until = self.now() + min(pause, MAX_PAUSE_SECONDS)
