"""TerminalChannel: the person at this machine, as a channel like any other."""

from typing import ClassVar

import anyio

from nanobee.channel import Channel, ChannelState, ChannelStatus, Inbox
from nanobee.config import ChannelSettings
from nanobee.errors import NotSentError
from nanobee.messages import Address, LivePart, OutboundPart
from nanobee_terminal.exchange import Exchange
from nanobee_terminal.modes import create_screen
from nanobee_terminal.screen import Screen
from nanobee_terminal.settings import TerminalSettings

OPEN_TIMEOUT_SECONDS = 10.0
"""How long a reply waits for a screen that is still being opened."""


class TerminalChannel(Channel[TerminalSettings]):
    """A chat in the terminal, one message of a script, or one through a pipe.

    `run` ends when the person leaves or the one message is answered. A reply that finds the
    screen closed is not sent: it stays in the outbox and is shown by the next start.
    """

    settings_type: ClassVar[type[ChannelSettings]] = TerminalSettings
    can_stream: ClassVar[bool] = True

    def __init__(self, name: str, settings: TerminalSettings) -> None:
        super().__init__(name, settings)
        self._screen: Screen | None = None
        self._opened = anyio.Event()

    async def run(self, inbox: Inbox) -> None:
        address = Address(self.name, self.settings.session)
        exchange = Exchange(inbox, address, self.settings.language)
        self._screen = create_screen(self.settings, exchange)
        self._opened.set()
        try:
            await self._screen.run()
        finally:
            self._screen = None

    async def send(self, part: OutboundPart) -> tuple[str, ...]:
        with anyio.move_on_after(OPEN_TIMEOUT_SECONDS):
            await self._opened.wait()
        if self._screen is None:
            raise NotSentError("the terminal is not open")
        await self._screen.show(part)
        return (str(part.id),)

    async def stream(self, part: LivePart, text: str) -> tuple[str, ...]:
        if self._screen is not None:
            await self._screen.grow(part, text)
        return ()

    def status(self) -> ChannelStatus:
        if self._screen is not None:
            return ChannelStatus(ChannelState.UP)
        return ChannelStatus(ChannelState.DOWN if self._opened.is_set() else ChannelState.STARTING)
