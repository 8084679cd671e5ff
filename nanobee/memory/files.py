"""Files of a memory: read leniently, replaced whole or appended to; on disk when a call returns.

Bytes that are not UTF-8 (a hand edit in another encoding) come as lone surrogates and go back as
the bytes that they were. Who shows the text to a model cleans it.
"""

import mmap
import os
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from nanobee.errors import StateError
from nanobee.workspace import FILE_MODE, make_private_folder

TAIL_BYTES = 64 * 1024
"""How far back the end of an append-only file is looked at for an entry that was cut."""


def read_text(path: Path) -> str:
    """The file's text, without a byte-order mark and with `\\n` line ends; empty where there is none.

    Raises:
        StateError: it is there and cannot be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error.strerror}") from error
    return decode(data)


def decode(data: bytes) -> str:
    """The text of a file's bytes; see the module."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return text.replace("\r\n", "\n")


def encode(text: str) -> bytes:
    """The inverse of `decode`."""
    return text.encode("utf-8", "surrogateescape")


def replace_text(path: Path, text: str, *, expected: str | None = None) -> bool:
    """Put the whole text in place in one step. False where the file does not hold `expected` any more.

    Raises:
        StateError: the disk refuses; the old file stands as it was.
    """
    return _replace(path, [encode(text)], lambda: expected is None or read_text(path) == expected)


def rewrite(path: Path, pieces: Iterable[bytes]) -> None:
    """Put a file of these pieces in the place of one that nobody else writes; a missing one stays missing.

    Raises:
        StateError: the disk refuses; the old file stands as it was.
    """
    if path.exists():
        _replace(path, pieces, lambda: True)


def _replace(path: Path, pieces: Iterable[bytes], may_replace: Callable[[], bool]) -> bool:
    make_private_folder(path.parent)
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
            if not may_replace():
                return False
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"{path} cannot be written: {error.strerror}") from error
    _sync_folder(path.parent)
    return True


def append_text(path: Path, text: str, *, drops_cut: bool = False) -> None:
    """Append a paragraph; what stands there stays an untouched prefix.

    `drops_cut`: a crash may have left a beginning of this very paragraph at the end; it goes first.

    Raises:
        StateError: the disk refuses; the file is as long as it was.
    """
    make_private_folder(path.parent)
    data = encode(text) + b"\n\n"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            size = os.fstat(descriptor).st_size
            tail = os.pread(descriptor, TAIL_BYTES, max(size - TAIL_BYTES, 0))
            if drops_cut:
                cut = tail[tail.rfind(b"\n\n") + 2 if b"\n\n" in tail else 0 :]
                if cut and data.startswith(cut):
                    size -= len(cut)
                    tail = tail[: -len(cut)]
            _write_at(descriptor, size, _gap(tail) + data)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StateError(f"{path} cannot be written: {error.strerror}") from error
    if size == 0:
        _sync_folder(path.parent)


def _gap(tail: bytes) -> bytes:
    """What is missing so that the next paragraph begins as one."""
    if not tail or tail.endswith((b"\n\n", b"\n\r\n")):
        return b""
    return b"\n" if tail.endswith(b"\n") else b"\n\n"


def _write_at(descriptor: int, size: int, data: bytes) -> None:
    """Write from `size` on; a write that fails halfway leaves nothing."""
    os.ftruncate(descriptor, size)
    try:
        left = memoryview(data)
        position = size
        while left:
            written = os.pwrite(descriptor, left, position)
            left, position = left[written:], position + written
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def contains_bytes(path: Path, wanted: bytes) -> bool:
    """Whether the file holds these bytes; reads all of a long file, at the speed of memory."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(wanted) >= 0
    except (FileNotFoundError, ValueError):  # an empty file cannot be mapped
        return False
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error.strerror}") from error


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every file system can; the file is in place all the same
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
