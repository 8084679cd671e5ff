"""Logs: where the log goes and what never stands in it. Configured once, by the command line."""

import logging
import os
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from nanobee.errors import StateError

LOG_NAMES = ("debug", "info", "warning", "error")
MAX_FILE_BYTES = 1_000_000
MAX_FILES = 3
"""Full log files that are kept beside the current one."""
MAX_RECENT = 20
"""Errors that `nanobee status` can show."""
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
QUIET = ("aiohttp", "asyncio", "charset_normalizer", "filelock", "hpack", "httpcore", "httpx", "telegram")
"""Libraries that write a line for each request, with tokens in addresses, at info and debug."""

Redact = Callable[[str], str]


class RedactingFormatter(logging.Formatter):
    """Takes secrets out of the whole line, traceback included."""

    def __init__(self, redact: Redact) -> None:
        super().__init__(FORMAT)
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """The record as text, without secrets."""
        return self._redact(super().format(record))


@dataclass(frozen=True, slots=True)
class RecentError:
    """One error for `nanobee status`."""

    at: datetime
    """Aware UTC."""
    where: str
    """The logger's name."""
    text: str
    """One line, without secrets."""


class RecentErrors(logging.Handler):
    """Keeps the last errors of this process, for `nanobee status`."""

    def __init__(self, redact: Redact) -> None:
        super().__init__(logging.ERROR)
        self._redact = redact
        self._entries: deque[RecentError] = deque(maxlen=MAX_RECENT)

    @property
    def entries(self) -> tuple[RecentError, ...]:
        """Oldest first."""
        return tuple(self._entries)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record."""
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{text}: {record.exc_info[1]}"
        line = self._redact(" ".join(text.split()))
        self._entries.append(RecentError(datetime.fromtimestamp(record.created, UTC), record.name, line))


_installed: list[logging.Handler] = []


def configure_logs(level: str, redact: Redact, file: Path | None = None) -> None:
    """Send the log to `file`, or else to standard error. A second call replaces the first.

    Raises:
        StateError: the file cannot be written.
    """
    handler: logging.Handler
    if file is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handler = _PrivateFileHandler(file)
        except OSError as error:
            raise StateError(f"the log {file} cannot be written: {error.strerror}") from error
    handler.setFormatter(RedactingFormatter(redact))
    root = logging.getLogger()
    forget_logs()
    _installed.extend((handler, RecentErrors(redact)))
    for new in _installed:
        root.addHandler(new)
    root.setLevel(level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # a full disk must not spill tracebacks into a terminal


def forget_logs() -> None:
    """Take away what `configure_logs` put in place."""
    while _installed:
        handler = _installed.pop()
        logging.getLogger().removeHandler(handler)
        handler.close()


def recent_errors() -> tuple[RecentError, ...]:
    """The last errors that this process logged, oldest first, without secrets."""
    return tuple(entry for handler in _installed if isinstance(handler, RecentErrors) for entry in handler.entries)


class _PrivateFileHandler(RotatingFileHandler):
    """A bounded log that only its owner can read: chats leave traces in it."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, maxBytes=MAX_FILE_BYTES, backupCount=MAX_FILES, encoding="utf-8", errors="replace")

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return os.fdopen(descriptor, "a", encoding=self.encoding, errors=self.errors)
