"""Grep: a pattern looked for in the files of a scope, within a time, by a process that cannot hold us up."""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
from anyio.streams.text import TextReceiveStream

from nanobee.errors import StateError, ToolError
from nanobee.memory import grep_child

MAX_SECONDS = 5.0
"""After this the process is ended; what it found until then counts."""
MAX_PATTERN_CHARS = 500
MAX_MATCHES = 50


@dataclass(frozen=True, slots=True)
class Line:
    """One line that fits."""

    path: Path
    number: int
    """Of the line; in a session file, its `seq`."""
    text: str


@dataclass(frozen=True, slots=True)
class Lines:
    """What was found."""

    found: tuple[Line, ...]
    is_complete: bool
    """False where the time was up first."""


async def grep(pattern: str, files: Sequence[Path], *, limit: int = MAX_MATCHES) -> Lines:
    """Look for a regular expression, letter case aside, in files in their order.

    Raises:
        ToolError: it is no regular expression.
        StateError: no process can be started.
    """
    try:
        re.compile(pattern[: MAX_PATTERN_CHARS + 1])
    except (re.error, RecursionError, OverflowError) as error:
        raise ToolError(f"the pattern is no regular expression: {error}") from None
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ToolError(f"the pattern is longer than {MAX_PATTERN_CHARS} characters")
    order = json.dumps({"pattern": pattern, "files": [str(path) for path in files], "limit": limit})
    rows: list[str] = []
    is_complete = False
    command = [sys.executable, "-I", "-S", str(grep_child.__file__)]
    try:
        process = await anyio.open_process(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True)
    except OSError as error:
        raise StateError(f"no process can be started for a search: {error.strerror}") from error
    async with process:
        with anyio.move_on_after(MAX_SECONDS):
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdin.send(order.encode())
            await process.stdin.aclose()
            async for text in TextReceiveStream(process.stdout, errors="replace"):
                rows.append(text)
            is_complete = await process.wait() == 0
        if not is_complete and process.returncode is None:
            process.kill()
    return Lines(_read("".join(rows), files), is_complete)


def _read(text: str, files: Sequence[Path]) -> tuple[Line, ...]:
    found = []
    for row in text.split("\n"):
        try:
            whole = json.loads(row)
        except ValueError:
            continue  # the last one may be cut
        found.append(Line(files[whole["file"]], whole["line"], whole["text"]))
    return tuple(found)
