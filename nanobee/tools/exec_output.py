"""BoundedOutput: the beginning and the end of what a command prints. Memory does not grow with the middle."""

from codecs import getincrementaldecoder

HEAD_BYTES = 8_000
TAIL_BYTES = 8_000
"""Of a long output these are kept; a log's errors stand at its end."""


class BoundedOutput:
    """Takes bytes as they come, keeps the first and the last of them."""

    def __init__(self, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES) -> None:
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, chunk: bytes) -> None:
        """Take what was printed next."""
        self._total += len(chunk)
        room = self._head_bytes - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk[-self._tail_bytes :]
        if len(self._tail) > 2 * self._tail_bytes:
            del self._tail[: -self._tail_bytes]

    def text(self) -> str:
        """What is kept; where something is not, a line says how much."""
        tail = bytes(self._tail[-self._tail_bytes :])
        left_out = self._total - len(self._head) - len(tail)
        if not left_out:
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        return (
            f"{_whole_end(bytes(self._head))}\n"
            f"[cut: {left_out:,} of {self._total:,} bytes are left out here; to see them, print less or into a file]\n"
            f"{_whole_start(tail)}"
        )


def _whole_end(cut: bytes) -> str:
    """Text that was cut at its end, without half a character there."""
    return getincrementaldecoder("utf-8")("replace").decode(cut)


def _whole_start(cut: bytes) -> str:
    """Text that was cut at its start, without half a character there."""
    start = 0
    while start < min(3, len(cut)) and cut[start] & 0xC0 == 0x80:
        start += 1
    return cut[start:].decode("utf-8", "replace")
