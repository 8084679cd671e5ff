"""read_file: a part of a text file, with hard limits while it is read."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from nanobee.errors import ToolError
from nanobee.messages import Attachment
from nanobee.tools.decorator import tool
from nanobee.tools.encoding import SAMPLE_BYTES, Encoding, detect_encoding, name_binary
from nanobee.tools.paths import Place, open_place, refuse_shared, refuse_unless_regular
from nanobee.tools.pictures import picture_type
from nanobee.tools.tool import ToolContext, ToolOutput

MAX_READ_CHARS = 16_000
"""The most that one call shows; below the registry's limit for results."""
MAX_SCAN_BYTES = 64 * 1024 * 1024
"""How far into a file a call looks for the line that it was asked for."""
BLOCK_BYTES = 64 * 1024

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_UNREADABLE = re.compile("[\ud800-\udfff]")


@tool(parallel_safe=True, idempotent=True)
def read_file(context: ToolContext, path: str, offset: int = 1, limit: int = 500, column: int = 1) -> str | ToolOutput:
    """Read a text file of the workspace, or look at a picture. A long text comes in parts; its last line says how to
    read on.

    Args:
        path: Relative to the workspace.
        offset: First line to show; lines count from 1.
        limit: How many lines to show.
        column: Where to begin in the first line, for reading on in a very long line.
    """
    if offset < 1 or limit < 1 or column < 1:
        raise ToolError("offset, limit and column count from 1")
    with open_place(context.view, path) as place:
        descriptor, size_bytes = open_text(place)
        try:
            sample = read_bytes(descriptor, SAMPLE_BYTES)
            if mime_type := picture_type(sample):
                return _show_picture(place.path, mime_type, size_bytes)
            if kind := name_binary(sample):
                raise ToolError(f"{place.path}: is {kind} ({size_bytes:,} bytes), not text; it cannot be shown")
            encoding = detect_encoding(sample)
            window = _Window(offset, limit, column)
            for text in _decoded(descriptor, sample, encoding):
                if not window.take(text):
                    break
            has_more = os.lseek(descriptor, 0, os.SEEK_CUR) < size_bytes
            return window.show(place, size_bytes, encoding, has_more)
        finally:
            os.close(descriptor)


def _show_picture(path: str, mime_type: str, size_bytes: int) -> ToolOutput:
    picture = Attachment("image", PurePosixPath(path).name, path, mime_type, size_bytes)
    shown = f"{path} is a picture ({size_bytes:,} bytes); it is shown with the user's message."
    return ToolOutput(shown, attachments=(picture,))


def open_text(place: Place) -> tuple[int, int]:
    """Open an ordinary file for reading; return its descriptor, to be closed, and its size.

    Raises:
        ToolError: it is no ordinary file, or may stand outside the workspace too.
        OSError: it cannot be opened.
    """
    found = place.look()
    if found is not None:
        refuse_unless_regular(found, place.path)
    # Should a pipe have come there since: without blocking, and looked at again.
    descriptor = place.open(os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        found = os.fstat(descriptor)
        refuse_unless_regular(found, place.path)
        refuse_shared(found, place.path)
    except ToolError:
        os.close(descriptor)
        raise
    return descriptor, found.st_size


def read_bytes(descriptor: int, limit: int) -> bytes:
    """Up to `limit` bytes, fewer only at the file's end."""
    blocks = bytearray()
    while len(blocks) < limit and (block := os.read(descriptor, min(BLOCK_BYTES, limit - len(blocks)))):
        blocks += block
    return bytes(blocks)


def _decoded(descriptor: int, sample: bytes, encoding: Encoding) -> Iterator[str]:
    """The text block by block, as far as a call looks."""
    decoder = encoding.create_decoder()
    body = memoryview(sample)[len(encoding.mark) :]
    for start in range(0, len(body), BLOCK_BYTES):
        yield decoder.decode(bytes(body[start : start + BLOCK_BYTES]))
    scanned = len(sample)
    while scanned < MAX_SCAN_BYTES and (block := os.read(descriptor, BLOCK_BYTES)):
        scanned += len(block)
        yield decoder.decode(block)
    if scanned < MAX_SCAN_BYTES:
        yield decoder.decode(b"", final=True)


@dataclass(slots=True)
class _Window:
    """Takes a text in pieces and keeps what was asked for, however long the lines are."""

    offset: int
    limit: int
    column: int
    line: int = 1
    """The line that the next character belongs to."""
    position: int = 0
    """How many characters of that line have passed."""
    kept: list[str] = field(default_factory=list)
    kept_chars: int = 0
    goes_on_at: tuple[int, int] | None = None
    """Line and column of the first character that was not kept, where there is one."""

    def take(self, text: str) -> bool:
        """Keep what belongs to the window; False as soon as it is full."""
        breaks = text.count("\n")
        if self.line + breaks < self.offset:
            self.line += breaks
            self.position = len(text) - text.rfind("\n") - 1 if breaks else self.position + len(text)
            return True
        for piece in _LINE.findall(text):
            if self.line >= self.offset + self.limit or self.kept_chars >= MAX_READ_CHARS:
                self.goes_on_at = (self.line, self.position + 1)
                return False
            if self.line >= self.offset and not self._keep(piece):
                return False
            self.position += len(piece)
            if piece.endswith("\n"):
                self.line, self.position = self.line + 1, 0
        return True

    def _keep(self, piece: str) -> bool:
        before = max(0, self.column - 1 - self.position) if self.line == self.offset else 0
        wanted = piece[before:]
        kept = wanted[: MAX_READ_CHARS - self.kept_chars]
        self.kept.append(kept)
        self.kept_chars += len(kept)
        if len(kept) < len(wanted):
            self.goes_on_at = (self.line, self.position + before + len(kept) + 1)
            return False
        return True

    def show(self, place: Place, size_bytes: int, encoding: Encoding, has_more: bool) -> str:
        """What was kept, and below it what the model must know to read on."""
        text = "".join(self.kept).replace("\r\n", "\n")
        shown = _UNREADABLE.sub("\ufffd", text)
        notes = [self._describe_end(place, size_bytes, has_more)]
        if shown != text:
            notes.append(f"{len(_UNREADABLE.findall(text))} bytes are not valid UTF-8 and are shown as \ufffd")
        if encoding.codec != "utf-8":
            notes.append(f"the file is stored as {encoding.codec}; edit_file keeps that")
        lines = [f"[{note}]" for note in notes if note]
        if shown and not shown.endswith("\n") and lines:
            shown += "\n"
        return shown + "\n".join(lines)

    def _describe_end(self, place: Place, size_bytes: int, has_more: bool) -> str:
        if self.goes_on_at is not None:
            line, column = self.goes_on_at
            where = f"offset={line}" if column == 1 else f"offset={line}, column={column}"
            skip = "" if column == 1 else f"; line {line} is cut here, offset={line + 1} leaves out the rest of it"
            return f"cut: {place.path} goes on ({size_bytes:,} bytes in all); read on with {where}{skip}"
        if has_more:
            return f"cut: read_file looks at the first {MAX_SCAN_BYTES:,} bytes only; {place.path} has {size_bytes:,}"
        if self.kept_chars:
            return ""
        if self.line == 1 and self.position == 0:
            return "the file is empty"
        lines = self.line if self.position else self.line - 1
        return f"nothing there: the file has {lines:,} lines"
