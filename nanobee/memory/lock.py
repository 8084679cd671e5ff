"""WriterLock: one writer a scope, over threads and processes; the kernel frees it on any death."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from nanobee.errors import StateError
from nanobee.memory.scope import Scope
from nanobee.workspace import make_private_folder

FOLDER = "memory"
"""In the state folder: locks and search indexes, all of which may be deleted while nothing runs."""
WAIT_SECONDS = 30.0
"""How long a writer waits for another one; nobody holds the lock while a model is asked."""
POLL_SECONDS = 0.01


class WriterLock:
    """Held around each change of a scope's files. Blocks: use it in a worker thread."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER

    @contextmanager
    def hold(self, scope: Scope) -> Iterator[None]:
        """Be the scope's one writer.

        Raises:
            StateError: another writer does not end.
        """
        make_private_folder(self._folder)
        path = self._folder / f"{scope.file_name}.lock"
        try:
            # A lock of its own for each holder, so that two threads exclude each other as two processes do.
            with FileLock(path, timeout=WAIT_SECONDS, mode=0o600, thread_local=False).acquire(
                poll_interval=POLL_SECONDS
            ):
                yield
        except Timeout:
            raise StateError(f"the memory {scope.key} is being written by somebody who does not end") from None
