"""LivePrinter: one answer on a terminal, drawn while it grows. Imports rich."""

import sys
from collections.abc import Sequence
from contextlib import suppress

import anyio
from rich.console import Console
from rich.live import Live
from rich.segment import SegmentLines

from nanobee.messages import LivePart
from nanobee.phrases import Language
from nanobee_terminal.blocks import open_tail
from nanobee_terminal.control_chars import clean_text
from nanobee_terminal.growth import Growth
from nanobee_terminal.markdown import Line, MarkdownPaper
from nanobee_terminal.status import Status

FRAME_SECONDS = 0.08


class LivePrinter:
    """Prints finished blocks for good; the open block and the status line are drawn anew below."""

    def __init__(self, language: Language, *, color: bool) -> None:
        self._paper = MarkdownPaper(color=color)
        self._console = Console(file=sys.stdout, no_color=not color, highlight=False, markup=False, emoji=False)
        self._live: Live | None = None
        self._status = Status(language)
        self._growth: Growth | None = None

    async def run(self) -> None:
        self._status.begin()
        while True:
            self._draw()
            await anyio.sleep(FRAME_SECONDS)

    def close(self) -> None:
        with suppress(OSError):
            self._print_rest()
            self._erase()

    def grow(self, part: LivePart, text: str) -> None:
        if self._growth is None:
            self._growth = Growth(part.turn)
        self._growth.grow(part.part, clean_text(text), part.activity)

    async def answer(self, text: str, turn: str | None) -> None:
        if self._growth is not None and self._growth.turn == turn:
            self._print_markdown(self._growth.finish(clean_text(text)))
            self._growth = None
        else:
            self._print_markdown([text])

    def note(self, text: str, *, is_end: bool = False) -> None:
        if is_end:
            self._print_rest()
        self._erase()
        with suppress(OSError):  # stderr may be closed; there is nobody left to tell
            sys.stderr.write(clean_text(text).rstrip("\n") + "\n")
            sys.stderr.flush()

    def _print_rest(self) -> None:
        if self._growth is not None:
            self._print_markdown(self._growth.take_rest())
            self._growth = None

    def _erase(self) -> None:
        """Take what moves off the screen; the next frame draws it below what was printed since."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self) -> None:
        lines: list[Line] = []
        activity = None
        if self._growth is not None:
            self._print_markdown(self._growth.take_finished())
            lines = self._paper.draw(open_tail(self._growth.open_text, self._console.height), self._console.width)
            activity = self._growth.activity
        status = self._status.describe(activity, is_writing=bool(lines), is_stopping=False)
        room = max(0, self._console.height - 3)
        lines = [*(lines[-room:] if room else []), [], *self._paper.draw_plain(status, "dim")]
        if self._live is None:
            self._live = Live(console=self._console, transient=True, auto_refresh=False, redirect_stderr=False)
            self._live.start()
        self._live.update(SegmentLines(lines, new_lines=True), refresh=True)

    def _print_markdown(self, pieces: Sequence[str]) -> None:
        for piece in pieces:
            self._console.print(SegmentLines(self._paper.draw(piece, self._console.width), new_lines=True), end="")
