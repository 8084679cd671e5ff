"""Prompt: the keyboard and the bottom of the screen, by prompt-toolkit.

What is finished is printed above and scrolls away as ordinary output; only the few lines at the
bottom are drawn again: what moves, and what is being typed.
"""

import asyncio
import contextlib
import io
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText, StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    VerticalAlign,
    Window,
)
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from nanobee_terminal.control_chars import clean_text, replace_surrogates

MAX_INPUT_ROWS = 8
MARK = "❯ "
_STYLE = Style.from_dict({"mark": "bold ansicyan"})


class Typist(Protocol):
    """Who is told what the person does at the keyboard. Called on the event loop."""

    def submit(self, text: str) -> bool:
        """A message was typed; False keeps it in the input line."""
        ...

    def interrupt(self) -> None:
        """Ctrl-C with nothing in the input line that it could clear."""
        ...


class Prompt:
    """One input line for the whole chat, with lines above it that are drawn anew."""

    def __init__(self, typist: Typist, *, history_path: Path | None, color: bool) -> None:
        self._typist = typist
        self._moving: AnyFormattedText = ""
        self._moving_rows = 0
        self._output = _create_output()
        self._buffer = Buffer(multiline=True, history=_open_history(history_path))
        self._app: Application[None] = Application(
            layout=self._create_layout(),
            key_bindings=self._create_bindings(),
            style=_STYLE,
            output=self._output,
            color_depth=None if color else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
        )

    @property
    def size(self) -> Size:
        """The terminal's rows and columns now."""
        return self._output.get_size()

    @property
    def moving_rows(self) -> int:
        """How many rows there are for what moves, below at least one row of what is finished."""
        return max(1, self.size.rows - self._input_rows() - 1)

    async def run(self) -> None:
        """Read the keyboard until `leave`, Ctrl-D or the terminal's end."""
        with contextlib.closing(_Above(self.print_above)) as above, contextlib.redirect_stderr(above):
            with contextlib.suppress(EOFError):
                await self._app.run_async(set_exception_handler=False, handle_sigint=False)

    @property
    def is_open(self) -> bool:
        """Whether the keyboard is read."""
        return self._app.is_running and not self._app.is_done

    def leave(self) -> None:
        """End `run`. What was drawn at the bottom is erased."""
        if self.is_open:
            self._app.exit()

    def draw(self, finished: str, moving: str, rows: int) -> None:
        """Print finished lines where they stay, and show what moves, in so many rows, in place of the last of it."""
        self._moving = ANSI(moving)
        self._moving_rows = rows
        if finished:
            self.print_above(finished)
        self._app.invalidate()

    def print_above(self, text: str) -> None:
        """Print finished lines, escape sequences and all."""
        if self._app.is_running:
            self._app.renderer.erase()
        # Not through prompt-toolkit's run_in_terminal: that gives the keyboard back to the tty for
        # the moment, which then echoes what is being typed.
        self._output.write_raw(text.replace("\n", "\r\n"))
        self._output.flush()
        self._app.invalidate()

    def put_back(self, text: str) -> None:
        """Give a message that could not be sent back to the input line, unless more was typed since."""
        if not self._buffer.text:
            self._buffer.insert_text(text)

    def _create_layout(self) -> Layout:
        moving = Window(
            FormattedTextControl(lambda: self._moving),
            height=lambda: Dimension(min=1, preferred=self._moving_rows, max=self._moving_rows),
            dont_extend_height=True,
        )
        typed = Window(
            BufferControl(self._buffer),
            height=lambda: Dimension(min=1, max=min(MAX_INPUT_ROWS, self.size.rows)),
            dont_extend_height=True,
            wrap_lines=True,
            get_line_prefix=_line_prefix,
        )
        has_moving = Condition(lambda: self._moving_rows > 0)
        rows = HSplit([ConditionalContainer(moving, filter=has_moving), typed], align=VerticalAlign.TOP)
        return Layout(rows, focused_element=typed)

    def _input_rows(self) -> int:
        columns = max(1, self.size.columns - len(MARK))
        rows = sum(1 + len(line) * 2 // columns for line in self._buffer.text.split("\n"))
        return min(rows, MAX_INPUT_ROWS)

    def _create_bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        bindings.add("enter")(self._on_enter)
        bindings.add("c-j")(self._on_enter)
        bindings.add("escape", "enter")(self._on_new_line)
        bindings.add("c-c")(self._on_interrupt)
        bindings.add(Keys.SIGINT)(self._on_interrupt)
        bindings.add("c-d", filter=Condition(lambda: not self._buffer.text))(self._on_end)
        bindings.add("c-z")(lambda event: event.app.suspend_to_background())
        return bindings

    def _on_enter(self, event: KeyPressEvent) -> None:
        text = replace_surrogates(self._buffer.text)
        if not text.strip():
            self._buffer.reset()
        elif self._typist.submit(text):
            self._buffer.reset()
            with contextlib.suppress(OSError):  # a full disk costs the history, not the message
                self._buffer.history.append_string(text)
        else:
            event.app.output.bell()

    def _on_new_line(self, event: KeyPressEvent) -> None:
        self._buffer.newline(copy_margin=False)

    def _on_interrupt(self, event: KeyPressEvent) -> None:
        self._typist.interrupt()

    def _on_end(self, event: KeyPressEvent) -> None:
        self.leave()

    def clear_typed(self) -> bool:
        """Empty the input line; False where it was empty."""
        was_typed = bool(self._buffer.text)
        self._buffer.reset()
        return was_typed


def _line_prefix(line: int, wraps: int) -> StyleAndTextTuples:
    return [("class:mark", MARK)] if line == 0 and wraps == 0 else [("", " " * len(MARK))]


def _create_output() -> Output:
    if sys.platform == "win32":
        return create_output(sys.stdout)
    # Without cursor position requests: nothing here needs them, and over a slow line their
    # answers end up as garbage in the input or in the shell.
    return Vt100_Output(sys.stdout, _terminal_size, term=os.environ.get("TERM"), enable_cpr=False)


def _terminal_size() -> Size:
    columns, rows = shutil.get_terminal_size()
    with contextlib.suppress(OSError):
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    return Size(rows=rows or 24, columns=columns or 80)


def _open_history(path: Path | None) -> History:
    if path is None:
        return InMemoryHistory()
    path = path.expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


class _Above(io.TextIOBase):
    """A stderr for the time of the prompt: whole lines, printed above it, from any thread."""

    def __init__(self, print_above: Callable[[str], None]) -> None:
        self._print_above = print_above
        self._loop = asyncio.get_running_loop()
        self._rest = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        if lines:
            self._loop.call_soon_threadsafe(self._print_above, clean_text("\n".join(lines)) + "\n")
        return len(text)

    def close(self) -> None:
        if self._rest:
            self.write("\n")
        super().close()
