"""Pipes: standard streams read and written without holding up the event loop."""

import os
from typing import TextIO

import anyio

MAX_INPUT_BYTES = 4 * 1024 * 1024
"""The longest message that is read from a pipe."""
_CHUNK_BYTES = 65_536
_SAFE_WRITE_BYTES = 512
"""What a pipe that is ready takes at once on every POSIX system."""


class InputTooLongError(Exception):
    """More came through the pipe than one message may hold."""


async def read_all(stream: TextIO) -> str:
    """Read the stream to its end, as UTF-8 whatever its bytes are; cancelled at once, also while nothing comes.

    Raises:
        InputTooLongError: it is longer than `MAX_INPUT_BYTES`.
    """
    fd = descriptor_of(stream)
    if fd is None:
        return stream.read()
    chunks: list[bytes] = []
    size = 0
    while chunk := await read_chunk(fd):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_INPUT_BYTES:
            raise InputTooLongError
    text = b"".join(chunks).decode("utf-8", "replace").removeprefix("\ufeff")
    return text.replace("\r\n", "\n")


async def read_chunk(fd: int) -> bytes:
    """The next bytes; empty at the end."""
    try:
        await anyio.wait_readable(fd)
    except (PermissionError, NotImplementedError):
        pass  # a regular file or /dev/null: always ready, and the selector refuses it
    return os.read(fd, _CHUNK_BYTES)


async def write_all(stream: TextIO, text: str) -> None:
    """Write and flush; a reader that takes its time holds up this task only.

    Raises:
        BrokenPipeError: the reader has gone away.
    """
    fd = descriptor_of(stream)
    if fd is None:
        stream.write(text)
        return
    stream.flush()
    rest = memoryview(text.encode(stream.encoding or "utf-8", "replace"))
    is_pipe = True
    while rest:
        if is_pipe:
            try:
                await anyio.wait_writable(fd)
            except (PermissionError, NotImplementedError):
                is_pipe = False
        rest = rest[os.write(fd, rest[:_SAFE_WRITE_BYTES] if is_pipe else rest) :]


def descriptor_of(stream: TextIO) -> int | None:
    """The stream's file descriptor; None where it has none (a test's buffer)."""
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None


def discard(stream: TextIO) -> None:
    """Send the rest of a stream nowhere, so that the interpreter's last flush finds no closed pipe."""
    fd = descriptor_of(stream)
    if fd is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, fd)
    finally:
        os.close(nowhere)
