"""Server: the socket of the state folder, at which clients reach its holder."""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from nanobee.channel import Inbox
from nanobee.messages import Address
from nanobee.remote.channel import RemoteChannel
from nanobee.remote.connection import Connection
from nanobee.remote.frames import VERSION, Hello, Refusal, Refused, Welcome
from nanobee.remote.socket_path import socket_place
from nanobee.remote.wire import Wire, WireError, listening

logger = logging.getLogger(__name__)

MAX_CLIENTS = 64
"""Connections at once."""
HELLO_SECONDS = 5.0
"""How long a client may take to say what it wants, and to take the answer."""
PAUSE_SECONDS = 1.0
"""Before the socket is opened again, when it could not be, or broke."""

Wake = Callable[[str], None]
"""Look at a session's rows again: somebody has changed them from outside."""


@dataclass(frozen=True, slots=True)
class Talks:
    """What clients of a terminal need: their channel, and the way in."""

    channel: RemoteChannel
    inbox: Inbox


class Server:
    """Takes clients until its task is cancelled. Only the process that holds the state folder may run one."""

    def __init__(self, state: Path, environ: Mapping[str, str], model: str, wake: Wake, talks: Talks | None) -> None:
        self._state = state
        self._environ = environ
        self._model = model
        self._wake = wake
        self._talks = talks
        self._connected = 0

    async def run(self) -> None:
        """Listen until cancelled; a fault is logged, and the gateway goes on without its clients."""
        if sys.platform == "win32":
            return
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    await self._listen(tasks)
                except OSError as error:
                    logger.error("no client can reach this process: %s", error)
                await anyio.sleep(PAUSE_SECONDS)

    async def _listen(self, tasks: TaskGroup) -> None:
        with socket_place(self._state, self._environ) as path:
            async with listening(path, lambda wire: tasks.start_soon(self._serve, wire)):
                await anyio.sleep_forever()

    async def _serve(self, wire: Wire) -> None:
        self._connected += 1
        address = None
        try:
            with anyio.move_on_after(HELLO_SECONDS):
                address = await self._greet(wire)
            if address is not None and self._talks is not None:
                await Connection(wire, address, self._talks.inbox).serve(self._talks.channel)
        except WireError as error:
            logger.info("a client is gone: %s", error)
        except Exception:
            # One client's fault must not end the others, or the gateway.
            logger.exception("a client could not be served")
        finally:
            self._connected -= 1
            await wire.aclose()

    async def _greet(self, wire: Wire) -> Address | None:
        """Answer a client's hello; return what it wants to show, None where it shows nothing."""
        hello = await wire.receive()
        if not isinstance(hello, Hello):
            raise WireError("it did not say hello")
        refusal = self._refusal(hello)
        if refusal is not None:
            await wire.send(Refused(os.getpid(), refusal))
            return None
        if hello.wakes:
            self._wake(hello.session_key)
        await wire.send(Welcome(os.getpid(), self._model))
        return None if hello.wakes else Address.from_session_key(hello.session_key)

    def _refusal(self, hello: Hello) -> Refusal | None:
        if hello.version != VERSION:
            return Refusal.VERSION
        if self._connected > MAX_CLIENTS:
            return Refusal.FULL
        try:
            address = Address.from_session_key(hello.session_key)
        except ValueError:
            return Refusal.SESSION
        is_shown = self._talks is not None and address.channel == self._talks.channel.name
        return None if hello.wakes or is_shown else Refusal.SESSION
