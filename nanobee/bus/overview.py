"""Overview: the bus's counts, read from outside beside a running holder."""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from nanobee.bus.outside import reading
from nanobee.bus.rows import at_from_epoch, one


@dataclass(frozen=True, slots=True)
class Overview:
    """Counts for `nanobee status`."""

    inbox: dict[str, int] = field(default_factory=dict)
    outbox: dict[str, int] = field(default_factory=dict)
    oldest_ready_at: datetime | None = None
    open_questions: int = 0
    """Questions that wait for a person."""


def read_overview(state: Path) -> Overview:
    """Count rows by state, without taking the lock; zeros where there is no bus yet.

    Raises:
        BusError: the file is there, but it cannot be read.
    """
    with reading(state) as db:
        if db is None:
            return Overview()
        inbox = dict(db.execute("select state, count(*) from inbox group by state").fetchall())
        outbox = dict(db.execute("select state, count(*) from outbox where kind <> 'stream' group by state").fetchall())
        [oldest] = one(db, "select min(created_at) from inbox where state = 'ready'") or (None,)
        [questions] = one(db, "select count(*) from suspension where state = 'open'") or (0,)
        return Overview(inbox, outbox, at_from_epoch(oldest), questions)
