"""Plan: the rounds of a run and their kills, from a seed. Pure: the same seed gives the same plan."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from nanobee.testing.chaos.modes import POINTS, Mode
from nanobee.testing.chaos.script import ChatScript, build_scripts

FIRST_CHAT = 1_000
CHATS_A_ROUND = 1_000
"""Chat ids are not used again in a run."""
MAX_DELAY_SECONDS = 0.03
MAX_START_SECONDS = 1.5
"""A start takes about half of it, so that what it takes up is hit too."""
START_SHARE = 0.1
"""Of the rounds, whose second kill comes during a start or soon after it, instead of at a point."""
STOP_SHARE = 0.1
"""Of the rounds, whose first kill comes while a SIGTERM is obeyed."""


FEW_MESSAGES = 20
_SELDOM = ("receive", "steer", "stop", "suspend", "stream")
"""Passed once or twice a batch or chat."""
_ONCE_A_TURN = ("claim", "finish", "sending", "send", "sent")
"""A steered turn takes in all that waits in its chat, so there are few of them."""


class KillKind(StrEnum):
    """When a kill comes."""

    MOMENT = "moment"
    """After so many calls of the gateway, and some milliseconds."""
    START = "start"
    """So many seconds after a start: while it reads what was left, or takes it up."""
    STOP = "stop"
    """While the gateway obeys a SIGTERM."""
    POINT = "point"
    """At a checkpoint: the gateway does it itself."""


@dataclass(frozen=True, slots=True)
class PlannedKill:
    """One kill."""

    kind: KillKind
    point: str = ""
    times: int = 1
    """How often the point is passed, or how many calls are made, before it comes."""
    delay_seconds: float = 0.0

    def __str__(self) -> str:
        match self.kind:
            case KillKind.POINT:
                return f"{self.point}:{self.times}"
            case KillKind.MOMENT:
                return f"call {self.times}"
        return str(self.kind)


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """One round."""

    number: int
    mode: Mode
    kills: tuple[PlannedKill, ...]
    scripts: tuple[ChatScript, ...]


def build_plan(rounds: int, messages: int, seed: int, modes: Sequence[Mode] = tuple(Mode)) -> Iterator[RoundPlan]:
    """The rounds; every (mode, point) comes as often as any other, or once more."""
    random = Random(f"chaos {seed}")
    targets = _targets(modes, random)
    for number in range(1, rounds + 1):
        own = Random(f"chaos {seed} {number}")
        if own.random() < START_SHARE:
            mode = own.choice(modes)
            second = PlannedKill(KillKind.START, delay_seconds=own.uniform(0, MAX_START_SECONDS))
        else:
            mode, point = next(targets)
            second = PlannedKill(KillKind.POINT, point, own.randint(1, _most_times(mode, point, messages)))
        scripts = build_scripts(mode, messages, 1 + (number - 1) * messages, FIRST_CHAT + number * CHATS_A_ROUND, own)
        yield RoundPlan(number, mode, (_first_kill(messages, own), second), tuple(scripts))


def _targets(modes: Sequence[Mode], random: Random) -> Iterator[tuple[Mode, str]]:
    """Every mode and point again and again, the modes evenly mixed."""
    while True:
        placed: list[tuple[float, Mode, str]] = []
        for mode in modes:
            points = list(POINTS[mode])
            random.shuffle(points)
            placed += [((at + random.random()) / len(points), mode, point) for at, point in enumerate(points)]
        yield from ((mode, point) for _, mode, point in sorted(placed))


def _first_kill(messages: int, random: Random) -> PlannedKill:
    is_stop = random.random() < STOP_SHARE
    calls = random.randint(1, max(1, messages))
    return PlannedKill(KillKind.STOP if is_stop else KillKind.MOMENT, times=calls, delay_seconds=_delay(random))


def _delay(random: Random) -> float:
    return random.uniform(0, MAX_DELAY_SECONDS)


def _most_times(mode: Mode, point: str, messages: int) -> int:
    """How often the point is surely passed by what is left after the first kill."""
    name = point.partition(".")[0]
    if point == "lines.synced" or messages < FEW_MESSAGES:
        return 1
    if name in _SELDOM or (mode is Mode.STEERED and name in _ONCE_A_TURN):
        return 2
    return min(8, messages // 5)
