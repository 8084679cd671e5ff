"""What of a growing answer is printed for good, and when."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from nanobee_terminal.blocks import finished_length, open_tail
from nanobee_terminal.growth import Growth

BLOCKS = [
    "# A heading",
    "A paragraph\nof two lines.",
    "- one\n- two\n\n  still two\n- three",
    "1. one\n2. two",
    "```python\nx = 1\n\n# not a heading\n```",
    "> a quote\n> of two lines",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "---",
    "    indented code",
    "<div>text</div>",
    "汉字，段落。",
]


def squeeze(texts: Sequence[str]) -> str:
    """The texts without the white space between blocks."""
    return "".join("".join(texts).split())


def test_all_before_the_last_block_is_finished() -> None:
    assert finished_length("one") == 0
    assert finished_length("one\n\n") == 0
    assert finished_length("one\n\ntwo") == len("one\n\n")
    assert finished_length("# head\ntext") == len("# head\n")
    assert finished_length("```\na\n\nb\n") == 0
    assert finished_length("```\na\n\nb\n```\n\nafter") == len("```\na\n\nb\n```\n\n")
    assert finished_length("- a\n\n- b\n\n  c") == 0


@given(st.lists(st.sampled_from(BLOCKS), max_size=8), st.integers(1, 40), st.booleans())
def test_however_a_text_grows_it_is_given_out_once_and_whole(blocks: list[str], step: int, is_seen_last: bool) -> None:
    text = "\n\n".join(blocks)
    growth = Growth("t")
    given_out: list[str] = []
    for end in range(0, len(text) + is_seen_last * step, step):
        growth.grow(0, text[:end], None)
        given_out += growth.take_finished()
    given_out += growth.finish(text)
    assert squeeze(given_out) == squeeze([text])
    assert growth.take_rest() == []


def test_words_before_a_tool_call_are_kept() -> None:
    growth = Growth("t")
    growth.grow(0, "Let me look.", None)
    growth.grow(0, "Let me look.", "read_file notes.md")
    growth.grow(1, "\n\nFound", None)
    assert growth.take_finished() == ["Let me look."]
    assert growth.open_text == "Found"
    assert growth.finish("Found it.") == ["Found it."]


def test_words_before_a_tool_call_are_kept_when_the_answer_was_never_seen_growing() -> None:
    growth = Growth("t")
    growth.grow(0, "Let me look.", "read_file notes.md")
    assert growth.finish("Found it.") == ["Let me look.", "Found it."]


def test_a_final_text_without_the_white_space_of_the_stream_is_not_doubled() -> None:
    growth = Growth("t")
    growth.grow(0, "\n\n one\n\ntwo\n\n", None)
    assert growth.take_rest() == ["one\n\ntwo"]
    assert growth.finish("one\n\ntwo") == []


def test_a_final_text_that_differs_stands_whole() -> None:
    growth = Growth("t")
    growth.grow(0, "one\n\ntwo", None)
    assert growth.take_finished() == ["one"]
    assert growth.finish("other words") == ["other words"]


def test_a_text_that_was_begun_afresh_stands_whole() -> None:
    growth = Growth("t")
    growth.grow(0, "one\n\ntwo", None)
    assert growth.take_finished() == ["one"]
    growth.grow(0, "uno\n\ndos", None)
    assert growth.take_finished() == ["uno"]
    assert growth.finish("uno\n\ndos") == ["dos"]


def test_an_open_end_that_changes_is_given_out_as_it_became() -> None:
    growth = Growth("t")
    growth.grow(0, "one\n\nt\ufffd", None)
    growth.take_finished()
    growth.grow(0, "one\n\nt\U0001f600", None)
    assert growth.finish("one\n\nt\U0001f600!") == ["t\U0001f600!"]


def test_an_answer_without_text_drops_what_was_not_given_out() -> None:
    growth = Growth("t")
    growth.grow(0, "Told by the tool.", None)
    assert growth.finish("") == []


def test_only_the_end_of_a_tall_block_is_drawn_while_it_grows() -> None:
    code = "```python\n" + "\n".join(f"line {number}" for number in range(100))
    assert open_tail(code, 3) == "```python\nline 97\nline 98\nline 99"
    table = "| a |\n|---|\n" + "\n".join(f"| {number} |" for number in range(100))
    assert open_tail(table, 2) == "| a |\n|---|\n| 98 |\n| 99 |"
    assert open_tail("a\nb\nc", 2) == "b\nc"
    assert open_tail("a\nb", 2) == "a\nb"
