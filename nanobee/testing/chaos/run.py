"""Run: round after round in one arena, with what they add up to."""

import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from nanobee.testing.chaos.account import Account
from nanobee.testing.chaos.arena import open_arena
from nanobee.testing.chaos.audit import build_account
from nanobee.testing.chaos.errors import ChaosError
from nanobee.testing.chaos.log import RoundLog
from nanobee.testing.chaos.modes import Mode
from nanobee.testing.chaos.plan import KillKind, build_plan
from nanobee.testing.chaos.round import Round

MIN_ANSWERED_SHARE = 0.99
"""Parking is no way out."""
Doctor = Callable[[RoundLog], RoundLog]
"""Falsifies a log, to see that the account notices."""


@dataclass(frozen=True, slots=True)
class RoundResult:
    """One round, told."""

    log: RoundLog
    account: Account
    timeline: tuple[tuple[float, str], ...]
    missed: str | None


@dataclass(slots=True)
class Result:
    """A run, summed up."""

    rounds: int
    messages: int
    seed: int
    account: Account = field(default_factory=Account)
    by_mode: dict[Mode, Account] = field(default_factory=dict)
    kills: Counter[KillKind] = field(default_factory=Counter)
    hits: Counter[tuple[Mode, str]] = field(default_factory=Counter)
    """How often the gateway was killed at a checkpoint in a mode."""
    missed: Counter[tuple[Mode, str]] = field(default_factory=Counter)
    """Armed checkpoints that were not passed."""
    seconds: float = 0.0

    def add(self, result: RoundResult) -> None:
        """Take a round in."""
        mode = result.log.mode
        self.account.add(result.account)
        self.by_mode.setdefault(mode, Account()).add(result.account)
        for kill in result.log.kills:
            self.kills[kill.kind] += 1
            if kill.kind is KillKind.POINT:
                self.hits[mode, kill.what] += 1
        if result.missed is not None:
            self.missed[mode, result.missed] += 1

    @property
    def modes(self) -> list[Mode]:
        """Those that occurred."""
        return [mode for mode in Mode if mode in self.by_mode]

    @property
    def is_sound(self) -> bool:
        """Whether every promise was kept."""
        return not self.account.faults and self.account.answered_share >= MIN_ANSWERED_SHARE


async def run_chaos(
    result: Result,
    tell: Callable[[RoundResult], None],
    *,
    modes: Sequence[Mode] = tuple(Mode),
    doctor: Doctor | None = None,
    folder: Path | None = None,
) -> None:
    """Run the rounds that `result` asks for, add each to it and tell of it; `doctor` gets the last one's log.

    Raises:
        ChaosError: the gateway ended by itself, or did not come up; or this process got SIGTERM.
    """
    began = anyio.current_time()
    async with _ending_on_sigterm(), open_arena(result.seed, folder) as arena:
        for plan in build_plan(result.rounds, result.messages, result.seed, modes):
            current = Round(arena, plan)
            log = await current.run()
            if doctor is not None and plan.number == result.rounds:
                log = doctor(log)
            done = RoundResult(log, build_account(log), tuple(current.timeline), current.missed)
            result.add(done)
            result.seconds = anyio.current_time() - began
            tell(done)


@asynccontextmanager
async def _ending_on_sigterm() -> AsyncIterator[None]:
    """Python's own way to end on SIGTERM would leave a gateway and a folder behind."""
    was_told = False
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            nonlocal was_told
            with anyio.open_signal_receiver(signal.SIGTERM) as received:
                async for _ in received:
                    was_told = True
                    tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        yield
        tasks.cancel_scope.cancel()
    if was_told:
        raise ChaosError("the run was ended by SIGTERM")
