"""What the terminal's section may hold, and what importing the channel costs."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from nanobee.errors import NotSentError
from nanobee.messages import Address, LivePart, OutboundPart, PartKind
from nanobee_terminal import TerminalChannel, TerminalSettings
from nanobee_terminal.modes import has_color, is_dumb
from nanobee_terminal.status import Status
from tests.terminal.window import WAIT_SECONDS, build_command, build_environment

HEAVY = ("rich", "prompt_toolkit", "markdown_it", "pygments")


def test_the_owner_s_terminal_is_admitted_by_default() -> None:
    settings = TerminalSettings()
    assert settings.allow_from == ("local",)
    assert settings.session == "main"
    assert settings.message is None


@pytest.mark.parametrize(
    "section",
    ['{"sesion": "main"}', '{"session": ""}', '{"session": 1}', '{"color": "always"}', '{"language": "fr"}'],
)
def test_a_wrong_section_is_refused(section: str) -> None:
    with pytest.raises(ValidationError):
        TerminalSettings.model_validate_json(section)


def test_colors_follow_the_settings_and_the_environment() -> None:
    assert has_color(TerminalSettings(), {})
    assert has_color(TerminalSettings(), {"NO_COLOR": ""})
    assert not has_color(TerminalSettings(), {"NO_COLOR": "1"})
    assert not has_color(TerminalSettings(color="never"), {})


@pytest.mark.parametrize(("term", "expected"), [("dumb", True), ("", True), ("xterm", False), ("linux", False)])
def test_a_terminal_without_escape_sequences_is_known(term: str, expected: bool) -> None:
    assert is_dumb({"TERM": term}) is expected


def test_importing_the_channel_imports_nothing_heavy() -> None:
    code = f"import sys, nanobee_terminal; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.stdout.strip() == "[]"


def test_one_message_through_pipes_imports_nothing_heavy(log: Path) -> None:
    command = build_command({"message": "steps"}, log)
    done = subprocess.run(
        [command[0], "-X", "importtime", *command[1:]],
        capture_output=True,
        text=True,
        env=build_environment(),
        timeout=WAIT_SECONDS,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time")}
    assert "nanobee_terminal.one_message" in imported
    assert imported.isdisjoint(HEAVY)


async def test_a_reply_that_finds_the_screen_closed_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanobee_terminal.channel.OPEN_TIMEOUT_SECONDS", 0.0)
    channel = TerminalChannel("terminal", TerminalSettings())
    address = Address("terminal", "main")
    await channel.stream(LivePart(address, "t1"), "nobody sees this")
    with pytest.raises(NotSentError):
        await channel.send(OutboundPart(1, address, "text", PartKind.ANSWER))


def test_the_status_line_tells_what_is_done_and_for_how_long() -> None:
    now = [100.0]
    status = Status("en", clock=lambda: now[0])
    status.begin()
    now[0] = 103.2
    status.begin()
    line = status.describe("read_file\x1b notes.md", is_writing=False, is_stopping=False)
    assert line == "⠹ read_file␛ notes.md · 3 s · Ctrl-C stops"
    assert "writing · 3 s" in status.describe(None, is_writing=True, is_stopping=False)
    assert "working · 3 s" in status.describe(None, is_writing=False, is_stopping=False)
    assert "Ctrl-C again leaves" in status.describe(None, is_writing=True, is_stopping=True)
    status.end()
    assert not status.is_on
    assert "working · 0 s" in status.describe(None, is_writing=False, is_stopping=False)
