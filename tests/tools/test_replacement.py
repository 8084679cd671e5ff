import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nanobee.errors import ToolError
from nanobee.tools.replacement import MAX_PAIRED_LINES, Replaced, replace_text


def normal(text: str) -> str:
    return text.replace("\r\n", "\n")


def edit(text: str, old: str, new: str, replace_all: bool = False) -> str:
    return replace_text(text, old, new, replace_all).text


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("one\ntwo\n", "two", "2", "one\n2\n"),
        ("one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2", "1\r\n2\r\nthree\r\n"),
        ("one\r\ntwo\r\n", "one\r\ntwo", "1\r\n2", "1\r\n2\r\n"),
        ("one\ntwo\n", "one\r\ntwo", "1\r\n2", "1\n2\n"),
        ("one\r\ntwo\r\n", "two", "2\nand 3", "one\r\n2\r\nand 3\r\n"),
        ("one\r\ntwo", "two", "2\nand 3", "one\r\n2\r\nand 3"),
        ("one", "one", "1\n2", "1\n2"),
        ("one\r\ntwo\nthree\r\n", "two", "2\n2b", "one\r\n2\n2b\nthree\r\n"),
        ("a\r\nb\nc\r\nd\n", "a\nb\nc\nd", "a\nB\nB2\nc\nd", "a\r\nB\nB2\nc\r\nd\n"),
        ("a\r\nb\nc\r\nd\n", "b\nc\n", "", "a\r\nd\n"),
        ("a\r\nb\n", "a\n", "x\n", "x\r\nb\n"),
        ("a\r\nb\r\n", "\nb", "\nB", "a\r\nB\r\n"),
        ("\ta\n\t\tb\n", "\t\tb", "\tb", "\ta\n\tb\n"),
        ("x = 1\n", "1\n", "1", "x = 1"),
        ("a.b*c\n", "a.b*c", r"\1\g<0>", "\\1\\g<0>\n"),
        ("a\u2028b\x0cc\n", "b\x0cc", "d", "a\u2028d\n"),
        ("old\rmac\r", "mac", "Mac", "old\rMac\r"),
    ],
)
def test_o48_only_what_was_named_changes(text: str, old: str, new: str, expected: str) -> None:
    assert edit(text, old, new) == expected
    assert edit(text, old, new, replace_all=True) == expected


@pytest.mark.parametrize(
    ("text", "old", "told"),
    [
        ("a\nb\na\n", "a", r"occurs 2 times \(lines 1, 3\)"),
        ("a\r\na\r\n", "a\n", r"occurs 2 times \(lines 1, 2\)"),
        ("x " * 30, "x", "occurs 30 times (lines 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, …)"),
        ("aaa", "aa", "overlaps itself at line 1"),
    ],
)
def test_o48_an_ambiguous_text_is_refused(text: str, old: str, told: str) -> None:
    with pytest.raises(ToolError, match=told if "\\" in told else re.escape(told)):
        edit(text, old, "z")


def test_o48_all_places_are_replaced_when_asked_for() -> None:
    assert replace_text("a\r\nb\na\n", "a", "x\ny", replace_all=True) == Replaced("x\r\ny\r\nb\nx\ny\n", 2, 1)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("", "x", "old_text is empty"),
        ("two", "two", "nothing to do"),
        ("a\r\n", "a\n", "nothing to do"),
        ("four", "x", "read the file again"),
        ("two three", "x", "line 2 differs from it in spaces or tabs only"),
        ("  one\n  two\tthree", "x", "line 1 differs from it in spaces or tabs only"),
        ("tw\ufffd", "x", "stands for bytes that cannot be written"),
    ],
)
def test_what_cannot_be_done_is_told_with_the_reason(old: str, new: str, told: str) -> None:
    with pytest.raises(ToolError, match=told):
        edit("one\n\ttwo  three\n", old, new)


def test_the_end_of_a_line_is_one_place() -> None:
    assert edit("a\r\nb", "\n", "\n\n") == "a\r\n\r\nb"


LINES = st.lists(st.tuples(st.text("ab \t中é", max_size=4), st.sampled_from(["\n", "\r\n"])), min_size=1, max_size=8)


@given(LINES, st.text("ab \t中\n", max_size=8), st.data())
def test_o48_what_stands_around_is_byte_for_byte_the_same(
    lines: list[tuple[str, str]], new: str, data: st.DataObject
) -> None:
    text = "".join(line + end for line, end in lines)
    shown = normal(text)
    start = data.draw(st.integers(0, len(shown) - 1))
    old = shown[start : data.draw(st.integers(start + 1, len(shown)))]
    assume(old != new)
    places = len(re.findall(f"(?={re.escape(old)})", shown))
    if places > 1:
        with pytest.raises(ToolError):
            edit(text, old, new)
        return
    edited = edit(text, old, new)
    assert normal(edited) == shown.replace(old, new)
    assert edited == edit(text, old, new, replace_all=True)
    before = "".join(line + end for line, end in lines[: shown[:start].count("\n")])
    after = "".join(line + end for line, end in lines[shown[: start + len(old)].count("\n") + 1 :])
    assert edited.startswith(before)
    assert edited.endswith(after)


@given(LINES, st.integers(0, 7), st.text("xy", max_size=3))
def test_o48_lines_of_old_text_that_stay_keep_their_ends(lines: list[tuple[str, str]], at: int, new: str) -> None:
    at %= len(lines)
    text = "".join(line + end for line, end in lines)
    changed = [*lines[:at], (new, lines[at][1]), *lines[at + 1 :]]
    assume(changed != lines)
    expected = "".join(line + end for line, end in changed)
    assert edit(text, normal(text), normal(expected)) == expected


@given(LINES, st.integers(0, 8), st.sampled_from(["x\n", "x\ny\n"]))
def test_o48_lines_around_an_insertion_keep_their_ends(lines: list[tuple[str, str]], at: int, new: str) -> None:
    at %= len(lines) + 1
    ended = [line + end for line, end in lines]
    text = "".join(ended)
    edited = edit(text, normal(text), normal("".join([*ended[:at], new, *ended[at:]])))
    before, after = "".join(ended[:at]), "".join(ended[at:])
    assert edited.startswith(before)
    assert edited.endswith(after)
    assert normal(edited[len(before) : len(edited) - len(after)]) == new


def test_a_long_text_that_almost_matches_everywhere_costs_little() -> None:
    text = "a" * 1_000_000 + "\n" + "x\n" * 200_000
    for old in ("a" * 20_000 + "b", "x\n" * 20_000 + "y", "\n" * 5_000):
        with pytest.raises(ToolError, match="does not occur"):
            edit(text, old, "z")


def test_very_many_lines_with_ends_of_both_kinds_are_replaced_without_comparing_them() -> None:
    old = ["a\r\n" if number % 2 else "b\n" for number in range(4 * MAX_PAIRED_LINES)]
    new = [f"{line.strip()}{number}\n" for number, line in enumerate(old)] + ["one more\n"]
    assert normal(edit("".join(old), normal("".join(old)), "".join(new))) == "".join(new)


def test_very_many_places_are_replaced() -> None:
    assert edit("ab\r\n" * 100_000, "b\n", "c\n", replace_all=True) == "ac\r\n" * 100_000
