"""ProcessGroup: the processes of one command, as they are recorded, ended, and found again after a crash.

A process id alone names nothing for long: the kernel gives it out again. With its start time and
the machine's boot it does. Without `/proc` (macOS) a group cannot be found again after a crash.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import anyio

from nanobee.messages import JsonObject

MARK = "NANOBEE_CALL"
"""The variable that tells a command's processes by the call they belong to; children inherit it."""
GRACE_PAUSES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.15)
"""How long a group may take to end by SIGTERM before it gets SIGKILL, and when it is looked at meanwhile."""
KILL_PAUSES = (*GRACE_PAUSES, 0.3, 0.4)
"""How long the end of a group that got SIGKILL is waited for."""

_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """One command's processes: those whose group is its first process's id."""

    id: int
    call_id: str
    """The tool call that it runs for; stands in `MARK`."""
    started: int | None
    """When its first process started, in the kernel's ticks since the boot; None where nobody can tell."""
    boot: str | None
    """Which boot of the machine."""

    @classmethod
    def of_leader(cls, pid: int, call_id: str) -> Self:
        """The group of a process that leads one and is alive."""
        stat = _read_stat(pid)
        return cls(pid, call_id, None if stat is None else stat.started, read_boot_id())

    def to_json(self) -> JsonObject:
        """As the intent line holds it."""
        return {"group": self.id, "started": self.started, "boot": self.boot}

    @classmethod
    def from_json(cls, value: object, call_id: str) -> Self | None:
        """The inverse of `to_json`; None for what is no group."""
        if not isinstance(value, dict) or type(value.get("group")) is not int or value["group"] <= 1:
            return None
        started, boot = value.get("started"), value.get("boot")
        return cls(
            value["group"],
            call_id,
            started if type(started) is int else None,
            boot if isinstance(boot, str) else None,
        )

    @property
    def is_alive(self) -> bool:
        """Whether there are processes in it that can still do something."""
        if not self.send(0):
            return False
        # The dead stay in their group until somebody asks for their exit codes, in a container perhaps for ever.
        return not _PROC.exists() or any(stat.group == self.id and not stat.is_dead for stat in _read_stats())

    def send(self, number: int) -> bool:
        """Signal all of its processes; False where there are none."""
        try:
            os.killpg(self.id, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            # Some of them belong to somebody else (sudo); the others got it.
            return True
        return True

    async def end(self) -> bool:
        """End all of its processes, first asking; False where there were none."""
        if not self.is_alive:
            return False
        self.send(signal.SIGTERM)
        # A stopped process takes SIGTERM only when it goes on.
        self.send(signal.SIGCONT)
        if not await self._is_gone_within(GRACE_PAUSES):
            self.send(signal.SIGKILL)
            await self._is_gone_within(KILL_PAUSES)
        return True

    async def _is_gone_within(self, pauses: Sequence[float]) -> bool:
        # Nobody tells the end of a process that is not our child, so it has to be looked for.
        for pause in pauses:
            await anyio.sleep(pause)
            if not self.is_alive:
                return True
        return False

    def is_found_again(self) -> bool:
        """Whether a group of this id is surely the recorded one, long after."""
        if self.started is None or self.boot is None or self.boot != read_boot_id():
            return False
        leader = _read_stat(self.id)
        if leader is not None:
            return leader.group == self.id and leader.started == self.started
        return any(stat.group == self.id and self._is_marked(stat.pid) for stat in _read_stats())

    def _is_marked(self, pid: int) -> bool:
        try:
            environment = (_PROC / str(pid) / "environ").read_bytes()
        except OSError:
            return False
        return f"{MARK}={self.call_id}".encode() in environment.split(b"\x00")


@dataclass(frozen=True, slots=True)
class _Stat:
    """What `/proc/PID/stat` says."""

    pid: int
    is_dead: bool
    """Nobody has asked for its exit code yet."""
    group: int
    started: int


def read_boot_id() -> str | None:
    """A text that changes with each boot; None where there is none."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _read_stat(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The name stands in brackets and may hold anything; the state comes after the last of them.
    fields = text.rpartition(")")[2].split()
    with suppress(IndexError, ValueError):
        return _Stat(pid, fields[0] in ("Z", "X"), int(fields[2]), int(fields[19]))
    return None


def _read_stats() -> Iterator[_Stat]:
    for folder in _PROC.iterdir():
        if folder.name.isdecimal() and (stat := _read_stat(int(folder.name))) is not None:
            yield stat


def describe_end(code: int) -> str:
    """An exit code as `Process.returncode` has it, in words, with the signal's name where there was one."""
    number = -code if code < 0 else code - 128
    name = ""
    if code < 0 or code > 128:
        with suppress(ValueError):
            name = signal.Signals(number).name
    if code < 0:
        return f"ended by {name or f'signal {number}'}"
    return f"exit code {code} ({name})" if name else f"exit code {code}"
