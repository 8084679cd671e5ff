"""Dates: the days that a message speaks of, in English and Chinese."""

import re
from calendar import monthrange
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

MAX_SPANS = 3
MAX_TEXT_CHARS = 2_000
"""Of a message that is looked at."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HAN_DIGITS = "零一二三四五六七八九十"
_HAN_DAYS = "一二三四五六日"
_MONTH = r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"  # noqa: E501
_DAY = r"(mon|tues?|wednes|thurs?|fri|satur|sun)day"


@dataclass(frozen=True, slots=True)
class Span:
    """From one day to another, both in it."""

    first: date
    last: date


Make = Callable[[re.Match[str], date], Span]


def find_spans(text: str, today: date) -> list[Span]:
    """The days and spans of days that `text` names, none of them in the future, each once."""
    found: dict[Span, None] = {}
    for span in _find(text[:MAX_TEXT_CHARS].lower(), today):
        if span.first <= today:
            found.setdefault(Span(span.first, min(span.last, today)))
    return list(found)[:MAX_SPANS]


def _find(text: str, today: date) -> Iterator[Span]:
    taken: list[tuple[int, int]] = []
    for pattern, make in _RULES:
        for match in pattern.finditer(text):
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue  # part of what a more exact rule has read
            taken.append(match.span())
            try:
                yield make(match, today)
            except (ValueError, OverflowError):
                continue  # 31 February


def _day(day: date) -> Span:
    return Span(day, day)


def _days_ago(days: int) -> Make:
    return lambda match, today: _day(today - timedelta(days=days))


def _number(text: str) -> int:
    if text.isdecimal():
        return int(text)
    if text in ("两", "a", "an", "one"):
        return 2 if text == "两" else 1
    if text in _ENGLISH:
        return _ENGLISH.index(text)
    tens, ten, ones = text.rpartition("十")
    if not ten:
        return _HAN_DIGITS.index(text)
    return (_HAN_DIGITS.index(tens) if tens else 1) * 10 + (_HAN_DIGITS.index(ones) if ones else 0)


_ENGLISH = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_COUNT = r"(\d{1,3}|a|an|one|two|three|four|five|six|seven|eight|nine|ten)"
_HAN_COUNT = r"(\d{1,3}|[一二两三四五六七八九十]{1,3})"


def _week(today: date, back: int) -> Span:
    monday = today - timedelta(days=today.weekday() + 7 * back)
    return Span(monday, monday + timedelta(days=6))


def _month(today: date, back: int) -> Span:
    months = today.year * 12 + today.month - 1 - back
    return _month_of(months // 12, months % 12 + 1)


def _month_of(year: int, month: int) -> Span:
    return Span(date(year, month, 1), date(year, month, monthrange(year, month)[1]))


def _ago(match: re.Match[str], today: date) -> Span:
    count, unit = _number(match[1]), match[2]
    if unit in ("day", "天", "日"):
        return _day(today - timedelta(days=count))
    if unit in ("week", "周", "星期", "礼拜"):
        return _week(today, count)
    return _month(today, count)


def _named_month(match: re.Match[str], today: date) -> Span:
    month = _MONTHS.index(match[1][:3]) + 1
    return _month_of(today.year if month <= today.month else today.year - 1, month)


def _han_month(match: re.Match[str], today: date) -> Span:
    month = _number(match[1])
    return _month_of(today.year if month <= today.month else today.year - 1, month)


def _dated(year: str | None, month: int, day: int, today: date) -> Span:
    if year:
        return _day(date(int(year), month, day))
    this = date(today.year, month, day)
    return _day(this if this <= today else date(today.year - 1, month, day))


def _weekday(index: int, today: date, is_last_week: bool) -> Span:
    if is_last_week:
        return _day(_week(today, 1).first + timedelta(days=index))
    return _day(today - timedelta(days=(today.weekday() - index) % 7))


_RULES: tuple[tuple[re.Pattern[str], Make], ...] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (
            r"\b(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})\b",
            lambda match, today: _day(date(int(match[1]), int(match[2]), int(match[3]))),
        ),
        (
            r"(?:(\d{4})年)?(\d{1,2})月(\d{1,2})[日号]",
            lambda match, today: _dated(match[1], int(match[2]), int(match[3]), today),
        ),
        (
            rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH}(?:,? (\d{{4}}))?\b",
            lambda match, today: _dated(match[3], _MONTHS.index(match[2][:3]) + 1, int(match[1]), today),
        ),
        (
            rf"\b{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?(?:,? (\d{{4}}))?\b",
            lambda match, today: _dated(match[3], _MONTHS.index(match[1][:3]) + 1, int(match[2]), today),
        ),
        (r"\bday before yesterday\b|前天", _days_ago(2)),
        (r"\byesterday\b|\blast night\b|昨天|昨晚|昨日", _days_ago(1)),
        (r"\btoday\b|\bthis (?:morning|afternoon|evening)\b|今天|今早|今晚|今日", _days_ago(0)),
        (rf"\b{_COUNT} (day|week|month)s? ago\b", _ago),
        (rf"{_HAN_COUNT}个?(天|日|周|星期|礼拜|月)(?:之)?前", _ago),
        (
            r"上(?:个)?(?:周|星期|礼拜)([一二三四五六日天])",
            lambda match, today: _weekday(_HAN_DAYS.index(match[1].replace("天", "日")), today, True),
        ),
        (
            r"(?:周|星期|礼拜)([一二三四五六日天])",
            lambda match, today: _weekday(_HAN_DAYS.index(match[1].replace("天", "日")), today, False),
        ),
        (r"\blast week\b|上(?:个)?(?:周|星期|礼拜)", lambda match, today: _week(today, 1)),
        (r"\bthis week\b|[这本]周|这个?星期", lambda match, today: _week(today, 0)),
        (r"\blast month\b|上个?月", lambda match, today: _month(today, 1)),
        (r"\bthis month\b|[这本]个?月", lambda match, today: _month(today, 0)),
        (
            r"\blast year\b|去年",
            lambda match, today: Span(date(today.year - 1, 1, 1), date(today.year - 1, 12, 31)),
        ),
        (rf"\b(?:in|since|during|last) {_MONTH}\b", _named_month),
        (r"(\d{1,2}|[一二三四五六七八九十]{1,2})月份?(?![\d日号])", _han_month),
        (rf"\b(?:on |last )?{_DAY}\b", lambda match, today: _weekday(_DAYS.index(match[1][:3]), today, False)),
    )
)
"""The more exact ones first."""
