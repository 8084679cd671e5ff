"""What is on disk before what, read from the system calls of a real gateway."""

import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest

from nanobee.testing.model_server import ModelServer
from nanobee.testing.telegram_server import TOKEN, TelegramServer
from tests.cli.conftest import COMMAND, Nanobee, provider

LIMIT_SECONDS = 90
"""strace slows a process down several times."""
CALLS = "trace=fsync,fdatasync,recvfrom,sendto,writev,sendmsg,rename,renameat,renameat2,link,linkat"
SYNC = r"\bf(data)?sync\("


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer() as running:
        yield running


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as running:
        yield running


class Trace:
    """The system calls of all threads, in the order in which they ended."""

    def __init__(self, text: str) -> None:
        self.calls = text.splitlines()

    def find(self, pattern: str, after: int = -1) -> int:
        """The first call that matches, behind another one."""
        for place in range(after + 1, len(self.calls)):
            if re.search(pattern, self.calls[place]):
                return place
        raise AssertionError(f"no call after {after} matches {pattern}")

    def syncs_between(self, first: int, last: int) -> int:
        """How often something was put on disk between two calls."""
        return sum(1 for call in self.calls[first + 1 : last] if re.search(SYNC, call) and "= 0" in call)


async def traced(nanobee: Nanobee, strace: str, file: Path, until: Callable[[], AsyncIterator[None]]) -> None:
    command = [strace, "-f", "-qq", "-s", "1500", "-e", CALLS, "-o", str(file), *COMMAND, "gateway"]
    async with await anyio.open_process(command, env=nanobee.environment, stdin=-3) as process:
        async for _ in until():
            pass
        # Not to strace, which would leave the gateway running.
        os.kill(int((nanobee.state / "holder.pid").read_text()), signal.SIGTERM)
        await process.wait()


async def test_nothing_is_told_or_done_before_what_allows_it_is_on_disk(
    tmp_path: Path, program: Callable[[str], str], model: ModelServer, telegram: TelegramServer
) -> None:
    strace = program("strace")
    home = tmp_path / "home"
    home.mkdir()
    nanobee = Nanobee(home)
    nanobee.configure(
        f"{provider(model)}channels: {{telegram: {{kind: telegram, token: '{TOKEN}', allow_from: ['*'],"
        f" base_url: '{telegram.base_url}'}}}}\n"
    )
    model.reply_calls(("write_file", {"path": "effect.txt", "content": "EFFECT"}))
    model.reply_text("THE-ANSWER")
    ann = telegram.private(1001)

    async def until() -> AsyncIterator[None]:
        await telegram.wait_asked("getUpdates")
        ann.says("THE-QUESTION")
        await telegram.wait_for("sendMessage")
        yield

    with anyio.fail_after(LIMIT_SECONDS):
        await traced(nanobee, strace, tmp_path / "trace", until)
    trace = Trace((tmp_path / "trace").read_text(errors="replace"))
    [update] = [call for call in telegram.named("getUpdates") if call.parameters.get("offset")][:1]

    received = trace.find(r"recv.*THE-QUESTION")
    acknowledged = trace.find(rf"(send|write).*offset={update.parameters['offset']}\b", received)
    assert trace.syncs_between(received, acknowledged) >= 1, "between receive and the moved offset"

    called = trace.find(r"recv.*effect\.txt", received)
    effect = trace.find(r"(rename|link).*effect\.txt", called)
    assert trace.syncs_between(called, effect) >= 1, "between the intent and its effect"

    answered = trace.find(r"recv.*THE-ANSWER", effect)
    sent = trace.find(r"(send|write).*THE-ANSWER", answered)
    assert trace.syncs_between(answered, sent) >= 1, "between finish and send"
