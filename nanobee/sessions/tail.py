"""Tail: a session file read from its end, in blocks, so that its length costs nothing."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nanobee.bus.lines import Line

BLOCK_BYTES = 64 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class BadLine:
    """Bytes in a session file that are not a session line."""

    offset: int
    """Where they begin in the file."""
    data: bytes


def read_backwards(path: Path, block_bytes: int = BLOCK_BYTES) -> Iterator[Line | BadLine]:
    """The file's lines, last first; a line that cannot be read comes as `BadLine`. Empty lines are skipped."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        position = file.seek(0, os.SEEK_END)
        rest: list[bytes] = []
        while position > 0:
            size = min(block_bytes, position)
            position -= size
            file.seek(position)
            block = file.read(size)
            first, newline, others = block.partition(b"\n")
            if not newline:
                rest.insert(0, block)
                continue
            whole = others + b"".join(rest)
            rest = [first + b"\n"]
            yield from _parse(whole, position + len(first) + 1)
        yield from _parse(b"".join(rest), 0)


def _parse(data: bytes, offset: int) -> Iterator[Line | BadLine]:
    starts = []
    position = 0
    for line in data.split(b"\n"):
        starts.append((position, line))
        position += len(line) + 1
    for start, line in reversed(starts):
        parsed = _parse_line(line, offset + start)
        if parsed is not None:
            yield parsed


def _parse_line(data: bytes, offset: int) -> Line | BadLine | None:
    text = data.removeprefix(BYTE_ORDER_MARK) if offset == 0 else data
    text = text.rstrip(b"\r")
    if not text.strip():
        return None
    try:
        return Line.from_json(text)
    except (ValueError, RecursionError):
        return BadLine(offset, data)
