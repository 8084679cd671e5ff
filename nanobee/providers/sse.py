"""Server-sent events without I/O: bytes in, events out, whatever the borders of the chunks.

Lines are split as bytes and decoded whole, so a character cut by a chunk's border comes out
right; comments and events without data give nothing.
"""

from dataclasses import dataclass

from nanobee.errors import MalformedAnswerError

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""The largest event that is held in memory."""

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event with data; `name` is empty where the server gave none."""

    name: str
    data: str


class SseDecoder:
    """Decodes one stream."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._after_cr = False
        self._at_start = True
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that are complete with this chunk.

        Raises:
            MalformedAnswerError: one event is larger than `MAX_EVENT_BYTES`.
        """
        if self._after_cr and chunk:
            # The line ended with the last chunk; this is the other half of its CRLF.
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        if not chunk:
            return []
        self._held_bytes += len(chunk)
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[ServerEvent] = []
        if b"\n" not in chunk:
            self._pieces.append(chunk)
        else:
            *lines, rest = b"".join((*self._pieces, chunk)).split(b"\n")
            self._pieces = [rest] if rest else []
            for line in lines:
                self._take_line(line, events)
        if events:
            self._held_bytes = len(self._pieces[0]) if self._pieces else 0
        elif self._held_bytes > MAX_EVENT_BYTES:
            raise MalformedAnswerError("The model server sent an event too large to be an answer.")
        return events

    def finish(self) -> list[ServerEvent]:
        """The last event of a stream that ended without its closing blank line."""
        events: list[ServerEvent] = []
        if self._pieces:
            self._take_line(b"".join(self._pieces), events)
            self._pieces = []
        self._take_line(b"", events)
        return events

    def _take_line(self, line: bytes, events: list[ServerEvent]) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        if not line:
            data = b"\n".join(self._data)
            if data:
                events.append(ServerEvent(self._name, data.decode("utf-8", "replace")))
            self._name = ""
            self._data.clear()
            return
        # A comment is a line whose field name is empty.
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")
