"""Wire: frames over a byte stream."""

import anyio
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

from nanobee.remote.frames import MAX_FRAME_BYTES, Frame, decode_frame, encode_frame


class WireError(Exception):
    """The other end is gone, or does not speak as agreed. Never leaves this package."""


class Wire:
    """One connection. Frames are sent whole, one at a time, whoever sends them."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._lines = BufferedByteReceiveStream(stream)
        self._sending = anyio.Lock()

    async def send(self, frame: Frame) -> None:
        """Hand the frame to the kernel. A cancelled send leaves half a line: end the connection then.

        Raises:
            WireError: the other end is gone.
        """
        line = encode_frame(frame)
        async with self._sending:
            try:
                await self._stream.send(line)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                raise WireError("the connection is closed") from error

    async def receive(self) -> Frame:
        """The next frame.

        Raises:
            WireError: the other end is gone, or sent what is no frame.
        """
        try:
            return decode_frame(await self._lines.receive_until(b"\n", MAX_FRAME_BYTES))
        except ValueError as error:
            raise WireError("what came is no frame") from error
        except anyio.DelimiterNotFound as error:
            raise WireError(f"a frame is longer than {MAX_FRAME_BYTES} bytes") from error
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise WireError("the connection is closed") from error

    async def aclose(self) -> None:
        """End the connection, whatever is under way."""
        await anyio.aclose_forcefully(self._stream)
