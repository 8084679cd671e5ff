"""SystemCalls: what a process and its threads asked of the kernel, in order, as strace saw it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

TRACED = "fsync,fdatasync,pwrite64,write,sendto,sendmsg,writev,recvfrom,openat,rename,renameat,renameat2"
_CALL = re.compile(r"(?P<thread>\d+)\s+(?P<name>\w+)\((?P<text>.*)")
_RESUMED = re.compile(r"(?P<thread>\d+)\s+<\.\.\. (?P<name>\w+) resumed>(?P<text>.*)")
_UNFINISHED = " <unfinished ...>"


def strace_command(program: str, trace: Path) -> list[str]:
    """What stands before a command so that all its threads are traced into a file.

    Long texts are kept whole, and descriptors are named by file and by connection.
    """
    return [program, "-f", "-yy", "-s", "65536", "-e", f"trace={TRACED}", "-o", str(trace)]


@dataclass(frozen=True)
class SystemCall:
    """One call."""

    name: str
    text: str
    """Arguments and result, as strace writes them: quotes are escaped."""
    begun: int
    """Its place among the beginnings and ends of all calls."""
    ended: int


@dataclass(frozen=True)
class SystemCalls:
    """The calls of one run."""

    calls: tuple[SystemCall, ...]
    """In the order in which they began."""

    def find(self, pattern: str, *names: str, after: int = -1) -> SystemCall:
        """The first call of these names that began after a place and whose text holds the pattern.

        Raises:
            AssertionError: there is none.
        """
        for call in self.all(pattern, *names):
            if call.begun > after:
                return call
        raise AssertionError(f"no {'/'.join(names)} with {pattern!r} after {after}")

    def all(self, pattern: str, *names: str) -> Iterator[SystemCall]:
        """All calls of these names whose text holds the pattern."""
        return (call for call in self.calls if call.name in names and re.search(pattern, call.text))


def read_trace(path: Path) -> SystemCalls:
    """Read what strace wrote; calls that a thread's end cut off are left out."""
    calls: list[SystemCall] = []
    open_calls: dict[str, SystemCall] = {}
    with path.open(encoding="utf-8", errors="replace") as lines:
        for place, line in enumerate(lines):
            text = line.rstrip("\n")
            if resumed := _RESUMED.match(text):
                begun = open_calls.pop(resumed["thread"])
                calls.append(replace(begun, text=begun.text + resumed["text"], ended=place))
            elif call := _CALL.match(text):
                is_open = call["text"].endswith(_UNFINISHED)
                seen = SystemCall(call["name"], call["text"].removesuffix(_UNFINISHED), place, place)
                if is_open:
                    open_calls[call["thread"]] = seen
                else:
                    calls.append(seen)
    return SystemCalls(tuple(sorted(calls, key=lambda call: call.begun)))
