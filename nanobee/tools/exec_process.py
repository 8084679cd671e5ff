"""Running one shell command: in a session of its own, without input, and never longer than the call.

The command's shell is started, but waits for a word before it does anything, so that its process
group can be on disk first. A second small process waits for the end of this one: where it comes
without warning (SIGKILL), it ends the group. Neither needs anything but `sh`, and both are gone at
the return.
"""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import anyio
from anyio.abc import Process

from nanobee.tools.exec_output import BoundedOutput
from nanobee.tools.process_group import MARK, ProcessGroup

READ_BYTES = 1 << 18
MAX_LATE_BYTES = 1 << 20
"""How much is still read of what stands in the pipe when the command has ended."""
EXIT_SECONDS = 2.0
"""How long the end of a process that was killed is waited for."""

_SH = "/bin/sh"
_LAUNCH = 'read -r go || exit 125; exec "$0" -c "$1" </dev/null'
"""Waits for a line; without one, because whoever should write it died, it does nothing."""
_WATCH = 'read -r never; kill -s KILL -- "-$0"'
"""Waits for the end of the process that holds the other end of its input."""

Announce = Callable[[ProcessGroup], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a command."""

    output: str
    code: int | None
    """As `Process.returncode`; None where its time was over."""
    left_processes: bool
    """It ended, but not all of its processes; they were ended then."""


async def run_command(
    command: str, folder: Path, environment: Mapping[str, str], call_id: str, seconds: float, announce: Announce
) -> Ended:
    """Run a command in a shell, for so long at most; no process of its group outlives the return.

    `announce` is told of the group before the command does anything; what it raises ends the command unrun.

    Raises:
        OSError: it cannot be started.
    """
    output = BoundedOutput()
    with _open_pipe() as printed, _open_pipe() as life:
        os.set_blocking(printed.read, False)
        async with _launch(command, folder, {**environment, MARK: call_id}, printed) as (process, go):
            group = ProcessGroup.of_leader(process.pid, call_id)
            async with _watch(group, life):
                try:
                    await announce(group)
                    os.write(go, b"\n")
                    code = await _follow(process, printed.read, output, seconds)
                finally:
                    with anyio.CancelScope(shield=True):
                        was_alive = await group.end()
        _read_rest(printed.read, output)
    return Ended(output.text(), code, left_processes=was_alive and code is not None)


@dataclass(slots=True)
class _Pipe:
    """Both ends, closed at the latest with the block that opened them."""

    read: int
    write: int

    def close_read(self) -> None:
        if self.read >= 0:
            os.close(self.read)
            self.read = -1

    def close_write(self) -> None:
        if self.write >= 0:
            os.close(self.write)
            self.write = -1


@contextmanager
def _open_pipe() -> Iterator[_Pipe]:
    pipe = _Pipe(*os.pipe())
    try:
        yield pipe
    finally:
        pipe.close_read()
        pipe.close_write()


@asynccontextmanager
async def _launch(
    command: str, folder: Path, environment: Mapping[str, str], printed: _Pipe
) -> AsyncIterator[tuple[Process, int]]:
    """Start the shell that waits; the second value takes the word that it waits for."""
    with _open_pipe() as go:
        process = await anyio.open_process(
            [_SH, "-c", _LAUNCH, find_shell(), command],
            stdin=go.read,
            stdout=printed.write,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        go.close_read()
        printed.close_write()
        try:
            yield process, go.write
        finally:
            go.close_write()
            await _reap(process)


@asynccontextmanager
async def _watch(group: ProcessGroup, life: _Pipe) -> AsyncIterator[None]:
    """While the block runs, the end of this process is the end of the group."""
    watcher = await anyio.open_process(
        [_SH, "-c", _WATCH, str(group.id)],
        stdin=life.read,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        start_new_session=True,
    )
    life.close_read()
    try:
        yield
    finally:
        watcher.kill()
        await _reap(watcher)


async def _reap(process: Process) -> None:
    """Wait for a process that has ended, or is about to."""
    with anyio.move_on_after(EXIT_SECONDS, shield=True):
        await process.wait()


async def _follow(process: Process, printed: int, output: BoundedOutput, seconds: float) -> int | None:
    """Read what is printed until the shell ends, whoever else holds the pipe open; None after so many seconds."""
    code: int | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, printed, output)
        with anyio.move_on_after(seconds):
            code = await process.wait()
        tasks.cancel_scope.cancel()
    return code


async def _read(printed: int, output: BoundedOutput) -> None:
    while True:
        await anyio.wait_readable(printed)
        chunk = os.read(printed, READ_BYTES)
        if not chunk:
            return
        output.add(chunk)


def _read_rest(printed: int, output: BoundedOutput) -> None:
    """What stood in the pipe when everybody had ended. A process that left the group may go on printing into it."""
    late = 0
    while late < MAX_LATE_BYTES:
        try:
            chunk = os.read(printed, READ_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            return
        late += len(chunk)
        output.add(chunk)


@cache
def find_shell() -> str:
    """The shell that runs commands: bash, which models write for, where there is one."""
    return shutil.which("bash") or _SH
