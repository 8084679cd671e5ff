"""Round: lets people talk, kills the gateway as planned, and writes down what was seen."""

from dataclasses import dataclass, field

import anyio

from nanobee.testing.chaos.arena import Arena
from nanobee.testing.chaos.log import Kill, RoundLog
from nanobee.testing.chaos.marks import read_marks
from nanobee.testing.chaos.modes import Mode
from nanobee.testing.chaos.people import People
from nanobee.testing.chaos.plan import KillKind, PlannedKill, RoundPlan

QUIET_SECONDS = 0.15
"""Without a call for so long, a kill does not wait for more of them."""
SYNC_SECONDS = 3.0
"""How long a life waits for its armed point when nothing is left to do: session files are synced late."""
SETTLE_SECONDS = 30.0
"""How long after the last sign of life a round is given up."""


@dataclass(slots=True)
class Round:
    """One round on its way. Run it once."""

    arena: Arena
    plan: RoundPlan
    timeline: list[tuple[float, str]] = field(default_factory=list)
    """Seconds since its beginning, and what happened."""
    missed: str | None = None
    """The point that was armed and not passed."""
    _kills: list[Kill] = field(default_factory=list)
    _people: People = field(init=False)
    _began: float = 0.0
    _quiet_since: float = 0.0
    _calls: int = 0

    def __post_init__(self) -> None:
        self._people = People(self.arena, self.plan.scripts)

    @property
    def _chats(self) -> list[int]:
        return [script.chat_id for script in self.plan.scripts]

    async def run(self) -> RoundLog:
        """From the first message to the last answer.

        Raises:
            ChaosError: the gateway ended by itself, or did not come up.
        """
        arena = self.arena
        arena.model.requests.clear()
        arena.model.violations.clear()
        await arena.prepare(self.plan.mode)
        arena.telegram.calls.clear()
        arena.create_files([script.file for script in self.plan.scripts])
        self._began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._people.talk)
            first, second = self.plan.kills
            await self._kill_after_calls(first)
            await self._kill_again(second)
            await self._settle()
            tasks.cancel_scope.cancel()
        self._note("settled" if self._is_settled() else "given up")
        return self._write_log()

    # Kills

    async def _kill_after_calls(self, kill: PlannedKill) -> None:
        await self.arena.until(
            lambda: self.arena.calls() >= kill.times or self._quiet() > QUIET_SECONDS, SETTLE_SECONDS
        )
        self.arena.check_alive()
        if kill.kind is KillKind.STOP:
            self.arena.child.ask_to_stop()
        await anyio.sleep(kill.delay_seconds)
        await self._die(kill)

    async def _kill_again(self, kill: PlannedKill) -> None:
        if kill.kind is KillKind.START:
            await self.arena.start(self.plan.mode)
            await anyio.sleep(kill.delay_seconds)
            self.arena.check_alive()
        else:
            await self.arena.start(self.plan.mode, str(kill))
            await self._come_up()
            if not await self._pass(kill):
                self.missed = kill.point
                return
        await self._die(kill)
        await self.arena.start(self.plan.mode)
        await self._come_up()

    async def _pass(self, kill: PlannedKill) -> bool:
        """Wait for the armed point, as long as the life has something to do."""
        patience = SYNC_SECONDS if kill.point.startswith("lines.") else QUIET_SECONDS
        await self.arena.until(
            lambda: self.arena.child.has_ended or (self._quiet() > patience and self._is_settled()), SETTLE_SECONDS
        )
        if self.arena.child.has_ended and not self.arena.child.was_killed:
            raise self.arena.child.fail()
        return self.arena.child.has_ended

    async def _die(self, kill: PlannedKill) -> None:
        under_way = await self.arena.kill(self._chats)
        self._note(f"✗ {kill}")
        at = self.timeline[-1][0]
        self._kills.append(
            Kill(self.arena.life, kill.kind, kill.point or str(kill), at, under_way.sending, under_way.streams)
        )
        self._people.kills += 1

    async def _come_up(self) -> None:
        await self.arena.wait_up()
        if self.arena.is_up:
            self._note("up")

    # The end

    async def _settle(self) -> None:
        self._quiet()
        self._quiet_since = anyio.current_time()
        while not self._is_settled() and self._quiet() < SETTLE_SECONDS:
            self.arena.check_alive()
            await self.arena.until(self._is_settled, QUIET_SECONDS)

    def _is_settled(self) -> bool:
        return self._people.is_heard and self.arena.bus.is_idle(self._chats)

    def _quiet(self) -> float:
        """Seconds since the gateway has last called one of the fakes."""
        calls = self.arena.calls()
        if calls != self._calls:
            self._calls, self._quiet_since = calls, anyio.current_time()
        return anyio.current_time() - self._quiet_since

    def _note(self, what: str) -> None:
        self.timeline.append((anyio.current_time() - self._began, what))

    def _write_log(self) -> RoundLog:
        rows = self.arena.bus.inbox(self._chats)
        delivered = [each for chat in self._chats for each in self.arena.delivered(chat)]
        return RoundLog(
            number=self.plan.number,
            mode=self.plan.mode,
            said=self._people.heard(rows),
            unsaid=self._people.unsaid,
            delivered=tuple(sorted(delivered, key=lambda each: each.message_id)),
            kills=tuple(self._kills),
            rows=rows,
            sends=self.arena.bus.outbox(self._chats),
            edits=self._edits(),
            illegal=tuple(self.arena.model.violations),
            seconds=anyio.current_time() - self._began,
        )

    def _edits(self) -> dict[int, int]:
        edits: dict[int, int] = {}
        if self.plan.mode in (Mode.TOOLS, Mode.STEERED):
            for script in self.plan.scripts:
                for mark in read_marks(self.arena.read_file(script.file)):
                    edits[mark] = edits.get(mark, 0) + 1
        return edits
