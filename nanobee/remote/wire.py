"""Wire: frames over a Unix socket.

On asyncio's streams: what was handed over for writing is written whole, also where the task that
did so is cancelled, so that no frame is ever torn.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from nanobee.remote.frames import MAX_FRAME_BYTES, Frame, decode_frame, encode_frame

SOCKET_MODE = 0o600
"""For the owner of the state folder alone."""
BACKLOG = 128
CLOSE_SECONDS = 1.0
"""How long closing waits until the other end has taken what was written."""


class WireError(Exception):
    """The other end is gone, or does not speak as agreed. Never leaves this package."""


class Wire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, frame: Frame) -> None:
        """Write the frame, after those before it; return once the other end takes what is written.

        Raises:
            WireError: the other end is gone.
        """
        try:
            self._writer.write(encode_frame(frame))
            await self._writer.drain()
        except OSError as error:
            raise WireError("the connection is closed") from error

    async def receive(self) -> Frame:
        """The next frame.

        Raises:
            WireError: the other end is gone, or sent what is no frame.
        """
        try:
            return decode_frame(await self._reader.readuntil(b"\n"))
        except asyncio.LimitOverrunError as error:
            raise WireError(f"a frame is longer than {MAX_FRAME_BYTES} bytes") from error
        except (OSError, asyncio.IncompleteReadError) as error:
            raise WireError("the connection is closed") from error
        except ValueError as error:
            raise WireError("what came is no frame") from error

    async def aclose(self) -> None:
        """End the connection."""
        self._writer.close()
        with anyio.move_on_after(CLOSE_SECONDS, shield=True), suppress(OSError):
            await self._writer.wait_closed()
        self._writer.transport.abort()


async def connect_wire(path: Path) -> Wire:
    """Connect to the socket at `path`.

    Raises:
        OSError: nobody listens there.
    """
    return Wire(*await asyncio.open_unix_connection(path, limit=MAX_FRAME_BYTES))


@asynccontextmanager
async def listening(path: Path, take: Callable[[Wire], object]) -> AsyncIterator[None]:
    """Listen at `path`, and give each connection to `take`, while the block runs.

    Raises:
        OSError: no socket can be made there.
    """
    is_open = True

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if is_open:
            take(Wire(reader, writer))
        else:
            writer.close()

    with _bind(path) as listener:
        server = await asyncio.start_unix_server(connected, sock=listener, limit=MAX_FRAME_BYTES, backlog=BACKLOG)
        try:
            yield
        finally:
            is_open = False
            server.close()


def _bind(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(SOCKET_MODE)  # nobody can connect before it listens
    except BaseException:
        listener.close()
        raise
    return listener
