"""`make run` as a person meets it, in a folder with a space: what goes where, and a chat in a real terminal.

The environment is a stand-in that holds the command under test; scripts/environment has tests of its own.
"""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import anyio
import pytest

from nanobee.providers.model_file import find_model
from nanobee.testing.model_server import ModelServer

LIMIT_SECONDS = 30.0
CONFIG = """\
providers: {{main: {{kind: openai, base_url: "{base_url}", api_key: unused}}}}
agent: {{model: main/test-model}}
"""


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as running:
        yield running


@pytest.fixture
def clone(source_root: Path, tmp_path: Path) -> Path:
    """What `make run` needs of a clone, with a whole environment in it."""
    folder = tmp_path / "a b" / "clone"
    (folder / ".venv" / "bin").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(source_root / name, folder)
    for name in ("scripts", "requirements"):
        shutil.copytree(source_root / name, folder / name)
    for program in ("python", "nanobee"):
        starter = folder / ".venv" / "bin" / program
        starter.write_text(f'#!/bin/sh\nexec "{Path(sys.executable).with_name(program)}" "$@"\n', encoding="utf-8")
        starter.chmod(0o755)
    sums = subprocess.check_output(["cksum", "requirements/run.txt", "pyproject.toml"], cwd=folder, text=True)
    (folder / ".venv" / "made-from").write_text(f"{folder}\n\n{sums}", encoding="utf-8")
    return folder


@pytest.fixture
def environ(clone: Path, server: ModelServer, tmp_path: Path) -> dict[str, str]:
    """An empty home, and a configuration with the server's model."""
    (tmp_path / "home").mkdir()
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(base_url=server.base_url), encoding="utf-8")
    config.chmod(0o600)
    kept = {name: os.environ[name] for name in ("PATH", "NANOBEE_CACHE")}
    return {**kept, "HOME": str(tmp_path / "home"), "NANOBEE_CONFIG": str(config), "TERM": "xterm"}


async def make(
    clone: Path, environ: dict[str, str], *arguments: str, text: str = ""
) -> "subprocess.CompletedProcess[bytes]":
    with anyio.fail_after(LIMIT_SECONDS):
        return await anyio.run_process(["make", *arguments], input=text.encode(), cwd=clone, env=environ, check=False)


async def test_a_pipe_is_one_message_and_standard_output_is_the_answer_alone(
    clone: Path, environ: dict[str, str], server: ModelServer
) -> None:
    server.reply_text("Hello, you.")
    result = await make(clone, environ, "run", text="Say hello")
    assert result.returncode == 0, result.stderr
    assert result.stdout == b"Hello, you.\n"
    assert b"Say hello" in server.requests[0].body


async def test_arguments_reach_the_command(clone: Path, environ: dict[str, str], server: ModelServer) -> None:
    server.reply_text("Hello again.")
    result = await make(clone, environ, "run", "ARGS=-m 'Say it again'")
    assert result.stdout == b"Hello again.\n", result.stderr
    assert b"Say it again" in server.requests[0].body


async def test_the_cache_is_looked_into_once(clone: Path, environ: dict[str, str], server: ModelServer) -> None:
    if find_model() is None:
        pytest.skip("the model's file is not in the cache: nanobee models get")
    server.reply_text("one", times=2)
    first = await make(clone, environ, "run", text="Count")
    second = await make(clone, environ, "run", text="Count")
    assert b"smollm2" in first.stderr
    assert b"smollm2" not in second.stderr


class Screen:
    """A chat in tmux."""

    def __init__(self, tmux: str, socket: Path) -> None:
        self._tmux = [tmux, "-S", str(socket), "-f", os.devnull]

    def start(self, folder: Path, environ: dict[str, str]) -> None:
        variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in environ.items() if name != "TERM")
        command = f"env -i TERM=$TERM {variables} sh -c 'make run; echo made: $?; cat'"
        self._run("new-session", "-d", "-x", "80", "-y", "40", "-c", str(folder), command)

    def press(self, *keys: str) -> None:
        self._run("send-keys", *keys)

    def say(self, text: str) -> None:
        self._run("send-keys", "-l", text)
        self.press("Enter")

    async def wait_for(self, text: str) -> str:
        """What stands on the screen, once `text` does."""
        end = time.monotonic() + LIMIT_SECONDS
        while text not in (shown := self._run("capture-pane", "-p")):
            assert time.monotonic() < end, f"{text!r} did not appear:\n{shown}"
            await anyio.sleep(0.05)  # a screen has no event to wait for
        return shown

    def close(self) -> None:
        self._run("kill-server")

    def _run(self, *arguments: str) -> str:
        return subprocess.check_output([*self._tmux, *arguments], text=True, timeout=LIMIT_SECONDS)


@pytest.fixture
def screen(program: Callable[[str], str], tmp_path: Path) -> Iterator[Screen]:
    screen = Screen(program("tmux"), tmp_path / "tmux")
    yield screen
    screen.close()


async def test_a_chat_streams_stops_and_leaves(
    clone: Path, environ: dict[str, str], server: ModelServer, screen: Screen
) -> None:
    server.reply_text("The first answer.")
    server.reply_text("The second answer.")
    endless = server.reply_text("never seen", hold=anyio.Event())
    screen.start(clone, environ)
    await screen.wait_for("❯")
    screen.say("One please")
    await screen.wait_for("The first answer.")
    screen.say("Another please")
    await screen.wait_for("The second answer.")
    screen.say("Do not end")
    with anyio.fail_after(LIMIT_SECONDS):
        await endless.asked.wait()
    screen.press("C-c")
    await screen.wait_for("Stopped")
    screen.say("/exit")
    shown = await screen.wait_for("made: 0")
    assert "never seen" not in shown
