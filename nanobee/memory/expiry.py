"""Expiry: until when a short-lived note is kept, as a model or a person writes it."""

import re
from datetime import UTC, datetime, time, timedelta

from nanobee.clock import Clock

MAX_DAYS = 366
"""A note that is to last longer is no short-lived one."""
_SPAN = re.compile(r"(\d{1,5})\s*(m|min|minutes?|h|hours?|d|days?|w|weeks?|分钟|小时|天|周)")


def read_expiry(text: str, clock: Clock) -> datetime | None:
    """`3d`, `12h`, `2 weeks`, `2026-10-05` (its end) or an ISO time; None where it is none of them, or past."""
    now = clock.now()
    at = _read(text.strip().lower(), clock, now)
    return min(at, now + timedelta(days=MAX_DAYS)) if at is not None and at > now else None


def _read(text: str, clock: Clock, now: datetime) -> datetime | None:
    span = _SPAN.fullmatch(text)
    try:
        if span:
            return now + int(span[1]) * _unit(span[2])
        at = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        return None
    if len(text) <= len("2026-10-05"):
        at = datetime.combine(at.date() + timedelta(days=1), time())
    if at.tzinfo is None:
        at = at.astimezone() if clock.zone is None else at.replace(tzinfo=clock.zone)
    return at.astimezone(UTC)


def _unit(word: str) -> timedelta:
    if word.startswith("m") or word == "分钟":
        return timedelta(minutes=1)
    if word.startswith("h") or word == "小时":
        return timedelta(hours=1)
    return timedelta(weeks=1) if word.startswith("w") or word == "周" else timedelta(days=1)
