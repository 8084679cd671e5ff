"""LivePrinter: one answer on a terminal, drawn while it grows. Imports rich."""

import sys
from collections.abc import Sequence
from contextlib import suppress

import anyio
from rich.console import Console
from rich.live import Live
from rich.segment import SegmentLines

from nanobee.messages import LivePart, OutboundPart
from nanobee.phrases import Language
from nanobee_terminal.blocks import open_tail
from nanobee_terminal.control_chars import clean_text
from nanobee_terminal.markdown import MarkdownPaper
from nanobee_terminal.status import Status
from nanobee_terminal.teller import Teller

FRAME_SECONDS = 0.08


class LivePrinter:
    """Prints finished blocks for good; the open block and the status line are drawn anew below."""

    def __init__(self, language: Language, *, color: bool) -> None:
        self._paper = MarkdownPaper(color=color)
        self._console = Console(file=sys.stdout, no_color=not color, highlight=False, markup=False, emoji=False)
        self._live: Live | None = None
        self._status = Status(language)
        self._teller = Teller()

    async def run(self) -> None:
        self._status.begin()
        while True:
            self._draw()
            await anyio.sleep(FRAME_SECONDS)

    def close(self) -> None:
        with suppress(OSError):
            self._print_markdown(self._teller.end())
            self._erase()

    def grow(self, part: LivePart, text: str) -> None:
        self._print_markdown(self._teller.grow(part, text))

    async def answer(self, part: OutboundPart) -> None:
        self._print_markdown(self._teller.tell(part))

    def note(self, text: str, *, is_end: bool = False) -> None:
        if is_end:
            self._print_markdown(self._teller.end())
        self._erase()
        with suppress(OSError):  # stderr may be closed; there is nobody left to tell
            sys.stderr.write(clean_text(text).rstrip("\n") + "\n")
            sys.stderr.flush()

    def _erase(self) -> None:
        """Take what moves off the screen; the next frame draws it below what was printed since."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self) -> None:
        self._print_markdown(self._teller.take_finished())
        lines = self._paper.draw(open_tail(self._teller.open_text, self._console.height), self._console.width)
        status = self._status.describe(self._teller.activity, is_writing=bool(lines), is_stopping=False)
        room = max(0, self._console.height - 3)
        lines = [*(lines[-room:] if room else []), [], *self._paper.draw_plain(status, "dim")]
        if self._live is None:
            self._live = Live(
                console=self._console, transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
        self._live.update(SegmentLines(lines, new_lines=True), refresh=True)

    def _print_markdown(self, pieces: Sequence[str]) -> None:
        for piece in pieces:
            self._console.print(SegmentLines(self._paper.draw(piece, self._console.width), new_lines=True), end="")
