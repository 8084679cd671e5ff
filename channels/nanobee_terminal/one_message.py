"""OneMessageScreen: say one message, print its answer, and be done."""

import signal
import sys
from typing import Protocol

import anyio

from nanobee.channel import command_of
from nanobee.errors import ChannelError, NanobeeError
from nanobee.messages import LivePart, OutboundPart, PartKind
from nanobee.phrases import Phrase
from nanobee_terminal import phrases
from nanobee_terminal.exchange import STOP, Exchange
from nanobee_terminal.interrupts import hear_interrupts
from nanobee_terminal.pipes import MAX_INPUT_BYTES, InputTooLongError, discard, read_all
from nanobee_terminal.settings import TerminalSettings


class Printer(Protocol):
    """Where the answer and what is said beside it are printed."""

    async def run(self) -> None:
        """Draw what moves, until cancelled."""
        ...

    def close(self) -> None:
        """Put the terminal back."""
        ...

    def grow(self, part: LivePart, text: str) -> None:
        """Take the whole text so far of the answer."""
        ...

    async def answer(self, part: OutboundPart) -> None:
        """Print one part of the answer. Raises BrokenPipeError where nobody reads it."""
        ...

    def note(self, text: str, *, is_end: bool = False) -> None:
        """Print what is no answer; it may be what the turn ended in."""
        ...


class OneMessageScreen:
    """The message comes from the settings or from stdin, which is then read to its end.

    Anything but an answer ends in a ChannelError, so that a script sees it by the exit code.
    """

    def __init__(self, settings: TerminalSettings, exchange: Exchange, printer: Printer) -> None:
        self._settings = settings
        self._exchange = exchange
        self._printer = printer
        self._text: str | None = None
        self._source_id: str | None = None
        self._turn: str | None = None
        self._failure: NanobeeError | None = None
        self._done = anyio.Event()

    async def run(self) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                await tasks.start(hear_interrupts, self._interrupt)
                tasks.start_soon(self._converse)
                await self._done.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._printer.close()
        if self._failure is not None:
            raise self._failure

    async def show(self, part: OutboundPart) -> None:
        is_end = self._exchange.settle(part) and not self._exchange.waits_for(self._source_id)
        is_answer = self._is_answer(part)
        if is_answer:
            await self._print_answer(part)
        else:
            self._printer.note(part.text, is_end=is_end)
        if is_end:
            phrase = phrases.ASKED if part.kind is PartKind.QUESTION else phrases.NO_ANSWER
            self._finish(None if is_answer else ChannelError(self._say(phrase)))

    async def grow(self, part: LivePart, text: str) -> None:
        if self._source_id is None or part.reply_to != self._source_id:
            return
        self._turn = part.turn
        self._printer.grow(part, text)

    async def _converse(self) -> None:
        try:
            self._text = await self._read_text()
            self._source_id = self._exchange.begin(self._text)
            await self._exchange.say(self._source_id, self._text)
        except NanobeeError as error:
            self._finish(error)
            return
        await self._printer.run()

    async def _read_text(self) -> str:
        if self._settings.message is not None:
            text = self._settings.message
        else:
            if sys.stdin.isatty():
                self._printer.note(self._say(phrases.TYPE_HINT))
            try:
                text = (await read_all(sys.stdin)).rstrip("\n")
            except InputTooLongError:
                raise ChannelError(self._say(phrases.LONG_INPUT, limit=MAX_INPUT_BYTES)) from None
        if not text.strip():
            raise ChannelError(self._say(phrases.EMPTY_INPUT))
        return text

    async def _print_answer(self, part: OutboundPart) -> None:
        try:
            await self._printer.answer(part)
        except BrokenPipeError:
            # The reader has seen enough (`| head`): no failure, and nothing more to print.
            discard(sys.stdout)
            self._finish(None)

    def _is_answer(self, part: OutboundPart) -> bool:
        """Whether the part is what was asked for: the agent's words, or a command's output."""
        if self._source_id is None or self._text is None:
            return False
        is_reply = part.reply_to == self._source_id
        if part.kind is PartKind.MESSAGE:
            return is_reply or (part.turn is not None and self._turn in (None, part.turn))
        if part.kind is PartKind.NOTICE:
            return is_reply and command_of(self._text) is not None
        return is_reply and part.kind is PartKind.ANSWER

    async def _interrupt(self, number: signal.Signals) -> None:
        """The first Ctrl-C stops the turn; the second, or one before anything was said, leaves."""
        if self._source_id is None:
            self._finish(ChannelError(self._say(phrases.INTERRUPTED)))
        elif number is not signal.SIGINT or self._exchange.is_stopping:
            self._finish(ChannelError(self._say(phrases.LEFT_EARLY)))
        else:
            try:
                await self._exchange.say(self._exchange.begin(STOP), STOP)
            except NanobeeError as error:
                self._finish(error)

    def _finish(self, failure: NanobeeError | None) -> None:
        if not self._done.is_set():
            self._failure = failure
            self._done.set()

    def _say(self, phrase: Phrase, **values: object) -> str:
        return phrase.say(self._settings.language, **values)
