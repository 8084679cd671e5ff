"""Capacity: how many messages may wait, and when their senders are told."""

from dataclasses import dataclass
from enum import StrEnum

from nanobee.bus.rows import one
from nanobee.bus.writer import Transaction

RECOUNT_EVERY = 1_000
"""Receives between two counts of all waiting rows."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Rows that wait; control rows are always taken."""

    busy_at: int = 10
    """With so many waiting in a session, its sender is told that the message is kept."""
    per_session: int = 200
    """Beyond this a session's message is not accepted."""
    total: int = 200_000
    """Beyond this nobody's is."""
    notice_seconds: float = 30.0
    """The least time between two such notices in one chat."""


DEFAULT_LIMITS = Limits()


class Verdict(StrEnum):
    """Whether one more row is taken."""

    TAKEN = "taken"
    BUSY = "busy"
    """Taken, and its sender is told that others wait before it."""
    FULL = "full"
    """Not taken, and its sender is told."""


class Capacity:
    """Counts on the writer's thread, so that a verdict and its row are one transaction."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._left = 0

    def judge(self, tx: Transaction, session_key: str) -> tuple[Verdict, int]:
        """The verdict on one more row of a session, and how many of it wait already."""
        found = one(
            tx.db,
            "select count(*) from inbox where session = ? and lane > 0 and state in ('arriving', 'ready', 'parked')",
            session_key,
        )
        assert found is not None
        waiting = int(found[0])
        if waiting >= self.limits.per_session or not self._has_room(tx):
            return Verdict.FULL, waiting
        return (Verdict.BUSY if waiting == self.limits.busy_at else Verdict.TAKEN), waiting

    def _has_room(self, tx: Transaction) -> bool:
        self._left -= 1
        if self._left < 0:
            found = one(tx.db, "select count(*) from inbox where state in ('arriving', 'ready')")
            assert found is not None
            self._left = min(self.limits.total - int(found[0]), RECOUNT_EVERY) - 1
        return self._left >= 0

    def may_tell(self, tx: Transaction, verdict: Verdict, address: str, now: float) -> bool:
        """Whether the chat was not told this for a while."""
        since = now - self.limits.notice_seconds
        found = one(
            tx.db,
            "select 1 from outbox where address = ? and kind = 'notice' and created_at > ?"
            " and idempotency_key like ? limit 1",
            address,
            since,
            f"{verdict}-%",
        )
        return found is None
