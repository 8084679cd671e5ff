"""No text can carry a control to the terminal."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from nanobee_terminal.control_chars import clean_line, clean_text, replace_surrogates

ANY_TEXT = st.text(st.characters(codec=None))


@given(ANY_TEXT)
def test_no_control_but_newline_and_tab_is_left(text: str) -> None:
    cleaned = clean_text(text)
    assert [char for char in cleaned if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"] == []
    cleaned.encode()


@given(ANY_TEXT)
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    assert clean_text(clean_text(text)) == clean_text(text)


def test_escapes_become_visible() -> None:
    assert clean_text("\x1b[31mred\x07\x7f\x9b2J\x00") == "␛[31mred␇␡\ufffd2J␀"


def test_returns_cannot_write_over_a_line() -> None:
    assert clean_text("safe\rrm -rf\r\nend") == "safe\nrm -rf\nend"


def test_text_cannot_be_shown_in_another_order() -> None:
    assert clean_text("user\u202etxt.exe\u2066") == "usertxt.exe"


def test_plain_text_stays_as_it_is() -> None:
    assert clean_text("tab\there, 汉字 \U0001f468\u200d\U0001f469") == "tab\there, 汉字 \U0001f468\u200d\U0001f469"


def test_one_line_is_one_line() -> None:
    assert clean_line(" a\n\tb\r\n\x1b c ") == "a b ␛ c"


def test_halves_of_a_pair_are_joined_or_replaced() -> None:
    assert replace_surrogates("\ud83d\ude00 汉") == "\U0001f600 汉"
    assert replace_surrogates("a\ud83d b\udcff") == "a\ufffd b\ufffd"
