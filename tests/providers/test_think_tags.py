"""Thinking tags in text: closed or not, split anywhere, opened by the template."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobee.chat import Delta, ReasoningDelta, TextDelta
from nanobee.providers.think_tags import ThinkTagSplitter, wrap_thought


def split(*pieces: str, begins_in_thought: bool = False, is_cut: bool = False) -> tuple[str, str]:
    """The thought and the text."""
    splitter = ThinkTagSplitter(begins_in_thought=begins_in_thought)
    for piece in pieces:
        splitter.feed(piece)
    splitter.finish(is_cut=is_cut)
    return splitter.thought, splitter.text


def deltas_of(*pieces: str, begins_in_thought: bool = False) -> list[Delta]:
    splitter = ThinkTagSplitter(begins_in_thought=begins_in_thought)
    return [delta for piece in pieces for delta in splitter.feed(piece)] + splitter.finish(is_cut=False)


@pytest.mark.parametrize(
    ("answer", "thought", "text"),
    [
        ("<think>why</think>so", "why", "so"),
        ("<think>\nwhy\n</think>\n\nso\n", "\nwhy\n", "so\n"),
        ("\n<thinking>why</thinking> so", "why", "so"),
        ("<thought>why</thought>so", "why", "so"),
        ("<think>a</think>\n<think>b</think>so", "ab", "so"),
        ("<think>\n\n</think>\n\nso", "\n\n", "so"),
        ("<think>why", "why", ""),
        ("<think>why</thi", "why</thi", ""),
        ("<think>a <think> b</think>so", "a <think> b", "so"),
        ("why\n</think>\n\nso", "why\n", "so"),
        ("</think>so", "", "so"),
        ("so", "", "so"),
        ("  \n", "", "  \n"),
        ("", "", ""),
        ("<thin", "", "<thin"),
        ("<b>so</b>", "", "<b>so</b>"),
        ("so <think>is a tag</think>", "", "so <think>is a tag</think>"),
        ("the tag `</think>` closes it", "", "the tag `</think>` closes it"),
        ("see\n```\n</think>\n```\n", "", "see\n```\n</think>\n```\n"),
        ("<think>a</think>so\n</think>\nmore", "a", "so\n</think>\nmore"),
    ],
)
def test_reasoning_in_tags_is_no_answer_wherever_the_text_is_cut(answer: str, thought: str, text: str) -> None:
    assert split(answer) == (thought, text)
    assert split(*answer) == (thought, text)
    for at in range(len(answer)):
        assert split(answer[:at], answer[at:]) == (thought, text)


@pytest.mark.parametrize(
    ("answer", "thought", "text"),
    [
        ("why\n</think>\n\nso", "why\n", "so"),
        ("why</think>so", "why", "so"),
        ("<think>why</think>so", "why", "so"),
        ("so, without any tag", "", "so, without any tag"),
        ("<think>why", "why", ""),
    ],
)
def test_a_template_may_have_opened_the_tag(answer: str, thought: str, text: str) -> None:
    assert split(answer, begins_in_thought=True) == (thought, text)
    assert split(*answer, begins_in_thought=True) == (thought, text)


def test_a_thought_that_the_limit_has_cut_is_no_answer() -> None:
    assert split("let me see", begins_in_thought=True, is_cut=True) == ("let me see", "")


def test_a_server_that_sends_reasoning_apart_opens_no_tag() -> None:
    splitter = ThinkTagSplitter(begins_in_thought=True)
    splitter.expect_no_thought()
    assert splitter.feed("so") == [TextDelta("so")]


def test_fragments_are_given_out_as_soon_as_they_are_clear() -> None:
    assert deltas_of("<think>", "a", "b</", "think>", "c", "\nd") == [
        ReasoningDelta("a"),
        ReasoningDelta("b"),
        TextDelta("c"),
        TextDelta("\n"),
        TextDelta("d"),
    ]


def test_what_was_taken_for_a_thought_is_given_out_as_text_at_the_end() -> None:
    assert deltas_of("a", "b", begins_in_thought=True)[-1] == TextDelta("ab")


@given(st.lists(st.text(alphabet="<think/>\n `a", max_size=8), max_size=8), st.booleans())
def test_no_border_between_chunks_changes_anything(pieces: list[str], begins_in_thought: bool) -> None:
    whole = "".join(pieces)
    expected = split(whole, begins_in_thought=begins_in_thought)
    assert split(*pieces, begins_in_thought=begins_in_thought) == expected
    assert split(*whole, begins_in_thought=begins_in_thought) == expected


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_wrapped_thought_comes_out_again(thought: str, text: str) -> None:
    if "</think>" not in thought and not text.lstrip().startswith("<"):
        assert split(wrap_thought(thought, text)) == (thought, text.lstrip())
