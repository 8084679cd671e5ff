"""Session: the recent lines of one conversation, as a turn works on them."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from nanobee.bus.lines import Line, LineKind, NewLine
from nanobee.chat import Completion, FinishReason, ToolCall

MAX_LINES = 4_000
"""Lines kept in memory; context never needs more, and reading them again costs a tail read."""


class Session:
    """The lines since the last reset, or the last `MAX_LINES` of them. Changed by its own turn only."""

    def __init__(self, key: str, lines: Iterable[Line] = ()) -> None:
        self.key = key
        self._lines: list[Line] = []
        self._summarized_through = 0
        self.summary: str | None = None
        """Stands for the lines up to the newest compaction."""
        self.window_start = 0
        """`seq` from which on the history fits its window; it moves in jumps, for the prompt cache."""
        self.pruned_before = 0
        """`seq` before which long tool results are left out."""
        self.revision = 0
        """Changes whenever lines were taken out: what was read of the session before is void."""
        self.extend(lines)

    @property
    def lines(self) -> Sequence[Line]:
        """In order."""
        return self._lines

    @property
    def history_start(self) -> int:
        """`seq` of the first line that may stand in a context."""
        return max(self.window_start, self._summarized_through + 1)

    def extend(self, lines: Iterable[Line]) -> None:
        """Add what a transition wrote. A line that is there already is not added again; the order is by `seq`."""
        for line in lines:
            if self._lines and line.seq <= self._lines[-1].seq:
                self._insert(line)
            else:
                self._read(line)
                self._lines.append(line)
        if len(self._lines) > MAX_LINES:
            del self._lines[: MAX_LINES // 4]
            self.revision += 1

    def _insert(self, line: Line) -> None:
        """Put a line where it belongs: background work wrote a later one in the meantime."""
        place = bisect_left(self._lines, line.seq, key=lambda each: each.seq)
        if self._lines[place].seq != line.seq:
            self._read(line)
            self._lines.insert(place, line)
            self.revision += 1

    def _read(self, line: Line) -> None:
        if line.kind == LineKind.RESET:
            self._lines.clear()
            self.revision += 1
            self._summarized_through, self.summary = 0, None
            self.window_start = self.pruned_before = 0
        elif line.kind == LineKind.UNDONE:
            start, through = _number(line, "from"), _number(line, "through")
            self._lines = [each for each in self._lines if not start <= each.seq <= through]
            self.revision += 1
        elif line.kind == LineKind.FORGOTTEN:
            found = line.data.get("seqs")
            seqs = set(found) if isinstance(found, list) else set()
            self._lines = [each for each in self._lines if each.seq not in seqs]
            self.revision += 1
        elif line.kind == LineKind.COMPACTED:
            summary = line.data.get("summary")
            if isinstance(summary, str):
                self._summarized_through, self.summary = _number(line, "through"), summary

    def turn_lines(self, turn: str) -> list[Line]:
        """The lines of one turn."""
        return [line for line in self._lines if line.turn == turn]


def _number(line: Line, key: str) -> int:
    value = line.data.get(key)
    return value if isinstance(value, int) else 0


def message_line(role: str, content: str, **more: object) -> NewLine:
    """A `message` line; fields that are None or empty are left out."""
    data: dict[str, object] = {"role": role, "content": content}
    data.update((key, value) for key, value in more.items() if value)
    return NewLine(LineKind.MESSAGE, data)


def assistant_line(completion: Completion, calls: Sequence[ToolCall] = ()) -> NewLine:
    """The `message` line of a completion, with its calls as history keeps them."""
    usage = completion.usage
    counts = (
        ("input", usage.input_tokens),
        ("output", usage.output_tokens),
        ("cached", usage.cached_tokens),
        ("reasoning", usage.reasoning_tokens),
        ("cache_write", usage.cache_write_tokens),
    )
    return message_line(
        "assistant",
        completion.content,
        tool_calls=[{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls],
        reasoning=completion.reasoning,
        echo=completion.echo and {"source": completion.echo.source, "data": completion.echo.data},
        model=completion.model,
        finish_reason=None if completion.finish_reason is FinishReason.STOP else completion.finish_reason,
        usage={name: count for name, count in counts if count},
    )
