"""What one look at a growing answer shows."""

import pytest

from nanobee_telegram.frames import draft_id, frame_text
from nanobee_telegram.text import MAX_UNITS, utf16_units


@pytest.mark.parametrize(
    ("text", "activity", "shown"),
    [
        ("one two ", None, "one two"),
        ("", None, ""),
        (" \n", None, ""),
        ("", "read_file a.txt", "⏳ read_file a.txt"),
        ("Let me look.", "read_file a.txt", "Let me look.\n\n⏳ read_file a.txt"),
        ("if x:\n\ty", None, "if x:\n    y"),
        ("a\ud83d", None, "a\ufffd"),
    ],
)
def test_a_frame_is_the_text_and_what_is_done_meanwhile(text: str, activity: str | None, shown: str) -> None:
    assert frame_text(text, activity) == shown


@pytest.mark.parametrize("activity", [None, "exec make", "\U0001f600" * 500])
@pytest.mark.parametrize("word", ["word ", "x", "汉字。", "\U0001f600", "\t", "a\U0001f600"])
def test_of_a_text_that_is_too_long_the_end_is_shown(word: str, activity: str | None) -> None:
    shown = frame_text(word * 5000 + "END", activity)
    assert utf16_units(shown) <= MAX_UNITS
    assert shown.startswith("… ")
    assert "END" in shown
    assert utf16_units(shown) > MAX_UNITS - 250 or word == "\t"
    assert "\ufffd" not in shown.removeprefix("… ")[1:]


def test_a_draft_keeps_its_number_and_never_has_0() -> None:
    assert draft_id("4f3a") == draft_id("4f3a") != draft_id("4f3b")
    assert all(0 < draft_id(str(turn)) < 2**31 for turn in range(1000))
