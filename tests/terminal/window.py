"""Window: a real pseudo-terminal with the driver in it, and what a person would see."""

import json
import os
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pexpect
import pyte

DRIVER = Path(__file__).with_name("driver.py")
WAIT_SECONDS = 10.0
"""Bound of every wait; a test that has to wait that long has failed."""


def build_command(settings: Mapping[str, object], log: Path) -> list[str]:
    """The command line that runs the driver with these settings."""
    return [sys.executable, str(DRIVER), json.dumps({"kind": "terminal", **settings}), str(log)]


def build_environment(**changes: str) -> dict[str, str]:
    """The process environment, with a terminal of known abilities."""
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
    return kept | {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", "PYTHONWARNINGS": "error"} | changes


def read_arrivals(log: Path) -> list[dict[str, object]]:
    """What the inbox of the driver got."""
    if not log.exists():
        return []
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


class Window:
    """A terminal window of rows and columns, with everything that scrolled out of it."""

    def __init__(
        self, log: Path, settings: Mapping[str, object], rows: int = 24, columns: int = 80, **environment: str
    ) -> None:
        self._log = log
        self._screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        command, *arguments = build_command(settings, log)
        self._child = pexpect.spawn(
            command, arguments, dimensions=(rows, columns), env=build_environment(**environment), timeout=WAIT_SECONDS
        )
        self._flags = self._read_flags()

    def close(self) -> None:
        self._child.close(force=True)

    def press(self, keys: str) -> None:
        """Send keys as a terminal would."""
        self._child.send(keys)

    def press_bytes(self, keys: bytes) -> None:
        """Send bytes that need not be text."""
        self._child.send(keys)

    def signal(self, number: int) -> None:
        self._child.kill(number)

    def resize(self, rows: int, columns: int) -> None:
        self._screen.resize(rows, columns)
        self._child.setwinsize(rows, columns)

    @property
    def visible(self) -> str:
        """What the window shows now."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    @property
    def text(self) -> str:
        """What the window shows, and all that scrolled out above it."""
        columns = self._screen.columns
        above = ["".join(line[x].data for x in range(columns)).rstrip() for line in self._screen.history.top]
        return "\n".join([*above, self.visible])

    @property
    def title(self) -> str:
        return str(self._screen.title)

    @property
    def cursor_is_hidden(self) -> bool:
        return bool(self._screen.cursor.hidden)

    def wait_for(self, text: str) -> None:
        """Read until the text stands in the window or above it."""
        self.wait_until(lambda: text in self.text, text)

    def wait_until(self, holds: Callable[[], bool], what: str = "a condition") -> None:
        ends_at = time.monotonic() + WAIT_SECONDS
        while not holds():
            assert time.monotonic() < ends_at, f"{what} did not come; the window shows:\n{self.text}"
            assert self._read(), f"the program ended before {what}; the window shows:\n{self.text}"

    def wait_arrivals(self, count: int) -> list[str]:
        """Read until so many messages have arrived; return their texts."""
        self.wait_until(lambda: len(read_arrivals(self._log)) >= count, f"arrival {count}")
        return [str(arrival["text"]) for arrival in read_arrivals(self._log)]

    def wait_end(self) -> int:
        """Read to the end; return the exit code."""
        while self._read():
            pass
        self._child.wait()
        return -1 if self._child.exitstatus is None else int(self._child.exitstatus)

    def wait_restored(self) -> None:
        """Read to the driver's last words and check that it left the terminal as it found it."""
        self.wait_for("ended with")
        assert self._read_flags() == self._flags, "the terminal's settings were not put back"
        assert not self.cursor_is_hidden, "the cursor was not put back"
        assert self.raw.rfind(b"\x1b[?2004l") >= self.raw.rfind(b"\x1b[?2004h"), "bracketed paste was left on"

    def _read(self) -> bool:
        try:
            chunk = self._child.read_nonblocking(65_536, timeout=0.2)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += chunk
        self._stream.feed(chunk)
        return True

    def _read_flags(self) -> tuple[int, ...]:
        iflag, oflag, _, lflag, *_ = termios.tcgetattr(self._child.child_fd)
        return (iflag, oflag, lflag)
