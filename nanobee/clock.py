"""Clock: the time, in the zone in which people read it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """Local time by the setting `timezone`."""

    zone: ZoneInfo | None = None
    """None is the machine's own zone, with its summer time."""
    read: Callable[[], datetime] = _utc_now
    """Where the time comes from, for tests of what takes days."""

    def now(self) -> datetime:
        """Aware UTC."""
        return self.read()

    def local(self, at: datetime) -> datetime:
        """`at` as people read it."""
        return at.astimezone(self.zone)


def load_clock(name: str) -> Clock:
    """The clock of the zone called `name`, or of the machine for `local`.

    Raises:
        ZoneInfoNotFoundError: there is no such zone.
    """
    return Clock(None if name == "local" else ZoneInfo(name))
