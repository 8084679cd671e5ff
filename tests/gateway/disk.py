"""A disk that takes nothing more, for this process: every write past a size fails, as on a full or read-only disk."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FULL = -1
"""Files keep their sizes: what is appended fails, as on a full disk."""
READ_ONLY = 0
"""No write succeeds at all."""


@contextmanager
def failing_disk(state: Path, max_bytes: int = READ_ONLY) -> Iterator[None]:
    """Let no file of this process grow past `max_bytes`; with `FULL` past the size that the bus's log has now."""
    if max_bytes == FULL:
        max_bytes = (state / "bus.db-wal").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
