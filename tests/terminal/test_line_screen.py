"""The chat on a terminal that obeys no escape sequences."""

import signal

import pytest

from tests.terminal.conftest import OpenWindow
from tests.terminal.window import Window


@pytest.fixture
def chat(open_window: OpenWindow) -> Window:
    window = open_window(environment={"TERM": "dumb"})
    window.wait_for("\n>")
    return window


def test_a_dumb_terminal_chats_without_an_escape_byte(chat: Window) -> None:
    chat.press("steps\r")
    chat.wait_for("Let me look at the notes.\n\n... read_file notes.md\n\nThe notes say nothing.\n\n>")
    chat.press("hostile\r")
    chat.wait_until(lambda: chat.text.count("after") >= 3)
    chat.press("/exit\r")
    assert chat.wait_end() == 0
    assert b"\x1b" not in chat.raw
    assert "... read_file notes.md" in chat.text


def test_a_dumb_terminal_shows_a_long_answer_once_and_whole(chat: Window) -> None:
    chat.press("long\r")
    chat.wait_for("The end of it.\n\n>")
    for number in range(1, 61):
        assert chat.text.count(f"Paragraph {number} says something **bold** about line {number}.\n") == 1
    assert chat.text.count("\n".join(f"line_{number} = {number}" for number in range(1, 41))) == 1
    assert chat.text.count("# A long answer") == chat.text.count("The end of it.") == 1


def test_what_was_written_before_a_stop_stays_on_a_dumb_terminal(chat: Window) -> None:
    chat.press("hang\r")
    chat.wait_for("read_file notes.md")
    chat.press("\x03")
    chat.wait_for("Stopped.\n\n>")
    assert chat.text.count("Half an answer\n\n... read_file notes.md\n") == 1


def test_a_dumb_terminal_takes_several_lines_at_once(chat: Window) -> None:
    chat.press("alpha\rbeta\r\rgamma\r")
    assert chat.wait_arrivals(3) == ["alpha", "beta", "gamma"]


def test_ctrl_c_stops_and_then_leaves_a_dumb_terminal(chat: Window) -> None:
    chat.press("hang\r")
    chat.wait_for("read_file notes.md")
    chat.press("\x03")
    chat.wait_for("Stopped.\n\n>")
    chat.press("\x03")
    assert chat.wait_end() == 0


def test_a_second_ctrl_c_leaves_a_dumb_terminal(chat: Window) -> None:
    chat.press("deaf\r")
    chat.wait_for("read_file notes.md")
    chat.press("\x03")
    chat.wait_arrivals(2)
    chat.press("\x03")
    assert chat.wait_end() == 0
    assert "Left before the answer." in chat.text


def test_ctrl_d_leaves_a_dumb_terminal(chat: Window) -> None:
    chat.press("\x04")
    assert chat.wait_end() == 0


def test_sigterm_leaves_a_dumb_terminal(chat: Window) -> None:
    chat.signal(signal.SIGTERM)
    assert chat.wait_end() == 0


def test_a_message_that_could_not_be_stored_is_told_on_a_dumb_terminal(chat: Window) -> None:
    chat.press("full\r")
    chat.wait_for("Not sent: the disk is full")
    chat.press("hello\r")
    chat.wait_for("You said: hello")


def test_a_turn_that_only_its_message_tool_answered_gives_the_line_back(chat: Window) -> None:
    chat.press("tell\r")
    chat.wait_for("Told by the tool.\n\n>")
