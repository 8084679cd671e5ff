"""Search: the entries of one scope that fit some words, the newest and best first, out of its index."""

import math
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from nanobee.memory.entries import Entry, Tier
from nanobee.memory.index import COLUMNS, MICROSECONDS, Index, read_entry
from nanobee.memory.words import is_cjk, normalize, runs

MAX_TERMS = 12
"""Of one query; the rarest count."""
MAX_ALL_ROWS = 200
"""Entries with all terms that are looked at, the newest ones."""
MAX_ONE_ROWS = 60
"""Entries with one of the terms that are looked at, for each."""
MIN_SCORE = 0.34
"""Of the terms' weight that an entry must have."""
MAX_COUNT = 2_000
"""Entries that have a term are counted up to here."""
MAX_PHRASE_CHARS = 4
"""A longer stretch of Chinese is taken as its pairs of characters as well."""
MAX_RARE = 30
"""What a message speaks of stands in no more entries than that; its other words are left out."""
MAX_PROSE_TERMS = 6
ABSENT_WEIGHT = 0.25
"""Of a term that stands nowhere: whoever lacks it lacks little."""
MIN_PREFIX_CHARS = 4
"""A word of so many letters finds those that begin with it."""
RECENCY = 0.1
"""How much the newest entry gains over the oldest."""
FULL_TIERS = (Tier.IMPORTANT, Tier.DAILY, Tier.MISC, Tier.HISTORY, Tier.SESSION)


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for."""

    text: str
    tiers: Collection[Tier] = FULL_TIERS
    since: datetime | None = None
    until: datetime | None = None
    """Not itself in it."""
    limit: int = 10
    is_prose: bool = False
    """It is what somebody said, not what to look for: only its rare words count, and not all need be there."""


@dataclass(frozen=True, slots=True)
class Match:
    """One entry that fits."""

    entry: Entry
    score: float
    """How much of what was looked for is in it: 0 to 1, and a bit for being new."""


@dataclass(frozen=True, slots=True)
class Matches:
    """What was found."""

    found: tuple[Match, ...] = ()
    rows_touched: int = 0
    """Entries that were looked at."""


@dataclass(frozen=True, slots=True)
class _Term:
    run: str
    match: str
    """As FTS5 takes it."""
    count: int
    """Entries that have it, over all tiers, up to a limit."""


@dataclass(slots=True)
class _Reading:
    """One query under way."""

    db: sqlite3.Connection
    query: Query
    rows: dict[int, Entry] = field(default_factory=dict)

    def take(self, match: str, limit: int) -> None:
        """Look at the newest entries that FTS5 finds."""
        since, until = _place(self.query.since, 0), _place(self.query.until, 1 << 62)
        tiers = " OR ".join(f'"{tier}"' for tier in self.query.tiers)
        found = self.db.execute(
            f"select {COLUMNS} from entry where at in (select rowid from word where word match ?"
            " and rowid >= ? and rowid < ? order by rowid desc limit ?)",
            (f"tier : ({tiers}) AND words : ({match})", since, until, limit),
        )
        for row in found:
            self.rows[row[0]] = read_entry(row)


def search(index: Index, query: Query, now: datetime) -> Matches:
    """The best entries, best first; a query without words gives the newest of its tiers and time.

    Raises:
        StateError: the index cannot be read.
    """
    with index.reading() as db:
        if not query.tiers:
            return Matches()
        reading = _Reading(db, query)
        if not runs(query.text):
            if not query.is_prose:
                _take_newest(reading)
            return _rank(reading, [], now)
        terms = _rare_terms(db, query.text) if query.is_prose else _terms(db, query.text)
        if not query.is_prose:
            reading.take(" AND ".join(term.match for term in terms), MAX_ALL_ROWS)
        if len(reading.rows) < query.limit:
            terms = terms if query.is_prose else _split(db, terms)
            for term in terms:
                reading.take(term.match, MAX_ONE_ROWS)
        return _rank(reading, terms, now)


def _place(at: datetime | None, default: int) -> int:
    return default if at is None else int(at.timestamp() * MICROSECONDS)


def _take_newest(reading: _Reading) -> None:
    query = reading.query
    marks = ", ".join("?" for _ in query.tiers)
    found = reading.db.execute(
        f"select {COLUMNS} from entry where at >= ? and at < ? and tier in ({marks}) order by at desc limit ?",
        (_place(query.since, 0), _place(query.until, 1 << 62), *query.tiers, query.limit),
    )
    for row in found:
        reading.rows[row[0]] = read_entry(row)


def _terms(db: sqlite3.Connection, text: str) -> list[_Term]:
    """What is looked for, the rarest first."""
    terms = [_count(db, run, MAX_COUNT) for run in list(dict.fromkeys(runs(text)))[: 2 * MAX_TERMS]]
    return sorted(terms, key=_rareness)[:MAX_TERMS]


def _rareness(term: _Term) -> tuple[bool, int]:
    """The rarest first; what is nowhere comes last."""
    return term.count == 0, term.count


def _split(db: sqlite3.Connection, terms: Sequence[_Term]) -> list[_Term]:
    """The same terms, with pairs of characters in place of long stretches that are found nowhere as a whole."""
    split: dict[str, _Term] = {}
    for term in terms:
        is_long = is_cjk(term.run) and len(term.run) > MAX_PHRASE_CHARS and term.count == 0
        for run in _pairs(term.run) if is_long else [term.run]:
            split.setdefault(run, term if run == term.run else _count(db, run, MAX_COUNT))
    return sorted(split.values(), key=_rareness)[:MAX_TERMS]


def _rare_terms(db: sqlite3.Connection, text: str) -> list[_Term]:
    """What a message speaks of: its rare words, and rare pairs of characters."""
    parts = [part for run in runs(text) for part in (_pairs(run) if is_cjk(run) else [run])]
    terms = [_count(db, part, MAX_RARE + 1) for part in list(dict.fromkeys(parts))[: 8 * MAX_TERMS] if len(part) > 1]
    rare = [term for term in terms if 0 < term.count <= MAX_RARE]
    return sorted(rare, key=lambda term: term.count)[:MAX_PROSE_TERMS]


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def _count(db: sqlite3.Connection, run: str, limit: int) -> _Term:
    """A term, and in how many entries it stands, counted up to a limit."""
    words = _pairs(run) if is_cjk(run) else [run]
    quoted = f'"{" ".join(words)}"'
    is_prefix = len(run) == 1 if is_cjk(run) else len(run) >= MIN_PREFIX_CHARS
    match = f"{quoted} *" if is_prefix else quoted
    found = db.execute(
        "select count(*) from (select 1 from word where word match ? limit ?)", (f"words : ({match})", limit)
    ).fetchone()
    return _Term(run, match, int(found[0]))


def _rank(reading: _Reading, terms: Sequence[_Term], now: datetime) -> Matches:
    # Only how the terms compare matters, so the entries need not be counted.
    most = max((term.count for term in terms), default=0) + 1
    weights = {term.run: 1.0 + math.log(most / (term.count + 1)) if term.count else ABSENT_WEIGHT for term in terms}
    whole = sum(weights.values()) or 1.0
    newest = max(reading.rows, default=1) or 1
    matches = []
    for at, entry in reading.rows.items():
        if entry.expires_at is not None and entry.expires_at <= now:
            continue
        text = normalize(entry.text)
        score = sum(weight for run, weight in weights.items() if run in text) / whole if terms else 1.0
        if score >= MIN_SCORE:
            matches.append(Match(entry, score + RECENCY * at / newest))
    matches.sort(key=lambda match: (match.score, match.entry.at), reverse=True)
    return Matches(tuple(matches[: reading.query.limit]), len(reading.rows))
