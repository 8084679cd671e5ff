"""LineScreen: a chat on a terminal that obeys no escape sequences, a line at a time."""

import signal
import sys
from collections.abc import Sequence

import anyio

from nanobee.errors import NanobeeError
from nanobee.messages import LivePart, OutboundPart
from nanobee.phrases import Phrase
from nanobee_terminal import phrases
from nanobee_terminal.control_chars import clean_line, clean_text
from nanobee_terminal.exchange import STOP, Exchange
from nanobee_terminal.interrupts import hear_interrupts
from nanobee_terminal.pipes import read_chunk, write_all
from nanobee_terminal.settings import TerminalSettings
from nanobee_terminal.teller import Teller

EXIT = "/exit"
MARK = "> "


class LineScreen:
    """The terminal edits the line that is typed; an answer is printed a paragraph at a time, as it was written."""

    def __init__(self, settings: TerminalSettings, exchange: Exchange) -> None:
        self._settings = settings
        self._exchange = exchange
        self._teller = Teller()
        self._activity: str | None = None
        self._left = anyio.Event()
        self._printing = anyio.Lock()

    async def run(self) -> None:
        await self._note(phrases.LINE_WELCOME, session=self._settings.session)
        async with anyio.create_task_group() as tasks:
            await tasks.start(hear_interrupts, self._interrupt)
            tasks.start_soon(self._read_lines)
            await self._left.wait()
            tasks.cancel_scope.cancel()
        if self._exchange.is_waiting:
            await self._note(phrases.LEFT_EARLY)

    async def show(self, part: OutboundPart) -> None:
        is_stop = part.reply_to is not None and self._exchange.text_of(part.reply_to) == STOP
        self._exchange.settle(part)
        self._activity = None
        rest = self._teller.end() if is_stop else []
        await self._print_pieces([*rest, *self._teller.tell(part)])
        await self._invite("\n")

    async def grow(self, part: LivePart, text: str) -> None:
        pieces = [*self._teller.grow(part, text), *self._teller.take_finished()]
        activity = clean_line(part.activity or "") or None
        is_new = activity is not None and activity != self._activity
        self._activity = activity
        if is_new:
            pieces += self._teller.take_rest()  # the words before a tool call are complete
        await self._print_pieces(pieces)
        if is_new:
            await self._print(f"\n... {activity}\n")

    async def _read_lines(self) -> None:
        await self._invite()
        rest = b""
        while chunk := await read_chunk(sys.stdin.fileno()):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if not await self._take(line.decode("utf-8", "replace")):
                    self._left.set()
                    return
        self._left.set()

    async def _take(self, line: str) -> bool:
        """Say one line; False where it asks to leave."""
        text = line.strip()
        if text == EXIT:
            return False
        if not text:
            await self._invite()
            return True
        try:
            await self._exchange.say(self._exchange.begin(text), text)
        except NanobeeError as error:
            await self._note(phrases.NOT_STORED, reason=clean_line(str(error)))
            await self._invite()
        return True

    async def _interrupt(self, number: signal.Signals) -> None:
        if number is not signal.SIGINT or self._exchange.is_stopping or not self._exchange.is_waiting:
            self._left.set()
            return
        try:
            await self._exchange.say(self._exchange.begin(STOP), STOP)
        except NanobeeError as error:
            await self._note(phrases.NOT_STORED, reason=clean_line(str(error)))

    async def _invite(self, gap: str = "") -> None:
        if not self._exchange.is_waiting:
            await self._print(gap + MARK)

    async def _note(self, phrase: Phrase, **values: object) -> None:
        await self._print(phrase.say(self._settings.language, **values) + "\n")

    async def _print_pieces(self, pieces: Sequence[str]) -> None:
        for piece in pieces:
            if piece.strip():
                await self._print(f"\n{piece}\n")

    async def _print(self, text: str) -> None:
        async with self._printing:
            await write_all(sys.stdout, clean_text(text))
