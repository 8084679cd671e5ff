"""Tidying: what time does to a memory. Notes expire or become facts; old days are folded into HISTORY.md."""

import logging
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from hashlib import blake2b

from nanobee.config_memory import MemorySettings
from nanobee.memory.memory import Memories, Memory
from nanobee.memory.scope import Scope

logger = logging.getLogger(__name__)

PROMOTING_USES = 3
"""A short-lived note that was found so often has proved to last."""


@dataclass(frozen=True, slots=True)
class Tidied:
    """What was done."""

    folded: tuple[date, ...] = ()
    promoted: int = 0
    expired: int = 0


def tidy(memories: Memories, scope: Scope, settings: MemorySettings) -> Tidied:
    """Do what is due in one scope; to do it again at once does nothing. Blocks; holds the scope's lock.

    Raises:
        StateError: the disk refuses.
    """
    memory = memories.of(scope)
    if not memory.root.is_dir():
        return Tidied()
    now = memories.clock.now()
    with memories.lock.hold(scope):
        promoted = _promote(memory, now)
        expired = memory.misc.clean(now)
        oldest_kept = memories.clock.local(now).date() - timedelta(days=settings.daily_days)
        folded = tuple(day for day in memory.daily.days() if day < oldest_kept)
        for day in folded:
            _fold(memories, memory, day)
    if folded or promoted or expired:
        logger.info("memory %s: %d days folded, %d notes kept, %d gone", scope.key, len(folded), promoted, expired)
    return Tidied(folded, promoted, expired)


def _promote(memory: Memory, now: datetime) -> int:
    """Notes that were used become facts; what only a tool said never does."""
    used = [
        note for note in memory.misc.load() if note.uses >= PROMOTING_USES and note.is_trusted and note.expires_at > now
    ]
    for note in used:
        memory.facts.add_fact(note.text, note.source or "misc")
    memory.misc.remove(memory.misc.id_of(note) for note in used)
    return len(used)


def _fold(memories: Memories, memory: Memory, day: date) -> None:
    """Put a day's notes into HISTORY.md, then delete its file: a death in between does it again, with one entry."""
    text = memory.daily.read(day)
    notes = memory.daily.entries(day)
    if notes:
        local = datetime.combine(day, time(23, 59))
        zone = memories.clock.zone
        at = local.astimezone() if zone is None else local.replace(tzinfo=zone)
        said = "; ".join(f"{each.text} ({each.source})" if each.source else each.text for each in notes)
        # Notes that somebody adds to that day later are another entry.
        digest = blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
        memory.history.append(at, f"Notes of the day: {said}", f"daily {day.isoformat()} {digest}", is_replay=True)
    memory.daily.remove(day)
