"""One message from the settings or a pipe, with pipes and terminals at either end."""

import fcntl
import os
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal.conftest import OpenWindow
from tests.terminal.window import WAIT_SECONDS, build_command, build_environment, read_arrivals


def converse(log: Path, settings: dict[str, object], stdin: bytes = b"", **environment: str) -> tuple[int, str, str]:
    """Run the driver with pipes at all ends: exit code, stdout, stderr."""
    done = subprocess.run(
        build_command(settings, log),
        input=stdin,
        capture_output=True,
        env=build_environment(**environment),
        timeout=WAIT_SECONDS,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def waiting(log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A driver whose stdin stays open."""
    with open_driver(log, {}) as process:
        yield process
        process.kill()


def open_driver(log: Path, settings: dict[str, object]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        build_command(settings, log),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=build_environment(),
    )


def read_until(process: subprocess.Popen[bytes], text: bytes) -> None:
    """Read stderr up to a line with the text."""
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"{text!r} did not come")


def test_o50_c_a_pipe_is_read_to_its_end_as_one_message(log: Path) -> None:
    code, out, _ = converse(log, {}, b"alpha\nbeta\ngamma\n")
    assert (code, out) == (0, "You said: alpha\nbeta\ngamma\n")
    assert [arrival["text"] for arrival in read_arrivals(log)] == ["alpha\nbeta\ngamma"]


@pytest.mark.parametrize("text", ["long", "steps", "hostile", "fail", "tell"])
def test_o50_c_without_a_terminal_there_is_no_escape_byte(log: Path, text: str) -> None:
    _, out, error = converse(log, {"message": text}, FORCE_COLOR="1", CLICOLOR_FORCE="1")
    for stream in (out, error):
        assert "\x1b" not in stream
        assert "\x9b" not in stream


def test_the_answer_is_on_stdout_and_everything_else_on_stderr(log: Path) -> None:
    code, out, error = converse(log, {"message": "steps"})
    assert (code, out) == (0, "The notes say nothing.\n")
    assert "… read_file notes.md\n" in error


def test_the_answer_is_the_markdown_that_the_model_wrote(log: Path) -> None:
    _, out, _ = converse(log, {"message": "long"})
    assert out.startswith("# A long answer\n\nParagraph 1 says something **bold** about line 1.\n")
    assert out.endswith("```\n\nThe end of it.\n")


def test_a_message_leaves_stdin_alone(log: Path) -> None:
    _, out, _ = converse(log, {"message": "hello"}, b"not this")
    assert out == "You said: hello\n"


@pytest.mark.parametrize(
    ("text", "said", "why"),
    [
        ("fail", "The model gave no answer.\n", "The turn ended without an answer."),
        ("ask", "May I?\n", "The turn waits until its question is answered"),
    ],
)
def test_a_turn_without_an_answer_fails(log: Path, text: str, said: str, why: str) -> None:
    code, out, error = converse(log, {"message": text})
    assert (code, out) == (1, "")
    assert f"{said}ChannelError: {why}" in error


def test_a_command_s_output_is_its_answer(log: Path) -> None:
    code, out, _ = converse(log, {"message": "/status"})
    assert (code, out) == (0, "All is well.\n")


def test_what_the_message_tool_said_is_an_answer(log: Path) -> None:
    code, out, _ = converse(log, {"message": "tell"})
    assert (code, out) == (0, "Told by the tool.\n")


def test_a_reply_to_an_earlier_run_is_not_taken_for_the_answer(log: Path) -> None:
    code, out, error = converse(log, {"message": "early"})
    assert (code, out) == (0, "Today's answer.\n")
    assert "An answer of another day.\n" in error


@pytest.mark.parametrize("stdin", [b"", b"\n", b"  \n\t\n", b"\xef\xbb\xbf"])
def test_an_empty_pipe_is_an_error(log: Path, stdin: bytes) -> None:
    code, out, error = converse(log, {}, stdin)
    assert (code, out) == (1, "")
    assert "standard input was empty" in error
    assert read_arrivals(log) == []


def test_bytes_that_are_no_text_are_replaced(log: Path) -> None:
    code, _, _ = converse(log, {}, b"\xef\xbb\xbfgood \xff\xfe \xed\xa0\xbd\r\nend")
    assert code == 0
    assert [arrival["text"] for arrival in read_arrivals(log)] == ["good \ufffd\ufffd \ufffd\ufffd\ufffd\nend"]


def test_lone_surrogates_in_an_answer_are_replaced(log: Path) -> None:
    code, out, _ = converse(log, {"message": "broken"})
    assert (code, out) == (0, "Half a pair: \ufffd and bytes \ufffd.\n")


def test_a_stdout_that_cannot_write_chinese_gets_question_marks(log: Path) -> None:
    code, out, _ = converse(log, {"message": "你好"}, PYTHONIOENCODING="ascii")
    assert (code, out) == (0, "You said: ??\n")


def test_a_pipe_without_end_is_refused(log: Path) -> None:
    code, _, error = converse(log, {}, b"x" * (4 * 1024 * 1024 + 1))
    assert code == 1
    assert "longer than 4194304 bytes" in error
    assert read_arrivals(log) == []


def test_a_message_that_cannot_be_stored_fails(log: Path) -> None:
    code, _, error = converse(log, {"message": "full"})
    assert code == 1
    assert "BusError: the disk is full" in error


def test_a_terminal_that_is_not_admitted_fails(log: Path) -> None:
    code, _, error = converse(log, {"message": "refuse"})
    assert code == 1
    assert "allow_from" in error


def test_a_reader_that_goes_away_ends_it_without_a_word(log: Path) -> None:
    with open_driver(log, {"message": "flood"}) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(5) == b"water"
        process.stdout.close()
        assert process.stderr.read() == b"ended with 0\n"
        assert process.wait(WAIT_SECONDS) == 0


def test_a_slow_reader_gets_all(log: Path) -> None:
    _, out, _ = converse(log, {"message": "flood"})
    assert out == ("water " * 200_000) + "\n"


def test_a_file_takes_the_answer(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "answer.md"
    with path.open("wb") as file:
        subprocess.run(build_command({"message": "hello"}, log), stdout=file, timeout=WAIT_SECONDS, check=True)
    assert path.read_text(encoding="utf-8") == "You said: hello\n"


def test_a_file_gives_the_message(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "question.txt"
    path.write_text("from a file", encoding="utf-8")
    with path.open("rb") as file:
        done = subprocess.run(build_command({}, log), stdin=file, capture_output=True, timeout=WAIT_SECONDS)
    assert done.stdout == b"You said: from a file\n"


def test_o50_c_ctrl_c_stops_the_turn_of_one_message(log: Path) -> None:
    with open_driver(log, {"message": "hang"}) as process:
        read_until(process, b"read_file notes.md")
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, out) == (1, b"")
    assert error.decode().startswith("Stopped.\nChannelError")
    assert [(a["text"], a["lane"]) for a in read_arrivals(log)] == [("hang", 1), ("/stop", 0)]


def test_o50_c_a_second_ctrl_c_leaves_one_message(log: Path) -> None:
    with open_driver(log, {"message": "deaf"}) as process:
        read_until(process, b"read_file notes.md")
        process.send_signal(signal.SIGINT)
        read_until(process, b"deaf to /stop")
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, out) == (1, b"")
    assert b"Left before the answer." in error
    assert b"Traceback" not in error


def test_ctrl_c_leaves_a_pipe_that_says_nothing(waiting: subprocess.Popen[bytes]) -> None:
    assert waiting.stdin is not None
    waiting.stdin.write(b"half a mess")
    waiting.stdin.flush()
    wait_until_read(waiting)
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(WAIT_SECONDS) == 1
    assert waiting.stderr is not None
    assert b"Interrupted before anything was sent." in waiting.stderr.read()


def wait_until_read(process: subprocess.Popen[bytes]) -> None:
    """Wait until the process has taken what was written to its pipe."""
    assert process.stdin is not None
    ends_at = time.monotonic() + WAIT_SECONDS
    while struct.unpack("i", fcntl.ioctl(process.stdin.fileno(), termios.FIONREAD, b"\0" * 4))[0]:
        assert time.monotonic() < ends_at, "the pipe was not read"
        os.sched_yield()


def test_a_terminal_shows_one_answer_as_markdown_and_is_done(open_window: OpenWindow) -> None:
    window = open_window(message="long")
    assert window.wait_end() == 0
    assert window.text.count("A long answer") == window.text.count("The end of it.") == 1
    assert "**" not in window.text
    for number in range(1, 61):
        assert window.text.count(f"Paragraph {number} says something bold about line {number}.\n") == 1
    assert window.text.count("\n".join(f"  line_{number} = {number}" for number in range(1, 41))) == 1
    assert "Ctrl-C" not in window.text
    window.wait_restored()


def test_a_terminal_shows_what_is_done_for_one_message(open_window: OpenWindow) -> None:
    window = open_window(message="hang")
    window.wait_for("read_file notes.md")
    window.wait_for("Half an answer")
    window.press("\x03")
    assert window.wait_end() == 1
    assert "Half an answer" in window.text
    assert "Half an answer\nStopped.\n" in window.text
    assert "Ctrl-C stops" not in window.text
    window.wait_restored()


def test_one_message_on_a_terminal_obeys_no_escape_sequence_of_a_model(open_window: OpenWindow) -> None:
    window = open_window(message="hostile")
    assert window.wait_end() == 0
    for forbidden in (b"\x1b]0;owned", b"\x1b[31m", b"\x1b[2J", "\x9b".encode(), b"\x07"):
        assert forbidden not in window.raw


def test_one_message_is_typed_where_only_stdout_is_a_pipe(log: Path) -> None:
    main, side = os.openpty()
    with subprocess.Popen(
        build_command({}, log), stdin=side, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        read_until(process, b"end it with Ctrl-D")
        os.write(main, b"typed\n\x04")
        out, _ = process.communicate(timeout=WAIT_SECONDS)
    os.close(main)
    os.close(side)
    assert out == b"You said: typed\n"
