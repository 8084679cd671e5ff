"""The channel contract, on a pseudo-terminal that obeys no escape sequences."""

import os
import re
import sys
import termios
import tty
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TextIO
from unittest.mock import patch

import anyio

from nanobee.channel import Channel
from nanobee.messages import Address
from nanobee.testing.channel_contract import ChannelHarness, ReceivingContract, SendingContract
from nanobee_terminal import TerminalChannel, TerminalSettings

QUIET_SECONDS = 0.1
"""A terminal hands output on a moment after it was written; when none comes for so long, all is here."""


class TerminalHarness(ChannelHarness):
    """The person's side of the terminal."""

    def __init__(self, main: int) -> None:
        self._main = main
        self._channel = TerminalChannel("terminal", TerminalSettings())
        self._output = b""
        self._more = anyio.Event()

    @property
    def channel(self) -> Channel[Any]:
        return self._channel

    @property
    def address(self) -> Address:
        return Address("terminal", "main")

    async def say(self, text: str, *, sender: str = "local") -> None:
        os.write(self._main, text.encode() + b"\n")

    async def visible(self) -> Sequence[str]:
        is_quiet = False
        while not is_quiet:
            self._more = anyio.Event()
            with anyio.move_on_after(QUIET_SECONDS) as waiting:
                await self._more.wait()
            is_quiet = waiting.cancelled_caught
        chunks = re.split(r"> |nanobee - .*\n", self._output.decode())
        return [chunk.strip("\n") for chunk in chunks if chunk.strip()]

    async def read(self) -> None:
        """Take what is written, as a window does."""
        while True:
            await anyio.wait_readable(self._main)
            self._output += os.read(self._main, 65_536)
            self._more.set()


class TestTerminalContract(ReceivingContract, SendingContract):
    package = "nanobee_terminal"
    sdks = ("rich", "prompt_toolkit")

    @asynccontextmanager
    async def open_harness(self) -> AsyncIterator[ChannelHarness]:
        main, side = os.openpty()
        tty.setcbreak(side, termios.TCSANOW)  # no echo, so that only what the channel writes is seen
        _keep_newlines(side)
        with open_text(side, "r") as stdin, open_text(side, "w") as stdout:
            streams = patch.multiple(sys, stdin=stdin, stdout=stdout)
            with streams, patch.dict(os.environ, TERM="dumb"):
                async with anyio.create_task_group() as tasks:
                    harness = TerminalHarness(main)
                    tasks.start_soon(harness.read)
                    yield harness
                    tasks.cancel_scope.cancel()
        os.close(side)
        os.close(main)


def open_text(descriptor: int, mode: str) -> TextIO:
    return os.fdopen(os.dup(descriptor), mode, encoding="utf-8")  # type: ignore[return-value]


def _keep_newlines(descriptor: int) -> None:
    attributes = termios.tcgetattr(descriptor)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(descriptor, termios.TCSANOW, attributes)
