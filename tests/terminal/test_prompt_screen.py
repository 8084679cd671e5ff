"""The chat at the keyboard, in a real pseudo-terminal."""

import re
import signal
from pathlib import Path

import pytest

from tests.terminal.conftest import OpenWindow
from tests.terminal.window import Window, read_arrivals

CTRL_C, CTRL_D = "\x03", "\x04"
LEFT, UP = "\x1b[D", "\x1b[A"
ALT_ENTER = "\x1b\r"
COLOR = re.compile(rb"\x1b\[[0-9;]*\b(?:3[0-7]|9[0-7]|38;[0-9;]+)[0-9;]*m")


@pytest.fixture
def chat(open_window: OpenWindow) -> Window:
    window = open_window()
    window.wait_for("❯")
    return window


def say(window: Window, text: str) -> None:
    window.press(text + "\r")


def is_working(window: Window) -> bool:
    """Whether the status line is seen."""
    return re.search(r"\d s · Ctrl-C stops", window.visible) is not None


def test_o50_c_a_bracketed_paste_is_one_message_of_three_lines(chat: Window) -> None:
    chat.press("\x1b[200~alpha\rbeta\rgamma\x1b[201~\r")
    assert chat.wait_arrivals(1) == ["alpha\nbeta\ngamma"]
    chat.wait_for("❯ alpha\n  beta\n  gamma\n\nYou said: alpha\nbeta\ngamma")


def test_o50_c_without_bracketed_paste_each_line_is_a_message(chat: Window) -> None:
    chat.press("alpha\rbeta\rgamma\r")
    assert chat.wait_arrivals(3) == ["alpha", "beta", "gamma"]
    chat.wait_for("You said: gamma")
    assert chat.text.count("You said:") == 3


def test_o50_c_wide_text_wrapped_over_lines_is_edited_with_arrow_keys(open_window: OpenWindow) -> None:
    chat = open_window(columns=30)
    chat.wait_for("❯")
    wide = "中文字符很宽，一行放不下，所以要换到下一行来显示"
    chat.press(wide)
    chat.wait_for("❯ 中文字符很宽，一行放不下，所\n  以要换到下一行来显示")
    chat.press(LEFT * 20 + "新" + LEFT * 3 + "旧\r")
    assert chat.wait_arrivals(1) == [wide[:2] + "旧" + wide[2:4] + "新" + wide[4:]]


def test_o50_c_ctrl_c_stops_the_turn_through_the_control_lane(chat: Window, log: Path) -> None:
    say(chat, "hang")
    chat.wait_for("read_file notes.md")
    chat.press(CTRL_C)
    chat.wait_for("Stopped.")
    arrivals = read_arrivals(log)
    assert [(arrival["text"], arrival["lane"]) for arrival in arrivals] == [("hang", 1), ("/stop", 0)]
    chat.wait_until(lambda: not is_working(chat))
    assert chat.text.count("Half an answer") == 1
    say(chat, "still here")
    chat.wait_for("You said: still here")


def test_o50_c_a_second_ctrl_c_leaves(chat: Window) -> None:
    say(chat, "deaf")
    chat.wait_for("Half an answer")
    chat.press(CTRL_C)
    chat.wait_for("Ctrl-C again leaves")
    chat.press(CTRL_C)
    chat.wait_restored()
    assert chat.wait_end() == 0
    assert "Left before the answer." in chat.text
    assert chat.text.count("Half an answer") == 1


def test_ctrl_c_stops_then_leaves_an_idle_chat(chat: Window) -> None:
    say(chat, "hang")
    chat.wait_for("Half an answer")
    chat.press(CTRL_C)
    chat.wait_for("Stopped.")
    chat.press(CTRL_C)
    chat.wait_restored()
    assert chat.wait_end() == 0
    assert "Left before" not in chat.text


def test_ctrl_c_clears_what_is_typed_before_it_leaves(chat: Window, log: Path) -> None:
    chat.press("never mind")
    chat.wait_for("❯ never mind")
    chat.press(CTRL_C)
    chat.wait_until(lambda: "never mind" not in chat.text)
    chat.press(CTRL_C)
    chat.wait_restored()
    assert read_arrivals(log) == []


def test_a_signal_does_what_ctrl_c_does(chat: Window) -> None:
    say(chat, "hang")
    chat.wait_for("Half an answer")
    chat.signal(signal.SIGINT)
    chat.wait_for("Stopped.")
    chat.signal(signal.SIGINT)
    chat.wait_restored()
    assert chat.wait_end() == 0


