"""Texts of chats on a terminal."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobee.cli.printable import describe_age, one_line, printable


@given(st.text())
def test_nothing_in_a_text_steers_a_terminal(text: str) -> None:
    shown = printable(text)
    shown.encode("utf-8")
    assert not {chr(code) for code in (*range(9), *range(11, 32), *range(127, 160))} & set(shown)
    assert not set("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029") & set(shown)
    assert len(shown) <= len(text)


@pytest.mark.parametrize("text", ["plain", "tab\tand\nline", "ü 你好", "👩‍👩‍👧 family", "עברית", "e\u0301"])
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_a_line_is_never_longer_than_it_may_be(text: str, width: int) -> None:
    line = one_line(text, width)
    assert len(line) <= width
    assert "\n" not in line


def test_what_was_cut_is_marked() -> None:
    assert one_line("one\n two\t three", 20) == "one two three"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("x" * 1_000_000, 4) == "xxx…"
    assert one_line(" " * 1_000 + "x", 4) == "…"


@pytest.mark.parametrize(
    ("seconds", "english", "chinese"),
    [
        (-5, "0 s", "0 秒"),
        (59, "59 s", "59 秒"),
        (61, "1 min", "1 分钟"),
        (7300, "2 h", "2 小时"),
        (9e5, "10 d", "10 天"),
    ],
)
def test_an_age_is_told_in_its_greatest_unit(seconds: float, english: str, chinese: str) -> None:
    assert describe_age(timedelta(seconds=seconds), "en") == english
    assert describe_age(timedelta(seconds=seconds), "zh") == chinese
