"""Sockets: the Unix socket of a state folder, without what is said over it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

SOCKET_MODE = 0o600
"""For the owner of the state folder alone."""
BACKLOG = 128
MAX_LINE_BYTES = 32 * 1024 * 1024
"""The longest line that is read: room for the longest piped message, however its characters are coded."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(path: Path) -> Streams:
    """Connect to the socket at `path`.

    Raises:
        OSError: nobody listens there.
    """
    return await asyncio.open_unix_connection(path, limit=MAX_LINE_BYTES)


@asynccontextmanager
async def listening(path: Path, take: Callable[[Streams], object]) -> AsyncIterator[None]:
    """Listen at `path`, and give each connection to `take`, while the block runs.

    Raises:
        OSError: no socket can be made there.
    """
    is_open = True

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if is_open:
            take((reader, writer))
        else:
            writer.close()

    with _bind(path) as listener:
        server = await asyncio.start_unix_server(connected, sock=listener, limit=MAX_LINE_BYTES, backlog=BACKLOG)
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
