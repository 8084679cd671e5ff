"""Consolidator: when a session is taken into memory, in the background, never on the reply path."""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import takewhile

import anyio
from anyio.abc import TaskGroup

from nanobee.errors import NanobeeError, StateError
from nanobee.memory.consolidation import Consolidation, GaveWayError
from nanobee.memory.transcript import cost
from nanobee.sessions.session import Session

logger = logging.getLogger(__name__)

MAX_WATCHED = 4_096
"""Sessions whose growth is counted; one that was dropped is counted again at its next turn."""
FIRST_PAUSE_SECONDS = 300.0
MAX_PAUSE_SECONDS = 6 * 3600.0
"""How long a session is left alone after a model that did not answer; twice as long each time."""
QUIET_SECONDS = 20.0
"""How long a session waits for a quiet moment after an embedded model was needed by a turn."""
PATIENCE_FACTOR = 4
MAX_PATIENCE = 64
"""How much more a session must have grown for the next call, after a model that gave nothing usable."""


@dataclass(slots=True)
class _Watch:
    """How much of a session is not in memory, as far as its turns have told."""

    counted: int = -1
    """Lines up to this one are counted; -1 before the first count."""
    tokens: int = 0
    patience: int = 1
    failures: int = 0
    not_before: float = 0.0


@dataclass(slots=True)
class Consolidator:
    """Looks at each session after its turns. Lives on the event loop."""

    consolidation: Consolidation
    on_change: Callable[[str], None] = lambda session_key: None
    """Told of each session of which something went into memory."""
    _watches: OrderedDict[str, _Watch] = field(default_factory=OrderedDict)
    _under_way: dict[str, bool] = field(default_factory=dict)
    """Sessions being taken in, and whether to look again afterwards."""
    _tasks: TaskGroup | None = None
    _busy: int = 0
    _quiet: anyio.Event = field(default_factory=anyio.Event)

    def start(self, tasks: TaskGroup) -> None:
        """Consolidate from now on, first of all what the last run left; every task belongs to `tasks`."""
        self._tasks = tasks
        self._spawn(self._finish_old)

    async def wait_idle(self) -> None:
        """Return once nothing is under way; what waits for its time is not."""
        while self._busy:
            self._quiet = anyio.Event()
            await self._quiet.wait()

    def _spawn(self, work: Callable[..., Awaitable[None]], *arguments: object) -> None:
        if self._tasks is not None:
            self._busy += 1
            self._tasks.start_soon(self._work, work, *arguments, name="memory")

    async def _work(self, work: Callable[..., Awaitable[None]], *arguments: object) -> None:
        try:
            await work(*arguments)
        finally:
            self._busy -= 1
            self._quiet.set()

    async def _finish_old(self) -> None:
        try:
            for session_key in await self.consolidation.bus.unfinished_consolidations():
                self.archive_soon(session_key)
        except StateError as error:
            logger.warning("what the last run left for memory waits: %s", error)

    def look_at(self, session: Session) -> None:
        """A turn of the session has ended."""
        self._spawn(self._look, session)

    def archive_soon(self, session_key: str) -> None:
        """The conversation has ended (`/new`): all of it goes into memory, however little it is."""
        self._watch(session_key).not_before = 0.0
        self._begin(session_key)

    def _watch(self, session_key: str) -> _Watch:
        watch = self._watches.setdefault(session_key, _Watch())
        self._watches.move_to_end(session_key)
        if len(self._watches) > MAX_WATCHED:
            self._watches.popitem(last=False)
        return watch

    async def _look(self, session: Session) -> None:
        watch = self._watch(session.key)
        try:
            if watch.counted < 0:
                watch.counted = (await self.consolidation.bus.bookmark(session.key)).through or 0
                watch.tokens = 0
            threshold = self.consolidation.threshold(await self.consolidation.choose_model())
        except NanobeeError as error:
            logger.warning("%s: not looked at for memory: %s", session.key, error)
            return
        new = list(takewhile(lambda line: line.seq > watch.counted, reversed(session.lines)))
        if new:
            watch.counted = new[0].seq
            watch.tokens += cost(reversed(new))
        if watch.tokens >= threshold * watch.patience and anyio.current_time() >= watch.not_before:
            self._begin(session.key)

    def _begin(self, session_key: str) -> None:
        if session_key in self._under_way:
            self._under_way[session_key] = True
        elif self._tasks is not None:
            self._under_way[session_key] = False
            self._spawn(self._run, session_key)

    async def _run(self, session_key: str) -> None:
        try:
            await self._take_in(session_key)
            while self._under_way[session_key]:
                self._under_way[session_key] = False
                await self._take_in(session_key)
        finally:
            del self._under_way[session_key]

    async def _take_in(self, session_key: str) -> None:
        watch = self._watch(session_key)
        try:
            report = await self.consolidation.run(session_key, watch.patience)
        except GaveWayError:
            watch.not_before = anyio.current_time() + QUIET_SECONDS
            self._later(session_key, QUIET_SECONDS)
            return
        except NanobeeError as error:
            self._leave_alone(session_key, watch, error)
            return
        except Exception:
            # One session's fault must not end the background work for all others.
            logger.exception("%s: could not be taken into memory", session_key)
            self._leave_alone(session_key, watch, None)
            return
        watch.failures, watch.counted = 0, -1
        if report.raw_parts:
            watch.patience = min(watch.patience * PATIENCE_FACTOR, MAX_PATIENCE)
        elif report.parts:
            watch.patience = 1
        if report.parts:
            self.on_change(session_key)

    def _leave_alone(self, session_key: str, watch: _Watch, error: Exception | None) -> None:
        pause = min(FIRST_PAUSE_SECONDS * 2**watch.failures, MAX_PAUSE_SECONDS)
        watch.failures += 1
        watch.not_before = anyio.current_time() + pause
        if error is not None:
            logger.warning("%s: not taken into memory, tried again in %.0f s: %s", session_key, pause, error)
        self._later(session_key, pause)

    def _later(self, session_key: str, pause: float) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(self._try_again, session_key, pause, name="memory later")

    async def _try_again(self, session_key: str, pause: float) -> None:
        await anyio.sleep(pause)
        watch = self._watches.get(session_key)
        if watch is not None and anyio.current_time() >= watch.not_before:
            self._begin(session_key)
