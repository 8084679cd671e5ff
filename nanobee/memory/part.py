"""Part: the lines of a session that go into memory at once, cut where a turn begins."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from nanobee.bus.lines import Line, LineKind, TurnState
from nanobee.memory.transcript import Said, cost, said_in


@dataclass(frozen=True, slots=True)
class Part:
    """A range of lines, with what they say."""

    first: int
    last: int
    said: tuple[Said, ...]
    ends_with_reset: bool
    tokens: int
    """About what all lines up to there cost in a transcript, and, where there is more, those behind it."""

    @property
    def at(self) -> datetime | None:
        """When its last message was said."""
        return self.said[-1].at if self.said else None


def find_part(
    lines: Iterable[Line], takebacks: Iterable[Line], open_turns: Collection[str], max_tokens: int, enough: int
) -> Part | None:
    """The next part of these lines, which begin behind what is in memory already; None where none is complete.

    `open_turns` are those that were still writing when the last of the lines was committed.

    It ends with a `reset`, before a turn that still writes, or where `max_tokens` are reached and
    a turn begins; a single turn that is longer is taken whole. No line is read once there is a
    part and `enough` tokens were seen.
    """
    taken: list[Line] = []
    cut = 0
    tokens = 0
    turn: str | None = None
    for line in lines:
        if line.turn is not None and line.turn in open_turns:
            break
        if _begins_turn(line, turn):
            turn = line.turn
            if tokens <= max_tokens or cut == 0:
                cut = len(taken)
            if cut and tokens > max(max_tokens, enough):
                break
        taken.append(line)
        tokens += cost([line])
        if line.kind == LineKind.RESET:
            break
    if tokens <= max_tokens or cut == 0:
        cut = len(taken)
    part = taken[:cut]
    if not part:
        return None
    said = tuple(each for each in said_in([*part, *takebacks]) if each.seq <= part[-1].seq)
    return Part(part[0].seq, part[-1].seq, said, part[-1].kind == LineKind.RESET, tokens)


def _begins_turn(line: Line, turn: str | None) -> bool:
    if line.kind == LineKind.TURN:
        return line.data.get("state") == TurnState.STARTED
    is_user = line.kind == LineKind.MESSAGE and line.data.get("role") == "user"
    return is_user and (line.turn is None or line.turn != turn)
