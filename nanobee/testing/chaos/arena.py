"""Arena: a gateway between fake platforms on loopback, in a temporary state that survives its deaths."""

import tempfile
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio

from nanobee.config import BusyMode
from nanobee.testing.chaos.child import Child
from nanobee.testing.chaos.errors import ChaosError
from nanobee.testing.chaos.history import LAST_LINE
from nanobee.testing.chaos.log import Delivered
from nanobee.testing.chaos.model import ChaosModel
from nanobee.testing.chaos.modes import Mode
from nanobee.testing.chaos.snapshot import BusReader, UnderWay
from nanobee.testing.model_server import ModelServer
from nanobee.testing.telegram_server import TelegramServer

CHANNEL = "telegram"
UP_SECONDS = 30.0
"""How long a start may take."""
LOOK_SECONDS = 0.005
"""Between two looks at something that is waited for."""
DRAIN_SECONDS = 0.01
"""How long the fakes get to read what a dead gateway has still sent."""
_CONFIG = """\
workspace: {folder}/workspace
state: {folder}/state
language: en
timezone: UTC
providers:
  main: {{kind: openai, base_url: "{model}"}}
agent: {{model: main/test-model, busy: {busy}}}
memory: {{max_calls_per_day: 0}}
channels:
  {channel}: {{kind: telegram, token: "{token}", allow_from: ["*"], base_url: "{telegram}", streaming: {streaming}}}
"""


class Arena:
    """The lives of one gateway, and what is around it. Open it with `open_arena`."""

    def __init__(self, folder: Path, telegram: TelegramServer, model: ModelServer, brain: ChaosModel) -> None:
        self.telegram = telegram
        self.model = model
        self.brain = brain
        self.child = Child(folder)
        self.bus = BusReader(folder / "state", CHANNEL)
        self.life = 0
        """Counts the starts."""
        self.is_up = False
        """The gateway has asked for messages since it was started."""
        self._folder = folder
        self._config: Path | None = None
        self._borders: list[int] = []
        self._is_armed = False

    # Lives

    async def start(self, mode: Mode, checkpoint: str | None = None) -> None:
        """Begin a life; it is up when `is_up` says so."""
        await anyio.sleep(DRAIN_SECONDS)
        self._borders.append(self._last_message_id())
        self.life += 1
        self.is_up = False
        self.telegram.calls.clear()
        self._config = self._write_config(mode)
        self._is_armed = checkpoint is not None
        await self.child.start(self._config, checkpoint)

    async def prepare(self, mode: Mode) -> None:
        """See to it that a life is up that nothing but a signal ends."""
        fits = self._config == self._config_of(mode) and not self._is_armed
        if self.child.has_ended or not fits:
            await self.child.stop()
            await self.start(mode)
            await self.wait_up()

    async def wait_up(self) -> None:
        """Wait until the gateway asks for messages, or has died.

        Raises:
            ChaosError: it does not come up.
        """
        if not await self.until(lambda: self.polls() or self.child.has_ended, UP_SECONDS):
            raise ChaosError(f"the gateway did not come up within {UP_SECONDS:.0f} s\n{self.child.log_tail()}")
        self.is_up = not self.child.has_ended
        if not (self.is_up or self._is_armed):
            raise self.child.fail()

    async def kill(self, chats: Collection[int]) -> UnderWay:
        """End a life, if it has not ended itself; tell what of these chats was under way."""
        await self.child.kill()
        self.is_up = False
        return self.bus.at_death(chats)

    def check_alive(self) -> None:
        """Nothing but us may have ended this life.

        Raises:
            ChaosError: something did.
        """
        if self.child.has_ended:
            raise self.child.fail()

    # Looking

    @staticmethod
    async def until(condition: Callable[[], object], seconds: float) -> bool:
        """Wait until something holds, for so long at most; tell whether it did.

        It looks again and again, since processes and files tell nobody when they change.
        """
        with anyio.move_on_after(seconds):
            while True:
                if condition():
                    return True
                await anyio.sleep(LOOK_SECONDS)
        return False

    def polls(self) -> int:
        """How often this life has asked for messages."""
        return sum(call.method == "getUpdates" for call in self.telegram.calls)

    def calls(self) -> int:
        """What the gateway has asked the fakes for, in this life's calls and this round's completions."""
        return len(self.telegram.calls) + len(self.model.requests)

    def delivered(self, chat_id: int) -> list[Delivered]:
        """What the bot's messages in a chat are now, in their order."""
        return [
            Delivered(chat_id, message_id, str(message["text"]), _reply_to(message), self._life_of(message_id))
            for message_id, message in sorted(self.telegram.chats[chat_id].messages.items())
            if message.get("from") == self.telegram.bot
        ]

    def create_files(self, names: Collection[str]) -> None:
        """What the tools edit."""
        for name in names:
            self._file(name).write_text(f"{LAST_LINE}\n", encoding="utf-8")

    def read_file(self, name: str) -> str:
        """What the tools have made of it."""
        return self._file(name).read_text(encoding="utf-8")

    def _file(self, name: str) -> Path:
        return self._folder / "workspace" / f"{name}.txt"

    def _life_of(self, message_id: int) -> int:
        return bisect_left(self._borders, message_id)

    def _last_message_id(self) -> int:
        return max((next(reversed(chat.messages)) for chat in self.telegram.chats.values() if chat.messages), default=0)

    # Configuration

    def _config_of(self, mode: Mode) -> Path:
        return self._folder / f"{mode if mode in (Mode.STEERED, Mode.STREAMED) else 'config'}.yaml"

    def _write_config(self, mode: Mode) -> Path:
        config = self._config_of(mode)
        if not config.exists():
            text = _CONFIG.format(
                folder=self._folder,
                model=self.model.base_url,
                busy=BusyMode.STEER if mode is Mode.STEERED else BusyMode.QUEUE,
                channel=CHANNEL,
                token=self.telegram.token,
                telegram=self.telegram.base_url,
                streaming="edit" if mode is Mode.STREAMED else "auto",
            )
            config.touch(mode=0o600)
            config.write_text(text, encoding="utf-8")
        return config


def _reply_to(message: object) -> int | None:
    quoted = message.get("reply_to_message") if isinstance(message, dict) else None
    return quoted["message_id"] if isinstance(quoted, dict) else None


@asynccontextmanager
async def open_arena(seed: int, folder: Path | None = None) -> AsyncIterator[Arena]:
    """An arena in `folder`, which stays, or in a temporary one."""
    brain = ChaosModel(seed)
    with _open_folder(folder) as path:
        async with ModelServer(fail_on_violation=False) as model, TelegramServer() as telegram:
            model.reply_built(brain.build)
            arena = Arena(path, telegram, model, brain)
            try:
                yield arena
            finally:
                with anyio.CancelScope(shield=True):
                    await arena.child.kill()


@contextmanager
def _open_folder(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="nanobee-chaos-") as temporary:
        yield Path(temporary)
