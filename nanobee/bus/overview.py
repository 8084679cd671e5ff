"""Overview: the bus's counts, read from outside beside a running holder."""

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from nanobee.bus.bus import Overview
from nanobee.bus.sqlite import FILE_NAME
from nanobee.errors import BusError

BUSY_SECONDS = 2.0
"""How long a read waits for a writer's checkpoint."""


def read_overview(state: Path) -> Overview:
    """Count rows by state, without taking the lock; zeros where there is no bus yet.

    Raises:
        BusError: the file is there, but it cannot be read.
    """
    path = state / FILE_NAME
    if not path.exists():
        return Overview()
    try:
        db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=BUSY_SECONDS)
        try:
            inbox = dict(db.execute("select state, count(*) from inbox group by state").fetchall())
            outbox = dict(db.execute("select state, count(*) from outbox group by state").fetchall())
            oldest = db.execute("select min(created_at) from inbox where state = 'ready'").fetchone()[0]
        finally:
            db.close()
    except sqlite3.Error as error:
        raise BusError(f"The bus {path} cannot be read: {error}") from error
    return Overview(inbox, outbox, None if oldest is None else datetime.fromtimestamp(oldest, UTC))
