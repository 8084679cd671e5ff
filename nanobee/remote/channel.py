"""RemoteChannel: the terminals of this machine as one channel, wherever their processes are.

Each client shows one session. A part goes to every client that shows its session, and counts as
sent once the first of them has shown it; where nobody shows the session, it waits in the outbox.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import anyio

from nanobee.channel import EVERYBODY, Channel, Inbox
from nanobee.config import ChannelSettings
from nanobee.errors import NotSentError, UnknownOutcomeError
from nanobee.messages import Address, LivePart, OutboundPart
from nanobee.remote.pending import Pending

TERMINAL = "terminal"
"""Name and kind of the channel, as in its session keys."""
SHOW_SECONDS = 3600.0
"""How long a part may wait to be read (`| less`, a suspended terminal); then its outcome is unknown."""


class Client(Protocol):
    """One terminal that shows a session: this process's own, or the other end of a socket."""

    def post(self, part: OutboundPart, pending: Pending) -> None:
        """Have the part shown, after those posted before; then tell `pending`."""
        ...

    def grow(self, part: LivePart, text: str) -> None:
        """Have the latest state of a growing text shown."""
        ...


class RemoteChannel(Channel[ChannelSettings]):
    """Sends to the clients that are attached. What they say, they hand in themselves.

    Everybody is admitted: only the owner of the state folder can reach its socket.
    """

    settings_type = ChannelSettings
    can_stream = True

    def __init__(self, name: str = TERMINAL) -> None:
        super().__init__(name, ChannelSettings(kind=TERMINAL, allow_from=(EVERYBODY,)))
        self._clients: dict[Address, list[Client]] = {}

    @contextmanager
    def attached(self, address: Address, client: Client) -> Iterator[None]:
        """Let `client` show the session while the block runs; what waits for it is sent."""
        self._clients.setdefault(address, []).append(client)
        self.on_reachable(address)
        try:
            yield
        finally:
            clients = self._clients[address]
            clients.remove(client)
            if not clients:
                del self._clients[address]

    def is_reachable(self, address: Address) -> bool:
        return address in self._clients

    async def run(self, inbox: Inbox) -> None:
        await anyio.sleep_forever()

    async def send(self, part: OutboundPart) -> tuple[str, ...]:
        clients = list(self._clients.get(part.address, ()))
        if not clients:
            raise NotSentError("no terminal shows this conversation")
        pending = Pending(len(clients))
        for client in clients:
            client.post(part, pending)
        with anyio.move_on_after(SHOW_SECONDS):
            return await pending.wait()
        raise UnknownOutcomeError(f"no terminal has shown it within {SHOW_SECONDS:.0f} s")

    async def stream(self, part: LivePart, text: str) -> tuple[str, ...]:
        for client in self._clients.get(part.address, ()):
            client.grow(part, text)
        return ()
