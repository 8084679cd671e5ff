"""PromptScreen: a chat at the keyboard, with answers that grow while one goes on typing."""

import os
import signal
from collections.abc import Iterable
from datetime import datetime

import anyio

from nanobee.channel import Lane, lane_of
from nanobee.errors import NanobeeError
from nanobee.messages import LivePart, OutboundPart, PartKind
from nanobee.phrases import Phrase
from nanobee_terminal import phrases
from nanobee_terminal.blocks import open_tail
from nanobee_terminal.control_chars import clean_line, clean_text
from nanobee_terminal.exchange import STOP, Exchange
from nanobee_terminal.interrupts import hear_interrupts
from nanobee_terminal.markdown import Line, MarkdownPaper
from nanobee_terminal.modes import has_color
from nanobee_terminal.prompt import MARK, Prompt
from nanobee_terminal.settings import TerminalSettings
from nanobee_terminal.status import Status
from nanobee_terminal.teller import Teller

EXIT = "/exit"
FRAME_SECONDS = 0.08
"""How often what moves is drawn anew."""
MAX_UNSENT = 256
"""Messages that wait to be stored; more are refused at the keyboard."""
STORE_SECONDS = 5.0
"""How long leaving waits for the last messages to be stored."""
MAX_QUEUED_ROWS = 3


