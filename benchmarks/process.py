"""What a process costs, read from Linux: CPU time to the nanosecond and memory as a fair share (PSS)."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

END_SECONDS = 10.0
"""How long a process may take to end before it is killed."""
_CPUCLOCK_SCHED = 2


def clean_environment(home: Path) -> dict[str, str]:
    """This environment without keys, proxies and interpreter switches, with an empty home."""
    dropped = ("PYTHON", "NANOBEE_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    kept = {name: value for name, value in kept.items() if not name.upper().endswith(("_API_KEY", "_PROXY"))}
    return {**kept, "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}


def cpu_seconds(pid: int) -> float:
    """CPU time that a living process and its living descendants have used."""
    return sum(time.clock_gettime((~process << 3) | _CPUCLOCK_SCHED) for process in _family(pid))


def pss_mib(pid: int) -> float:
    """Memory of a process and its descendants, shared pages counted by their share."""
    rollups = [Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii") for process in _family(pid)]
    return sum(int(rollup.partition("\nPss:")[2].split()[0]) for rollup in rollups) / 1024


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            yield from _family(int(child))


def run_for_cpu(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Run a command to its end; the CPU seconds it used."""
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives as long as the block; what it prints goes into `log`."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, cwd=log.parent, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