@pytest.mark.parametrize("keys", [CTRL_D, "/exit\r", " /exit \r"])
def test_ctrl_d_and_exit_leave(chat: Window, log: Path, keys: str) -> None:
    chat.press(keys)
    chat.wait_restored()
    assert chat.wait_end() == 0
    assert read_arrivals(log) == []


def test_ctrl_d_deletes_in_a_line_that_is_being_typed(chat: Window) -> None:
    chat.press("ab" + LEFT + CTRL_D + "\r")
    assert chat.wait_arrivals(1) == ["a"]


def test_alt_enter_begins_a_new_line(chat: Window) -> None:
    chat.press("one" + ALT_ENTER + "two\r")
    assert chat.wait_arrivals(1) == ["one\ntwo"]


def test_an_empty_line_is_no_message(chat: Window) -> None:
    chat.press("\r  \rhello\r")
    assert chat.wait_arrivals(1) == ["hello"]


@pytest.mark.parametrize("rows", [24, 6])
def test_an_answer_taller_than_the_window_stands_once_and_whole(open_window: OpenWindow, rows: int) -> None:
    chat = open_window(rows=rows)
    chat.wait_for("❯")
    say(chat, "long")
    chat.wait_for("The end of it.")
    for number in range(1, 61):
        assert chat.text.count(f"Paragraph {number} says something bold about line {number}.\n") == 1
    code = "\n".join(f"  line_{number} = {number}" for number in range(1, 41))
    assert chat.text.count(code) == 1
    assert chat.text.count("line_20 = 20") == 1
    assert chat.text.count("A long answer") == chat.text.count("The end of it.") == 1


def test_the_open_end_of_an_answer_is_seen_while_it_grows(chat: Window) -> None:
    say(chat, "open")
    chat.wait_for("line_39 = 39")
    assert "working" not in chat.visible
    assert "writing" in chat.visible
    assert "line_1 = 1\n" not in chat.text, "an open block is drawn inside the window only"
    chat.press(CTRL_C)
    chat.wait_for("Stopped.")
    assert chat.text.count("line_1 = 1\n") == chat.text.count("line_39 = 39") == 1


def test_words_before_a_tool_call_stay_above_the_answer(chat: Window) -> None:
    say(chat, "steps")
    chat.wait_for("❯ steps\n\nLet me look at the notes.\n\nThe notes say nothing.\n\n❯")
    assert chat.text.count("The notes say") == 1


def test_a_message_typed_while_a_turn_runs_waits_and_reads_in_order(chat: Window) -> None:
    say(chat, "gate")
    chat.wait_for("behind the gate")
    say(chat, "second")
    chat.wait_for("❯ second · waits")
    say(chat, "third")
    chat.wait_for("❯ third · waits")
    say(chat, "/resume")
    chat.wait_for("You said: third")
    order = ["❯ gate", "❯ /resume", "The gate is open.", "❯ second", "You said: second", "❯ third", "You said: third"]
    places = [chat.text.index(text) for text in order]
    assert places == sorted(places)
    assert "waits" not in chat.text


def test_a_message_that_nobody_asked_for_is_shown_with_its_time(chat: Window) -> None:
    say(chat, "unasked")
    chat.wait_for("It is later.")
    assert re.search(r"Later, then\.\n\nnanobee says, \d\d:\d\d\n\nIt is later\.", chat.text)


def test_what_the_message_tool_said_can_be_the_whole_answer(chat: Window) -> None:
    say(chat, "tell")
    chat.wait_for("Told by the tool.")
    chat.wait_until(lambda: not is_working(chat))
    assert "nanobee says" not in chat.text
    chat.press(CTRL_C)
    assert chat.wait_end() == 0


def test_a_turn_that_asked_is_seen_going_on_after_its_answer(chat: Window) -> None:
    say(chat, "ask")
    chat.wait_for("May I?")
    chat.wait_until(lambda: not is_working(chat))
    say(chat, "yes")
    chat.wait_for("I may. So I begin")
    chat.wait_until(lambda: is_working(chat))
    say(chat, "/resume")
    chat.wait_for("So I begin and end.")
    chat.wait_until(lambda: not is_working(chat))
    assert chat.text.count("So I begin") == 1


def test_a_command_is_answered_beside_a_running_turn(chat: Window) -> None:
    say(chat, "hang")
    chat.wait_for("Half an answer")
    say(chat, "/status")
    chat.wait_for("All is well.")
    chat.wait_until(lambda: "read_file notes.md" in chat.visible)


def test_escape_sequences_of_a_model_never_reach_the_terminal(chat: Window) -> None:
    say(chat, "hostile")
    chat.wait_until(lambda: chat.text.count("after &#27;[31m") + chat.text.count("after \ufffd[31m") >= 3)
    for forbidden in (b"\x1b]0;owned", b"\x1b[31m", b"\x1b[2J", "\x9b".encode(), b"\x07"):
        assert forbidden not in chat.raw
    assert chat.title == ""
    assert "␛[31mred␛[0m" in chat.text


