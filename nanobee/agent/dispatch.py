"""Dispatcher: sessions side by side, one turn a session at a time, control rows at once."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

from nanobee.agent import phrases
from nanobee.agent.agent import Agent
from nanobee.agent.commands import Command, CommandContext, CommandResult, Commands
from nanobee.agent.compaction import Compactor
from nanobee.agent.turn import Turn
from nanobee.bus.bus import Claim, InboxRow, NewSend, Stopped, message_of
from nanobee.bus.cancellation import contain
from nanobee.bus.lines import LineKind, NewLine, TurnState
from nanobee.config import BusyMode
from nanobee.errors import BusError, StaleTurnError
from nanobee.messages import OutboundMessage, PartKind

logger = logging.getLogger(__name__)
T = TypeVar("T")

MAX_TURNS = 64
"""Turns at once; what is scarce is limited elsewhere, by model calls a provider."""
MAX_SESSIONS = 512
"""Sessions worked on at once: those that have no slot for their turn have claimed it, or run a command."""
BUS_PAUSE_SECONDS = 1.0
"""How long a session waits when the bus cannot be written."""
HAND_BACK_SECONDS = 5.0
"""How long an ending gateway waits for the bus to take a turn back."""
STOP = "/stop"


@dataclass(frozen=True, slots=True)
class _Running:
    """A claim whose task runs."""

    claim: Claim
    scope: anyio.CancelScope


class Dispatcher:
    """Claims what is ready and runs it. Every task belongs to the group given to `start`."""

    def __init__(self, agent: Agent, commands: Commands) -> None:
        self._agent = agent
        self._commands = commands
        self._commands.register(Command(STOP, phrases.HELP_STOP, self._never))
        self._compactor = Compactor(agent)
        self._slots = anyio.Semaphore(MAX_TURNS)
        self._sessions: dict[str, bool] = {}
        self._backlog: deque[str] = deque()
        self._workers = 0
        self._running: dict[str, _Running] = {}
        self._tasks: TaskGroup | None = None
        self._is_draining = False
        self._ended = anyio.Event()

    def start(self, tasks: TaskGroup) -> None:
        """Run turns from now on."""
        self._tasks = tasks
        self._compactor.start(tasks)
        self._agent.memory.start(tasks)

    async def drain(self, seconds: float) -> None:
        """Begin no further turn; return when those that run have ended, or after `seconds`."""
        self._is_draining = True
        with anyio.move_on_after(seconds):
            while self._running:
                self._ended = anyio.Event()
                await self._ended.wait()

    # Sessions

    def session_ready(self, session_key: str) -> None:
        """The session may have something to claim."""
        if self._tasks is None:
            return
        if session_key in self._sessions:
            self._sessions[session_key] = True
            running = self._running.get(session_key)
            if running is not None and running.claim.busy is BusyMode.INTERRUPT:
                self._tasks.start_soon(self._interrupt, session_key, name="interrupt")
        else:
            self._sessions[session_key] = False
            if self._workers < MAX_SESSIONS:
                self._workers += 1
                self._tasks.start_soon(self._serve, session_key, name="session")
            else:
                self._backlog.append(session_key)

    async def _serve(self, session_key: str) -> None:
        """Work on one session, then on those that wait for a worker."""
        try:
            await self._work(session_key)
            while self._backlog:
                await self._work(self._backlog.popleft())
        finally:
            self._workers -= 1

    async def _work(self, session_key: str) -> None:
        """Run a session's turns until nothing of it is ready."""
        try:
            while not self._is_draining:
                self._sessions[session_key] = False
                try:
                    claim = await self._agent.around.bus.claim(session_key, busy=self._agent.settings.busy)
                except BusError as error:
                    logger.error("%s: %s", session_key, error)
                    await anyio.sleep(BUS_PAUSE_SECONDS)
                    continue
                if claim is not None:
                    await self._run(claim)
                elif not self._sessions[session_key]:
                    return
        finally:
            del self._sessions[session_key]

    async def _interrupt(self, session_key: str) -> None:
        try:
            self._cancel(session_key, await self._agent.around.bus.interrupt(session_key))
        except BusError as error:
            logger.error("%s: the newer message waits: %s", session_key, error)

    def _cancel(self, session_key: str, turn: str | None) -> None:
        """End the task of a turn that the bus has ended already."""
        running = self._running.get(session_key)
        if running is not None and running.claim.ref.turn == turn:
            running.scope.cancel()

    async def _run(self, claim: Claim) -> None:
        """Run one claim; whatever happens in it, the session goes on."""
        key = claim.ref.session_key
        with anyio.CancelScope() as scope:
            self._running[key] = _Running(claim, scope)
            try:
                if claim.rows[0].is_command:
                    await self._run_command(claim)
                else:
                    async with self._slots:
                        await self._run_turn(claim)
            except StaleTurnError:
                self._agent.around.sessions.forget(key)
            except BusError as error:
                logger.error("%s: %s; the turn is resumed", key, error)
                self._agent.around.sessions.forget(key)
                await self._hand_back(claim)
            except anyio.get_cancelled_exc_class():
                if not scope.cancel_called:
                    await self._hand_back_at_end(claim)
                raise
            finally:
                del self._running[key]
                self._ended.set()
        if scope.cancelled_caught:
            # What the turn wrote last, and what /stop wrote, is not in the cached session.
            self._agent.around.sessions.forget(key)

    async def _run_turn(self, claim: Claim) -> None:
        try:
            session = await self._agent.around.sessions.load(claim.ref.session_key)
            session.extend(claim.lines)
            turn = Turn(self._agent, claim, session, await self._agent.models.chain(claim.model))
            await contain(turn.run())
            self._compactor.look_at(session, turn.composed)
            self._agent.memory.look_at(session)
        except (StaleTurnError, BusError):
            raise
        except Exception:
            # One turn's fault must not end its session: the user is told, the next message works.
            logger.exception("%s: turn %s failed", claim.ref.session_key, claim.ref.turn)
            await self._fail(claim)

    async def _fail(self, claim: Claim) -> None:
        text = phrases.INTERNAL_FAULT.say(self._agent.language)
        lines = [NewLine(LineKind.TURN, {"state": TurnState.FAILED, "reason": text})]
        await self._agent.around.bus.finish(claim.ref, lines, [self._reply(claim.rows[-1], text)])
        self._agent.around.sessions.forget(claim.ref.session_key)

    async def _run_command(self, claim: Claim) -> None:
        row = claim.rows[0]
        try:
            result = await self._commands.run(self._agent, row)
        except (StaleTurnError, BusError):
            raise
        except Exception:
            # A command's fault must end neither its session nor the gateway.
            logger.exception("%s: a command failed", row.session_key)
            result = CommandResult(phrases.INTERNAL_FAULT.say(self._agent.language))
        sends = [self._reply(row, result.text)] if result.text else []
        await self._agent.around.bus.finish(claim.ref, result.lines, sends, result.requeue)
        self._agent.around.sessions.forget(claim.ref.session_key)
        if any(line.kind == LineKind.RESET for line in result.lines):
            self._agent.memory.archive_soon(claim.ref.session_key)

    async def _hand_back(self, claim: Claim) -> None:
        while True:
            await anyio.sleep(BUS_PAUSE_SECONDS)
            try:
                return await self._agent.around.bus.hand_back(claim.ref)
            except StaleTurnError:
                return
            except BusError as error:
                logger.error("%s: %s", claim.ref.session_key, error)

    async def _hand_back_at_end(self, claim: Claim) -> None:
        """The gateway ends: the next start goes on with this turn, and does not take it for a crash."""
        with anyio.move_on_after(HAND_BACK_SECONDS, shield=True):
            try:
                await self._agent.around.bus.hand_back(claim.ref)
            except (StaleTurnError, BusError) as error:
                logger.info("%s: %s", claim.ref.session_key, error)

    # Control rows

    def control_ready(self) -> None:
        """A control row waits: it takes no slot and no session."""
        if self._tasks is not None:
            self._tasks.start_soon(self._control, name="control")

    async def _control(self) -> None:
        while (row := await self._persist(self._agent.around.bus.claim_control)) is not None:
            await self._persist(partial(self._run_control, row))

    @staticmethod
    async def _persist(call: Callable[[], Awaitable[T]]) -> T:
        """Call until the bus can be written."""
        while True:
            try:
                return await call()
            except BusError as error:
                logger.error("a control row waits: %s", error)
                await anyio.sleep(BUS_PAUSE_SECONDS)

    async def _run_control(self, row: InboxRow) -> None:
        if self._commands.name_of(row) == STOP:
            await self._stop(row)
            return
        try:
            result = await self._commands.run(self._agent, row)
        except BusError:
            raise
        except Exception:
            # A command's fault must not block the control lane.
            logger.exception("%s: a command failed", row.session_key)
            result = CommandResult(phrases.INTERNAL_FAULT.say(self._agent.language))
        await self._agent.around.bus.answer_control(row, self._reply(row, result.text))

    async def _stop(self, row: InboxRow) -> None:
        stopped = await self._agent.around.bus.stop(
            row, row.session_key, lambda stopped: self._stop_notice(row, stopped)
        )
        self._agent.around.live.close(message_of(row).address)
        self._cancel(row.session_key, stopped.turn)

    def _stop_notice(self, row: InboxRow, stopped: Stopped) -> NewSend:
        language = self._agent.language
        has_ended = stopped.turn is not None or stopped.cancelled_questions
        text = (phrases.STOPPED if has_ended else phrases.NOTHING_TO_STOP).say(language)
        if stopped.cancelled_questions:
            text += " " + phrases.QUESTION_CANCELLED.say(language, count=stopped.cancelled_questions)
        if stopped.parked:
            text += " " + phrases.PARKED.say(language, count=stopped.parked)
        return self._reply(row, text)

    def _reply(self, row: InboxRow, text: str) -> NewSend:
        message = message_of(row)
        return self._agent.send(OutboundMessage(message.address, text, message.source_id), PartKind.NOTICE, "reply")

    async def _never(self, context: CommandContext) -> CommandResult:
        raise AssertionError("/stop is run by the dispatcher itself")
