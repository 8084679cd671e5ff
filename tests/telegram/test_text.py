"""Cutting text for Telegram loses nothing and never breaks a character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobee_telegram.text import MAX_UNITS, clean, split_text, utf16_units


def without_space(text: str) -> str:
    return "".join(text.split())


def test_a_text_that_fits_is_one_part() -> None:
    assert split_text("a" * MAX_UNITS) == ("a" * MAX_UNITS,)
    assert len(split_text("a" * (MAX_UNITS + 1))) == 2


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("aaaa bb\n\ncc dd", ("aaaa bb", "cc dd")),
        ("aaaaaa bb\ncc dd", ("aaaaaa bb", "cc dd")),
        ("aaaaaaa bbbbbb", ("aaaaaaa", "bbbbbb")),
        ("aaaaaaaaaabbbb", ("aaaaaaaaaa", "bbbb")),
        ("aaaaaaaaaa\nbbb", ("aaaaaaaaaa", "bbb")),
        ("a\n\nbbbbbbbbbbbb", ("a\n\nbbbbbbb", "bbbbb")),
    ],
    ids=["blank line", "newline", "space", "hard", "border right at the limit", "no small part for an early border"],
)
def test_the_cut_is_at_the_best_border(text: str, parts: tuple[str, ...]) -> None:
    assert split_text(text, 10) == parts


def test_a_new_line_keeps_its_indentation() -> None:
    assert split_text("def f():\n\n    return", 12) == ("def f():", "    return")


def test_the_unit_is_utf16() -> None:
    parts = split_text("\U0001f600" * 5_000)
    assert [utf16_units(part) for part in parts] == [4096, 4096, 1808]
    assert split_text("a" * 4095 + "\U0001f600") == ("a" * 4095, "\U0001f600")


def test_an_emoji_of_several_characters_is_not_cut() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert split_text(family * 3, 20) == (family * 2, family)
    assert split_text("aaaaa\U0001f44b\U0001f3fd", 7) == ("aaaaa", "\U0001f44b\U0001f3fd")


@pytest.mark.parametrize("text", ["", " ", "\n\n\n", "\t", " " * 9_000])
def test_a_text_without_anything_to_read_is_one_empty_part(text: str) -> None:
    assert split_text(text) == ("",)


def test_a_tab_becomes_spaces_before_telegram_makes_it_one() -> None:
    assert split_text("if x:\n\ty") == ("if x:\n    y",)


def test_halves_of_a_pair_are_joined_and_lone_ones_replaced() -> None:
    assert clean("\ud83d\ude00") == "\U0001f600"
    assert clean("a\ud83db") == "a\ufffdb"
    assert split_text("\ud83d") == ("\ufffd",)


@given(st.text(alphabet=st.characters(codec=None)), st.integers(min_value=2, max_value=40))
def test_any_text_is_cut_into_parts_that_fit(text: str, max_units: int) -> None:
    parts = split_text(text, max_units)
    assert all(utf16_units(part) <= max_units for part in parts)
    assert without_space("".join(parts)) == without_space(clean(text))
    assert all(part.strip() for part in parts) or parts == ("",)
    for part in parts:
        part.encode()
