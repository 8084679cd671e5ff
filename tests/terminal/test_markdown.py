"""How Markdown looks in a terminal."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobee_terminal.markdown import MarkdownPaper
from nanobee_terminal.wrapping import mark_breaks, unmark_breaks

STYLE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def draw(markdown: str, width: int = 40) -> str:
    """The drawn text without its styles."""
    paper = MarkdownPaper()
    return STYLE.sub("", paper.encode(paper.draw(markdown, width)))


def test_each_block_has_a_blank_line_before_it() -> None:
    assert draw("# Head\ntext\n- one\n- two") == "\nHead\n\ntext\n\n • one\n • two\n"


def test_drawing_in_pieces_looks_like_drawing_the_whole() -> None:
    pieces = ["# Head\n\n", "Some *words*.\n\n", "```\ncode\n```\n\n", "1. one\n2. two\n\n", "| a |\n|---|\n| 1 |"]
    assert "".join(draw(piece) for piece in pieces) == draw("".join(pieces))


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("a List<String> and <b>bold</b>", "a List<String> and <b>bold</b>"),
        ("<div>\nblock\n</div>", "<div>\nblock\n</div>"),
        ("[site](https://e.org/x)", "site (https://e.org/x)"),
        ("<https://e.org>", "https://e.org"),
        ("![alt](https://e.org/i.png)", "[alt](https://e.org/i.png)"),
        ("[1]: https://e.org", "[1]: https://e.org"),
        ("two\nlines", "two\nlines"),
        ("- [ ] task", " • [ ] task"),
        ("3. three\n4. four", " 3. three\n 4. four"),
        ("&lt; &#27;[31m &#x9b;", "< \ufffd[31m \ufffd"),
        ("a `b\x1bc` \x1b[31m", "a b␛c ␛[31m"),
        ("[red]markup[/red] :smile:", "[red]markup[/red] :smile:"),
    ],
)
def test_nothing_that_was_said_is_lost(markdown: str, shown: str) -> None:
    assert draw(markdown) == f"\n{shown}\n"


def test_code_can_be_copied_as_it_is() -> None:
    assert draw("```python\ndef f():\n\n    return '汉字'\n```") == "\n  def f():\n\n      return '汉字'\n"
    assert draw("```nolanguage\n<a>\n```") == "\n  <a>\n"


def test_no_line_ends_in_blanks() -> None:
    text = draw("# h\n\n> quote\n\n- item\n\n```\ncode\n```\n\n| a | b |\n|---|---|\n| 1 | |\n\npara")
    assert [line for line in text.split("\n") if line != line.rstrip()] == []


def test_a_table_lines_up_with_wide_characters() -> None:
    lines = draw("| name | 数量 |\n|:--|--:|\n| 苹果 | 3 |\n| a | 12 |").strip("\n").split("\n")
    assert lines == ["name   数量", "─" * len("name") + "─" * 7, "苹果      3", "a        12"]


def test_chinese_wraps_anywhere_but_before_its_points() -> None:
    lines = draw("使用nanobee可以连接聊天平台，与语言模型对话。", width=14).strip("\n").split("\n")
    assert lines == ["使用nanobee可", "以连接聊天平", "台，与语言模型", "对话。"]


def test_long_words_are_folded_not_cut() -> None:
    assert draw("x" * 100).replace("\n", "") == "x" * 100
    assert draw("`" + "y" * 100 + "`").replace("\n", "") == "y" * 100


def test_without_color_there_is_bold_and_no_color() -> None:
    paper = MarkdownPaper(color=False)
    drawn = paper.encode(paper.draw("# h\n\n`code`\n\n```python\nimport os\n```", 40))
    assert "\x1b[1;4mh" in drawn
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", drawn)


@given(st.text(st.characters(codec=None), max_size=200), st.integers(1, 60))
def test_any_text_can_be_drawn_without_a_control(text: str, width: int) -> None:
    drawn = draw(text, width)
    assert "\x1b" not in drawn
    assert "\x1f" not in drawn
    drawn.encode()


@given(st.text())
def test_marks_for_breaks_can_be_taken_out_again(text: str) -> None:
    text = unmark_breaks(text)
    assert unmark_breaks(mark_breaks(text)) == text
