"""A real gateway killed at named points: what the next start makes of a step that asked questions."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from nanobee.testing.model_server import ModelServer
from nanobee.testing.telegram_server import TelegramServer
from tests.cli.conftest import Nanobee
from tests.gateway.gateway_process import ANN, install, start

PROCESS_SECONDS = 60


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as running:
        yield running


@pytest.fixture
def nanobee(tmp_path: Path, server: ModelServer, telegram: TelegramServer) -> Nanobee:
    return install(tmp_path / "home", server, telegram)


@pytest.mark.parametrize(
    "checkpoint",
    [
        "record.stored:1",
        "record.committed:1",
        "record.stored:2",
        "record.committed:2",
        "suspend.stored:1",
        "suspend.committed:1",
    ],
)
async def test_all_questions_of_a_step_are_asked_whenever_the_process_dies(
    nanobee: Nanobee, server: ModelServer, telegram: TelegramServer, checkpoint: str
) -> None:
    asks = [("ask_user", {"question": question, "choices": ["yes", "no"]}) for question in ("First?", "Second?")]
    server.reply_calls(*asks, when=lambda body: body["messages"][-1]["role"] == "user", times=None)
    server.reply_text("done", times=None)
    ann = telegram.private(ANN)
    ann.says("go")
    with anyio.fail_after(PROCESS_SECONDS):
        gateway = await start(replace(nanobee, variables={"NANOBEE_CHECKPOINT": checkpoint}))
        assert await gateway.wait() == -9
        gateway = await start(nanobee)
        await telegram.wait_for("sendMessage", 2)
        texts = [str(message["text"]) for message in telegram.sent()]
        assert [text.partition("\n")[0] for text in texts] == ["First?", "Second?"]
        for text in texts:
            (suspension,) = re.findall(r"#(\w+):", text)
            ann.says(f"/answer {suspension} yes")
        await telegram.wait_for("sendMessage", 5)
        assert [message["text"] for message in telegram.sent()][2:] in (
            ["Noted. 1 more question(s) wait.", "Noted.", "done"],
            ["Noted. 1 more question(s) wait.", "done", "Noted."],
        )
        assert await gateway.end() == 0
