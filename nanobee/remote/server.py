"""Server: the socket of the state folder, at which clients reach its holder."""

import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from nanobee.channel import Inbox
from nanobee.remote.channel import RemoteChannel
from nanobee.remote.socket_path import socket_place
from nanobee.remote.sockets import Streams, listening

logger = logging.getLogger(__name__)

MAX_CLIENTS = 64
"""Connections at once."""
PAUSE_SECONDS = 1.0
"""Before the socket is opened again, when it could not be, or broke."""


@dataclass(frozen=True, slots=True)
class HolderSide:
    """What the holder has for its clients."""

    model: str
    """`provider/model`, as people read it."""
    wake: Callable[[str], None]
    """Look at a session's rows again: somebody has changed them from outside."""
    channel: RemoteChannel | None = None
    """None where the terminal's name is taken by a channel of the holder's own."""
    inbox: Inbox | None = None
    """The way in for what its clients say."""


class Server:
    """Takes clients until its task is cancelled. Only the process that holds the state folder may run one."""

    def __init__(self, state: Path, environ: Mapping[str, str], holder: HolderSide) -> None:
        self._state = state
        self._environ = environ
        self._holder = holder
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
            async with listening(path, lambda streams: tasks.start_soon(self._serve, streams)):
                await anyio.sleep_forever()

    async def _serve(self, streams: Streams) -> None:
        # What is said over the socket costs 15 ms to import: who has no client need not pay it.
        from nanobee.remote.greeting import serve_client

        self._connected += 1
        try:
            await serve_client(streams, self._holder, is_full=self._connected > MAX_CLIENTS)
        except Exception:
            # One client's fault must not end the others, or the gateway.
            logger.exception("a client could not be served")
        finally:
            self._connected -= 1
