"""Forward: a session file read from a line on. The place is found by halving, so the length before it costs nothing."""

import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nanobee.bus.lines import Line, LineKind

SEARCH_BYTES = 64 * 1024
"""Halving ends at stretches of this size, which are read through."""
_TAKES_BACK = re.compile(rb'"kind":"(?:undone|forgotten)"')


def read_forward(path: Path, after: int) -> Iterator[Line]:
    """The file's lines with a `seq` above `after`, in order. Lines that cannot be read are skipped."""
    with _open(path) as data:
        if data is None:
            return
        position = _find(data, after)
        while position < len(data):
            line, position = _line_at(data, position)
            if line is not None and line.seq > after:
                yield line


def read_takebacks(path: Path, after: int) -> Iterator[Line]:
    """The `undone` and `forgotten` lines above `after`, however far behind what they take back."""
    with _open(path) as data:
        if data is None:
            return
        for match in _TAKES_BACK.finditer(data, _find(data, after)):
            line, _ = _line_at(data, data.rfind(b"\n", 0, match.start()) + 1)
            if line is not None and line.seq > after and takes_back(line):
                yield line


def takes_back(line: Line) -> bool:
    """Whether a line says that others are not to be read any more."""
    return line.kind in (LineKind.UNDONE, LineKind.FORGOTTEN)


@contextmanager
def _open(path: Path) -> Iterator[mmap.mmap | None]:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data
    except (FileNotFoundError, ValueError):  # an empty file cannot be mapped
        yield None


def _find(data: mmap.mmap, after: int) -> int:
    """Where a line begins that is not behind the first one with a `seq` above `after`."""
    low, high = 0, len(data)
    while high - low > SEARCH_BYTES:
        middle = (low + high) // 2
        start = data.find(b"\n", middle, high) + 1
        line, end = None, start
        while line is None and 0 < end < high:
            line, end = _line_at(data, end)
        if line is None or line.seq > after:
            high = middle
        else:
            low = start
    return low


def _line_at(data: mmap.mmap, start: int) -> tuple[Line | None, int]:
    """The line that begins there, None where it cannot be read, and where the next one begins."""
    end = data.find(b"\n", start)
    end = len(data) if end < 0 else end
    try:
        return Line.from_json(data[start:end]), end + 1
    except (ValueError, RecursionError):
        return None, end + 1