def test_a_message_that_could_not_be_stored_comes_back_to_the_line(chat: Window) -> None:
    say(chat, "full")
    chat.wait_for("Not sent: the disk is full")
    chat.wait_until(lambda: chat.visible.rstrip().endswith("❯ full"))


def test_a_terminal_that_is_not_admitted_is_told(chat: Window) -> None:
    say(chat, "refuse")
    chat.wait_for("allow_from")


def test_what_a_library_writes_to_stderr_does_not_smear_the_line(chat: Window) -> None:
    chat.press("broken\rtyping")
    chat.wait_for("Half a pair: \ufffd and bytes \ufffd.\n\n❯ typing")
    assert "a library warns\n" in chat.text


def test_a_cancelled_chat_puts_the_terminal_back(chat: Window) -> None:
    say(chat, "quit now")
    chat.wait_restored()
    assert chat.wait_end() == 3


def test_sigterm_puts_the_terminal_back(chat: Window) -> None:
    chat.signal(signal.SIGTERM)
    chat.wait_restored()
    assert chat.wait_end() == 0


def test_the_arrow_keys_bring_earlier_lines_back(chat: Window) -> None:
    say(chat, "hello")
    chat.wait_for("You said: hello")
    chat.press(UP + "!\r")
    assert chat.wait_arrivals(2) == ["hello", "hello!"]


def test_a_history_file_is_for_its_owner_only(open_window: OpenWindow, tmp_path: Path) -> None:
    path = tmp_path / "kept" / "history"
    chat = open_window(history_path=str(path))
    chat.wait_for("❯")
    say(chat, "remember me")
    chat.wait_for("You said")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "remember me" in path.read_text(encoding="utf-8")


def test_colors_are_used_unless_no_color_asks_for_none(open_window: OpenWindow) -> None:
    plain = open_window(environment={"NO_COLOR": "1"})
    plain.wait_for("❯")
    say(plain, "long")
    plain.wait_for("The end of it.")
    assert not COLOR.search(plain.raw)
    colored = open_window()
    colored.wait_for("❯")
    say(colored, "long")
    colored.wait_for("The end of it.")
    assert COLOR.search(colored.raw)


def test_bytes_that_are_no_text_are_replaced(open_window: OpenWindow, tmp_path: Path) -> None:
    path = tmp_path / "history"
    chat = open_window(history_path=str(path))
    chat.wait_for("❯")
    chat.press_bytes(b"bad \xff byte\r")
    assert chat.wait_arrivals(1) == ["bad \ufffd byte"]
    say(chat, "and on")
    chat.wait_for("You said: and on")
    assert "bad \ufffd byte" in path.read_text(encoding="utf-8")


def test_a_history_that_cannot_be_written_is_kept_in_memory(open_window: OpenWindow, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    chat = open_window(history_path=str(tmp_path / "file" / "history"))
    chat.wait_for("❯")
    say(chat, "hello")
    chat.wait_for("You said: hello")
    chat.press(UP + "!\r")
    assert chat.wait_arrivals(2) == ["hello", "hello!"]


def test_what_was_typed_just_before_leaving_is_stored(chat: Window, log: Path) -> None:
    chat.press("one\rtwo\rthree\r" + CTRL_D)
    assert chat.wait_end() == 0
    assert [arrival["text"] for arrival in read_arrivals(log)] == ["one", "two", "three"]


def test_keys_pressed_before_the_chat_is_open_are_not_lost(open_window: OpenWindow) -> None:
    chat = open_window()
    chat.press("early bird\r")
    assert chat.wait_arrivals(1) == ["early bird"]
    chat.wait_for("You said: early bird")


def test_the_terminal_speaks_the_configured_language(open_window: OpenWindow) -> None:
    chat = open_window(language="zh")
    chat.wait_for("回车发送")


def test_a_resized_window_goes_on(chat: Window) -> None:
    say(chat, "hello")
    chat.wait_for("You said: hello")
    chat.resize(30, 100)
    say(chat, "again")
    chat.wait_for("You said: again")
    assert chat.text.count("You said: hello") == 1


def test_another_session_name_is_another_session(open_window: OpenWindow, log: Path) -> None:
    chat = open_window(session="work:a")
    chat.wait_for("❯")
    say(chat, "hello")
    chat.wait_arrivals(1)
    [arrival] = read_arrivals(log)
    assert arrival["session"] == "terminal:work%3Aa"
    assert arrival["sender"] == "local"
