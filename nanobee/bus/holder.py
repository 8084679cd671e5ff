"""Holder: the one process that may work on a state folder, by an operating-system lock.

The kernel frees the lock on any death of the process, so there is no timer and no stale lock.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nanobee.bus.file_system import network_type
from nanobee.errors import HeldError, StateError

LOCK_NAME = "holder.lock"
PID_NAME = "holder.pid"
HOLD_SECONDS = 1.0
"""How long a start waits for the lock: `holder_pid` of another process takes it for a moment."""


@contextmanager
def hold(state: Path) -> Iterator[None]:
    """Be the holder of `state` while the block runs; the folder is created where it is missing.

    Raises:
        HeldError: another process holds it; names its pid.
        StateError: the folder cannot be created or written, or is on a network file system.
    """
    from filelock import FileLock, Timeout  # 40 ms that `--help` and `status` need not pay

    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_network(state)
        lock = FileLock(state / LOCK_NAME, thread_local=False)
        lock.acquire(timeout=HOLD_SECONDS, poll_interval=0.02)
    except Timeout:
        pid = _read_pid(state)
        owner = "another process" if pid is None else f"process {pid}"
        raise HeldError(f"The state folder {state} is in use by {owner}. Stop it first.", pid) from None
    except (OSError, NotImplementedError) as error:
        raise StateError(f"The state folder {state} cannot be used: {error}") from error
    try:
        (state / PID_NAME).write_text(f"{os.getpid()}\n", encoding="ascii")
        yield
    finally:
        (state / PID_NAME).unlink(missing_ok=True)
        lock.release()


def _refuse_network(state: Path) -> None:
    kind = network_type(state)
    if kind is not None:
        raise StateError(
            f"The state folder {state} is on a network file system ({kind}), where the bus would be damaged. "
            "Set `state` to a folder on a disk of this machine."
        )


def holder_pid(state: Path) -> int | None:
    """The pid of the process that holds `state`, None where nobody does."""
    from filelock import FileLock, Timeout

    if not (state / LOCK_NAME).exists():
        return None
    lock = FileLock(state / LOCK_NAME, thread_local=False)
    try:
        with lock.acquire(blocking=False):
            return None
    except Timeout:
        return _read_pid(state)
    except OSError:
        return None


def _read_pid(state: Path) -> int | None:
    try:
        return int((state / PID_NAME).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
