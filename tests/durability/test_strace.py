"""What is promised is on disk first: an fsync lies before each thing that cannot be taken back."""

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest

from nanobee.testing.model_server import ModelServer
from nanobee.testing.telegram_server import TelegramServer
from tests.cli.conftest import COMMAND
from tests.durability.system_calls import SystemCall, SystemCalls, read_trace, strace_command
from tests.gateway.gateway_process import ANN, install

RUN_SECONDS = 90
QUESTIONS = ("QUESTION-ONE", "QUESTION-TWO")
ANSWERS = ("ANSWER-ONE", "ANSWER-TWO")
LOG = r"/bus\.db-wal>"
"""The descriptor of the bus's write-ahead log."""
WRITES = ("pwrite64", "write")
SENDS = ("sendto", "sendmsg", "writev", "write")
SYNCS = ("fsync", "fdatasync")


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as running:
        yield running


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as running:
        yield running


@pytest.fixture
async def calls(
    tmp_path: Path, server: ModelServer, telegram: TelegramServer, program: Callable[[str], str]
) -> SystemCalls:
    """A gateway is asked twice; the first time the model has a file written."""
    strace, trace = program("strace"), tmp_path / "trace"
    nanobee = install(tmp_path / "home", server, telegram)
    server.reply_calls(("write_file", {"path": "note.txt", "content": "EFFECT"}))
    for answer in ANSWERS:
        server.reply_text(answer)
    ann = telegram.private(ANN)
    with anyio.fail_after(RUN_SECONDS):
        command = [*strace_command(strace, trace), *COMMAND, "gateway"]
        process = await anyio.open_process(command, env=nanobee.environment, stdin=subprocess.DEVNULL)
        for count, question in enumerate(QUESTIONS, 1):
            ann.says(question)
            await telegram.wait_texts(*ANSWERS[:count])
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        (gateway,) = map(int, children.read_text(encoding="ascii").split())
        os.kill(gateway, signal.SIGTERM)
        await process.wait()
    assert (nanobee.home / ".nanobee" / "workspace" / "note.txt").read_text(encoding="utf-8") == "EFFECT"
    return read_trace(trace)


def stored(calls: SystemCalls, text: str, after: int) -> SystemCall:
    """The fsync that puts the next row with `text` on disk."""
    written = calls.find(f"{LOG}.*{text}", *WRITES, after=after)
    return calls.find(LOG, *SYNCS, after=written.ended)


async def test_an_update_is_on_disk_before_telegram_is_asked_for_the_ones_after_it(calls: SystemCalls) -> None:
    for question in QUESTIONS:
        received = calls.find(question, "recvfrom")
        update_id = int(received.text.partition("update_id")[2].lstrip('\\": ').split(",")[0])
        asked = calls.find(rf"getUpdates.*offset\D{{1,5}}{update_id + 1}\b", *SENDS)
        assert received.ended < stored(calls, question, received.ended).ended < asked.begun


async def test_an_intent_is_on_disk_before_its_effect_begins(calls: SystemCalls) -> None:
    asked = calls.find(r"write_file.*EFFECT", "recvfrom")
    effect = min(
        calls.find(r"/workspace/[^\"]*note\.txt", "openat", after=asked.ended).begun
        if any(calls.all(r"/workspace/[^\"]*note\.txt.*O_CREAT", "openat"))
        else calls.find(r"note\.txt", "rename", "renameat", "renameat2", after=asked.ended).begun,
        calls.find("EFFECT", "write", after=asked.ended).begun,
    )
    assert stored(calls, "tool_started", asked.ended).ended < effect


async def test_an_answer_is_on_disk_before_it_is_sent(calls: SystemCalls) -> None:
    for answer in ANSWERS:
        said = calls.find(answer, "recvfrom")
        sent = calls.find(rf"sendMessage .*{answer}", *SENDS)
        assert stored(calls, answer, said.ended).ended < sent.begun


async def test_a_session_file_is_on_disk_at_the_end(calls: SystemCalls) -> None:
    last = [call for call in calls.all(r"\.jsonl>.*ANSWER-TWO", "write")][-1]
    assert calls.find(r"\.jsonl>", *SYNCS, after=last.ended)
