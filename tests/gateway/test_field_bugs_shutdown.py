"""Field bug O-36, shutdown and restart lose messages: a real process, ended in each way while a turn runs."""

import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nanobee.bus.lines import Line
from nanobee.bus.overview import read_overview
from nanobee.gateway import SEND_SECONDS, TURN_SECONDS
from nanobee.sessions.files import SessionFiles
from nanobee.testing.model_server import ModelServer
from nanobee.testing.strict_history import StrictHistory
from nanobee.testing.telegram_server import TelegramServer
from tests.cli.conftest import Nanobee
from tests.gateway.gateway_process import ANN, BOB, GatewayProcess, install, start
from tests.gateway.test_turns import last_user

PROCESS_SECONDS = 60
WORDS = ("first", "second", "third", "other", "late")


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as running:
        yield running


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    # A killed client leaves its request half answered, and the same one comes again.
    async with ModelServer(history=StrictHistory(alternate=True)) as running:
        yield running


@pytest.fixture
def nanobee(tmp_path: Path, server: ModelServer, telegram: TelegramServer) -> Nanobee:
    return install(tmp_path / "home", server, telegram)


class Scene:
    """A turn of Ann's runs, two follow-ups of hers wait, and Bob's turn runs."""

    def __init__(self, server: ModelServer, telegram: TelegramServer) -> None:
        self.may_answer = anyio.Event()
        self.server = server
        self.telegram = telegram
        self.ann, self.bob = telegram.private(ANN), telegram.private(BOB)
        for word in WORDS:
            self._answer(word)

    def _answer(self, word: str) -> None:
        self.server.reply_text(
            f"re {word}", when=lambda body: last_user(body).endswith(word), times=None, hold=self.may_answer
        )

    async def play(self, gateway: GatewayProcess) -> None:
        for word in ("first", "second", "third"):
            self.ann.says(word)
        self.bob.says("other")
        await self.server.wait_requests(2)
        await self.telegram.wait_acknowledged(4)

    async def check_all_are_answered(self) -> None:
        """Each message has its one answer, in its chat's order, and both sessions are whole."""
        await self.telegram.wait_texts("re first", "re second", "re third", "re late", chat_id=ANN)
        await self.telegram.wait_texts("re other", chat_id=BOB)

    @staticmethod
    def check_files(state: Path) -> None:
        """The session files hold each message once, without a gap."""
        said: Counter[object] = Counter()
        for chat in (ANN, BOB):
            lines = list(SessionFiles(state).read_backwards(f"telegram:{chat}"))[::-1]
            assert [line.seq for line in lines] == list(range(1, len(lines) + 1))
            said.update(line.data["content"] for line in lines if is_of(line, "user"))
        assert said == Counter(WORDS)
        overview = read_overview(state)
        assert (overview.inbox, overview.outbox.get("sent")) == ({"done": 5}, 5)


def is_of(line: Line, role: str) -> bool:
    return line.kind == "message" and line.data.get("role") == role


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_o36_a_signal_lets_the_turns_end_and_the_next_start_goes_on_with_the_rest(
    nanobee: Nanobee, server: ModelServer, telegram: TelegramServer, number: signal.Signals
) -> None:
    scene = Scene(server, telegram)
    with anyio.fail_after(PROCESS_SECONDS):
        gateway = await start(nanobee)
        await scene.play(gateway)
        gateway.process.send_signal(number)
        await gateway.wait_logged(f"{number.name}: stopping")
        scene.ann.says("late")
        scene.may_answer.set()
        with anyio.fail_after(TURN_SECONDS + SEND_SECONDS):
            assert await gateway.wait() == 0
        assert [message["text"] for message in telegram.sent()] in (["re first", "re other"], ["re other", "re first"])
        assert len(telegram.updates.acknowledged) == 4, "what came while it stopped stays with Telegram"
        gateway = await start(nanobee)
        await scene.check_all_are_answered()
        assert await gateway.end() == 0
    scene.check_files(nanobee.state)


async def test_o36_a_turn_that_does_not_end_does_not_hold_up_the_stop_and_is_done_by_the_next_start(
    nanobee: Nanobee, server: ModelServer, telegram: TelegramServer
) -> None:
    scene = Scene(server, telegram)
    with anyio.fail_after(PROCESS_SECONDS):
        gateway = await start(nanobee)
        await scene.play(gateway)
        scene.ann.says("late")
        await telegram.wait_acknowledged(5)
        with anyio.fail_after(TURN_SECONDS + SEND_SECONDS):
            assert await gateway.end() == 0
        assert telegram.sent() == []
        gateway = await start(nanobee)
        scene.may_answer.set()
        await scene.check_all_are_answered()
        assert await gateway.end() == 0
    scene.check_files(nanobee.state)


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM twice"])
async def test_o36_an_end_at_once_loses_nothing_and_repeats_nothing(
    nanobee: Nanobee, server: ModelServer, telegram: TelegramServer, how: str
) -> None:
    scene = Scene(server, telegram)
    with anyio.fail_after(PROCESS_SECONDS):
        gateway = await start(nanobee)
        await scene.play(gateway)
        if how == "SIGKILL":
            await gateway.kill()
        else:
            gateway.process.terminate()
            await gateway.wait_logged("SIGTERM: stopping")
            assert await gateway.end() == 128 + signal.SIGTERM
        scene.ann.says("late")
        gateway = await start(nanobee)
        scene.may_answer.set()
        await scene.check_all_are_answered()
        assert await gateway.end() == 0
    scene.check_files(nanobee.state)


async def test_o36_an_answer_that_was_ready_when_the_process_died_is_sent_by_the_next_one(
    nanobee: Nanobee, server: ModelServer, telegram: TelegramServer
) -> None:
    scene = Scene(server, telegram)
    telegram.faults.fail("sendMessage", 500, "Internal Server Error", times=-1)
    scene.may_answer.set()
    with anyio.fail_after(PROCESS_SECONDS):
        gateway = await start(nanobee)
        scene.ann.says("first")
        await telegram.wait_for("sendMessage", 1, status=500)
        await gateway.kill()
        telegram.faults.heal()
        gateway = await start(nanobee)
        await telegram.wait_texts("re first", chat_id=ANN)
        assert await gateway.end() == 0
    assert len(server.requests) == 1, "the model is not asked again"
