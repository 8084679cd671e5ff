"""What is promised is on disk first: an fsync lies before each thing that cannot be taken back."""

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest

from nanobee.bus.holder import holder_pid
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
    """A gateway is asked twice; the first time the model changes one file and writes another."""
    strace, trace = program("strace"), tmp_path / "trace"
    nanobee = install(tmp_path / "home", server, telegram)
    note = nanobee.home / ".nanobee" / "workspace" / "note.txt"
    note.parent.mkdir()
    note.write_text("BEFORE", encoding="utf-8")
    server.reply_calls(("edit_file", {"path": "note.txt", "old_text": "BEFORE", "new_text": "EFFECT"}))
    server.reply_calls(("write_file", {"path": "whole.txt", "content": "OVERWRITTEN"}))
    for answer in ANSWERS:
        server.reply_text(answer)
    ann = telegram.private(ANN)
    with anyio.fail_after(RUN_SECONDS):
        command = [*strace_command(strace, trace), *COMMAND, "gateway"]
        process = await anyio.open_process(command, env=nanobee.environment, stdin=subprocess.DEVNULL)
        for count, question in enumerate(QUESTIONS, 1):
            ann.says(question)
            await telegram.wait_texts(*ANSWERS[:count])
        gateway = holder_pid(nanobee.state)  # not strace, which would leave it running
        assert gateway is not None
        os.kill(gateway, signal.SIGTERM)
        await process.wait()
    assert note.read_text(encoding="utf-8") == "EFFECT"
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


@pytest.mark.parametrize(
    ("tool", "name", "content"), [("edit_file", "note", "EFFECT"), ("write_file", "whole", "OVERWRITTEN")]
)
async def test_an_intent_is_on_disk_before_its_effect_begins(
    calls: SystemCalls, tool: str, name: str, content: str
) -> None:
    asked = calls.find(f"{tool}.*{content}", "recvfrom")
    written = calls.find(f"/workspace/.*{content}", "write", after=asked.ended)
    placed = calls.find(rf"/workspace.*{name}\.txt", "rename", "renameat", "renameat2", after=asked.ended)
    assert stored(calls, "tool_started", asked.ended).ended < min(written.begun, placed.begun)


async def test_an_answer_is_on_disk_before_it_is_sent(calls: SystemCalls) -> None:
    for answer in ANSWERS:
        said = calls.find(answer, "recvfrom")
        sent = calls.find(rf"sendMessage .*{answer}", *SENDS)
        assert stored(calls, answer, said.ended).ended < sent.begun


async def test_a_session_file_is_on_disk_at_the_end(calls: SystemCalls) -> None:
    last = list(calls.all(r"\.jsonl>.*ANSWER-TWO", "write"))[-1]
    calls.find(r"\.jsonl>", *SYNCS, after=last.ended)
