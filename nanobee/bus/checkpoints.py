"""Checkpoints: named points at which a fault injection can kill the process.

`NANOBEE_CHECKPOINT=NAME:N` kills this process, as `kill -9` would, when it passes NAME for the
Nth time. Without the variable a checkpoint costs one comparison.
"""

import os
import signal

VARIABLE = "NANOBEE_CHECKPOINT"

NAMES = (
    "receive.stored",
    "receive.committed",
    "resolve.stored",
    "claim.stored",
    "record.stored",
    "record.committed",
    "suspend.stored",
    "suspend.committed",
    "steer.stored",
    "finish.stored",
    "finish.committed",
    "stop.stored",
    "stop.committed",
    "stream.shown",
    "stream.committed",
    "sending.committed",
    "send.done",
    "sent.stored",
    "lines.appended",
    "lines.synced",
)
"""Every point. `stored` is before the commit, `committed` after it, `shown` and `done` after the platform took it."""

MEMORY_NAMES = (
    "memory.accepted",
    "memory.history",
    "memory.facts",
    "memory.daily",
    "memory.misc",
    "memory.moved",
)
"""Those of a consolidation, each behind what it names."""


class _Armed:
    """The point that kills, and how often it has still to be passed."""

    def __init__(self, text: str | None) -> None:
        name, _, count = (text or "").partition(":")
        self.name = name if text else None
        self.left = int(count) if count.isdecimal() else 1


_armed = _Armed(os.environ.get(VARIABLE))


def checkpoint(name: str) -> None:
    """Pass a point; the armed one ends the process without any cleanup."""
    if _armed.name is None or name != _armed.name:
        return
    _armed.left -= 1
    if _armed.left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
