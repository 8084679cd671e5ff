"""Recall: lines of memory that fit a message, put beside it without asking a model.

A message that speaks of a time is answered from the notes and the log of that time first; one that
names a person or a thing, from wherever the rare words stand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from nanobee.clock import Clock
from nanobee.memory.dates import Span, find_spans
from nanobee.memory.entries import UNVERIFIED, Entry, Tier
from nanobee.memory.index import Index
from nanobee.memory.search import Query, search

MAX_LINES = 4
MAX_LINE_CHARS = 300
MAX_MESSAGE_CHARS = 1_000
"""Of a message that is looked at."""
TIMED_TIERS = (Tier.DAILY, Tier.HISTORY)
NAMED_TIERS = (Tier.HISTORY, Tier.DAILY, Tier.MISC)
"""MEMORY.md stands in the prompt anyway."""
FRAME = "[Found in memory by nanobee; it may not matter here:\n{lines}]"


@dataclass(frozen=True, slots=True)
class Recall:
    """What fits a message."""

    entries: tuple[Entry, ...] = ()

    def write(self, clock: Clock) -> str:
        """The lines as they stand beside the message; empty where nothing fits."""
        lines = "\n".join(f"- {describe(entry, clock)}" for entry in self.entries)
        return FRAME.format(lines=lines) if lines else ""


def describe(entry: Entry, clock: Clock) -> str:
    """One entry in one line: when, where it stands, what it says."""
    stamp = clock.local(entry.at).strftime("%Y-%m-%d")
    text = entry.text if len(entry.text) <= MAX_LINE_CHARS else f"{entry.text[: MAX_LINE_CHARS - 1]}…"
    doubt = "" if entry.is_trusted or UNVERIFIED in text else f" {UNVERIFIED}"
    return f"{stamp} {entry.tier}: {text}{doubt}"


def recall(index: Index, text: str, clock: Clock) -> Recall:
    """The best lines of one scope for a message. Blocking, and quick: a few look-ups in the index.

    Raises:
        StateError: the index cannot be read.
    """
    now = clock.now()
    today = clock.local(now).date()
    text = text[:MAX_MESSAGE_CHARS]
    entries: dict[int, Entry] = {}
    for span in find_spans(text, today):
        for entry in _of_span(index, span, text, clock, now):
            entries.setdefault(entry.id, entry)
    named = search(index, Query(text, NAMED_TIERS, limit=MAX_LINES, is_prose=True), now)
    for match in named.found:
        entries.setdefault(match.entry.id, match.entry)
    fitting = [entry for entry in entries.values() if not _stands_in_prompt(entry, today, clock)]
    return Recall(tuple(fitting[:MAX_LINES]))


def _of_span(index: Index, span: Span, text: str, clock: Clock, now: datetime) -> Sequence[Entry]:
    """What was noted in a span of days: what fits the message's other words, else the newest."""
    since, until = _start(span.first, clock), _start(span.last + timedelta(days=1), clock)
    for query in (
        Query(text, TIMED_TIERS, since, until, MAX_LINES, is_prose=True),
        Query("", TIMED_TIERS, since, until, MAX_LINES),
    ):
        found = search(index, query, now).found
        if found:
            return [match.entry for match in found]
    return []


def _start(day: date, clock: Clock) -> datetime:
    """The first moment of a day, in the zone in which people read it."""
    local = datetime.combine(day, time())
    return local.astimezone() if clock.zone is None else local.replace(tzinfo=clock.zone)


def _stands_in_prompt(entry: Entry, today: date, clock: Clock) -> bool:
    return entry.tier is Tier.DAILY and clock.local(entry.at).date() >= today - timedelta(days=1)
