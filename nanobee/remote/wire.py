"""Wire: frames over a Unix socket.

On asyncio's streams: what was handed over for writing is written whole, also where the task that
did so is cancelled, so that no frame is ever torn.
"""

import asyncio
from contextlib import suppress

import anyio

from nanobee.remote.frames import Frame, decode_frame, encode_frame
from nanobee.remote.sockets import MAX_LINE_BYTES, Streams

CLOSE_SECONDS = 1.0
"""How long closing waits until the other end has taken what was written."""


class WireError(Exception):
    """The other end is gone, or does not speak as agreed. Never leaves this package."""


class Wire:
    """One connection."""

    def __init__(self, streams: Streams) -> None:
        self._reader, self._writer = streams

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
            raise WireError(f"a frame is longer than {MAX_LINE_BYTES} bytes") from error
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
