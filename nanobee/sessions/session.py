"""Session: the recent lines of one conversation, as a turn works on them."""

from collections.abc import Iterable, Sequence

from nanobee.bus.lines import Line, LineKind, NewLine
from nanobee.chat import Completion, FinishReason, ToolCall

MAX_LINES = 4_000
"""Lines kept in memory; context never needs more, and reading them again costs a tail read."""


class Session:
    """The lines since the last reset, or the last `MAX_LINES` of them. Changed by its own turn only."""

    def __init__(self, key: str, lines: Iterable[Line] = ()) -> None:
        self.key = key
        self._lines: list[Line] = list(lines)
        self.window_start = 0
        """`seq` at which the context's history begins; it moves in jumps, for the prompt cache."""

    @property
    def lines(self) -> Sequence[Line]:
        """In order."""
        return self._lines

    def extend(self, lines: Iterable[Line]) -> None:
        """Add what a transition wrote."""
        for line in lines:
            if line.kind == LineKind.RESET:
                self._lines.clear()
            self._lines.append(line)
        if len(self._lines) > MAX_LINES:
            del self._lines[: MAX_LINES // 4]

    def turn_lines(self, turn: str) -> list[Line]:
        """The lines of one turn."""
        return [line for line in self._lines if line.turn == turn]


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
    )
    return message_line(
        "assistant",
        completion.content,
        tool_calls=[{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls],
        reasoning=completion.reasoning,
        model=completion.model,
        finish_reason=None if completion.finish_reason is FinishReason.STOP else completion.finish_reason,
        usage={name: count for name, count in counts if count},
    )