class PromptScreen:
    """Prints finished blocks for good and draws the rest at the bottom, above what is being typed.

    A message that is typed while a turn runs is shown as waiting, and moves up into the chat when
    its own turn begins, so that the chat reads in order.
    """

    def __init__(self, settings: TerminalSettings, exchange: Exchange) -> None:
        color = has_color(settings, os.environ)
        self._settings = settings
        self._exchange = exchange
        self._paper = MarkdownPaper(color=color)
        self._prompt = Prompt(self, history_path=settings.history_path, color=color)
        self._status = Status(settings.language)
        self._teller = Teller()
        self._finished: list[Line] = []
        """To be printed with the next frame."""
        self._queued: dict[str, str] = {}
        """Typed while a turn ran: not yet part of the chat above."""
        self._unsent, self._to_send = anyio.create_memory_object_stream[tuple[str, str]](MAX_UNSENT + 1)
        self._all_sent = anyio.Event()
        self._changed = anyio.Event()

    # What the channel asks for

    async def run(self) -> None:
        self._note(phrases.WELCOME, session=self._settings.session)
        with self._unsent, self._to_send:
            async with anyio.create_task_group() as tasks:
                await tasks.start(hear_interrupts, self._on_signal)
                tasks.start_soon(self._send_typed)
                tasks.start_soon(self._draw_changes)
                await self._prompt.run()
                self._unsent.close()
                with anyio.move_on_after(STORE_SECONDS):
                    await self._all_sent.wait()
                tasks.cancel_scope.cancel()
        self._take_leave()
        self._draw()

    async def show(self, part: OutboundPart) -> None:
        is_stop = part.reply_to is not None and self._exchange.text_of(part.reply_to) == STOP
        is_asked = self._exchange.is_waiting or self._teller.follows(part.turn) or part.kind is PartKind.NOTICE
        self._exchange.settle(part)
        if is_stop:
            self._print_markdown(self._teller.end())
            self._move_up_all()
        self._move_up_through(part.reply_to)
        if not is_asked:
            self._note(phrases.UNASKED, time=f"{datetime.now():%H:%M}")
        *pieces, last = [*self._teller.tell(part)] or [""]
        self._print_markdown(pieces)
        if part.kind is PartKind.NOTICE:
            self._finished += [[], *self._paper.draw_plain(last, "dim")]
        else:
            self._print_markdown([last])
        self._go_on()
        self._draw()  # at once: when this returns, the part counts as sent

    async def grow(self, part: LivePart, text: str) -> None:
        if part.reply_to in self._queued:  # its turn begins, or a running turn takes it in
            self._print_markdown(self._teller.take_rest())
            self._move_up_through(part.reply_to)
        self._print_markdown(self._teller.grow(part, text))
        if self._is_working:
            self._status.begin()
        self._changed.set()

    # What the prompt tells

    def submit(self, text: str) -> bool:
        if text.strip() == EXIT:
            self._prompt.leave()
            return True
        if self._unsent.statistics().current_buffer_used >= MAX_UNSENT:
            self._note(phrases.BUSY_INPUT)
            self._draw()
            return False
        must_wait = self._is_working and lane_of(text) is not Lane.CONTROL
        source_id = self._exchange.begin(text)
        if must_wait:
            self._queued[source_id] = text
        else:
            self._print_typed(text)
        self._unsent.send_nowait((source_id, text))
        self._status.begin()
        self._draw()
        self._changed.set()
        return True

    def interrupt(self) -> None:
        """Stop what runs; clear the input line; leave: the first of these that there is to do."""
        if self._exchange.is_stopping:
            self._prompt.leave()
        elif self._is_working:
            self._unsent.send_nowait((self._exchange.begin(STOP), STOP))  # there is room: one /stop at a time
            self._changed.set()
        elif not self._prompt.clear_typed():
            self._prompt.leave()

    async def _on_signal(self, number: signal.Signals) -> None:
        if number is signal.SIGINT and self._prompt.is_open:
            self.interrupt()
        else:
            self._prompt.leave()

    @property
    def _is_working(self) -> bool:
        return self._exchange.is_waiting or self._teller.growth is not None

    async def _send_typed(self) -> None:
        async for source_id, text in self._to_send:
            try:
                await self._exchange.say(source_id, text)
            except NanobeeError as error:
                self._queued.pop(source_id, None)
                self._note(phrases.NOT_STORED, reason=clean_line(str(error)))
                self._prompt.put_back(text)
                self._go_on()
        self._all_sent.set()

    # Printing for good

    def _print_markdown(self, pieces: Iterable[str]) -> None:
        for piece in pieces:
            self._finished += self._paper.draw(piece, self._prompt.size.columns)

    def _print_typed(self, text: str) -> None:
        self._finished += [[], *self._paper.draw_plain(_with_mark(text), "bold")]

    def _note(self, phrase: Phrase, **values: object) -> None:
        self._finished += [[], *self._paper.draw_plain(phrase.say(self._settings.language, **values), "dim")]

    def _move_up_through(self, source_id: str | None) -> None:
        """Make queued messages part of the chat, up to this one: its turn begins."""
        while source_id in self._queued:
            first = next(iter(self._queued))
            self._print_typed(self._queued.pop(first))

    def _move_up_all(self) -> None:
        while self._queued:
            self._move_up_through(next(iter(self._queued)))

    def _go_on(self) -> None:
        """After a reply: what waits next is begun, or nothing is done any more."""
        if self._teller.growth is None:
            self._status.end()
            if self._exchange.is_waiting:
                self._move_up_through(self._exchange.next_waiting)
                self._status.begin()
            else:
                self._move_up_all()
        self._changed.set()

    def _take_leave(self) -> None:
        is_left_early = self._is_working
        self._print_markdown(self._teller.end())
        self._move_up_all()
        if is_left_early:
            self._note(phrases.LEFT_EARLY)

    # Drawing what moves

    async def _draw_changes(self) -> None:
        while True:
            self._changed = anyio.Event()
            self._draw()
            await anyio.sleep(FRAME_SECONDS)
            if not self._is_working:
                await self._changed.wait()

    def _draw(self) -> None:
        """One frame: what is finished goes up for good, what moves is drawn below it."""
        columns, rows = self._prompt.size.columns, self._prompt.moving_rows
        self._print_markdown(self._teller.take_finished())
        growing = self._paper.draw(open_tail(self._teller.open_text, rows), columns)
        below = self._draw_below()
        room = rows - len(below)
        moving = [*growing[-room:], *below] if room > 0 else below[-rows:]
        finished, self._finished = self._finished, []
        self._prompt.draw(self._paper.encode(finished), self._paper.encode(moving).rstrip("\n"), len(moving))

    def _draw_below(self) -> list[Line]:
        if not self._is_working:
            return [[]]
        status = self._status.describe(
            self._teller.activity,
            is_writing=bool(self._teller.open_text),
            is_stopping=self._exchange.is_stopping,
        )
        waits = phrases.QUEUED.say(self._settings.language)
        queued = [f"{MARK}{clean_line(text)} · {waits}" for text in self._queued.values()]
        if len(queued) > MAX_QUEUED_ROWS:
            queued = [*queued[: MAX_QUEUED_ROWS - 1], f"… {len(queued) - MAX_QUEUED_ROWS + 1} · {waits}"]
        return [[], *self._paper.draw_plain("\n".join([status, *queued]), "dim")]


def _with_mark(text: str) -> str:
    """A typed message as it stands in the chat: its lines under each other, right of the mark."""
    return MARK + clean_text(text).strip("\n").replace("\n", "\n" + " " * len(MARK))
