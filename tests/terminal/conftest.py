"""Windows that are closed again."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.terminal.window import Window

NOTHING: Mapping[str, str] = {}
OpenWindow = Callable[..., Window]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where the driver notes what arrived."""
    return tmp_path / "arrivals.jsonl"


@pytest.fixture
def open_window(log: Path) -> Iterator[OpenWindow]:
    """Opens a window with the driver in it; `settings` and environment by keyword."""
    opened: list[Window] = []

    def open_one(
        *, rows: int = 24, columns: int = 80, environment: dict[str, str] | None = None, **settings: object
    ) -> Window:
        opened.append(Window(log, settings, rows, columns, **(environment or {})))
        return opened[-1]

    yield open_one
    for window in opened:
        window.close()
