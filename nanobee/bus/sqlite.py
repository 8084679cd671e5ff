"""SqliteBus: the bus of one process, on one SQLite file."""

import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from nanobee.bus import claiming, consolidation_table, inbox_table, outbox_table, suspension_table
from nanobee.bus.bus import (
    Arriving,
    Claim,
    InboxRow,
    InboxState,
    Listener,
    MakeNotice,
    NewRow,
    NewSend,
    Notices,
    Stopped,
    TurnRef,
    Waiting,
)
from nanobee.bus.capacity import DEFAULT_LIMITS, Capacity, Limits
from nanobee.bus.checkpoints import checkpoint
from nanobee.bus.journaling import append_lines, check_epoch, ensure_session, insert_sends, read_settings
from nanobee.bus.lines import Line, LineKind, NewLine
from nanobee.bus.projection import Projection
from nanobee.bus.sqlite_memory import SqliteMemory
from nanobee.bus.suspension import Answered, NewSuspension, Suspension
from nanobee.bus.syncing import Syncer
from nanobee.bus.writer import Transaction, Writer
from nanobee.channel import Lane, Receipt
from nanobee.config import BusyMode
from nanobee.errors import BusError
from nanobee.messages import InboundMessage

logger = logging.getLogger(__name__)

TIDY_SECONDS = 3600.0
"""Between two looks at rows that ended long ago."""
FILE_NAME = "bus.db"


class SqliteBus(SqliteMemory):
    """Implements `nanobee.bus.bus.Bus`. Open it with `open_bus`."""

    def __init__(self, writer: Writer, projection: Projection, notices: Notices, limits: Limits) -> None:
        super().__init__(writer)
        self._notices = notices
        self._door = inbox_table.Door(Capacity(limits), notices, projection.last_seq)
        self._projection = projection
        self.syncer = Syncer(writer, projection)
        self._is_receiving = True

    # Inbox

    def stop_receiving(self) -> None:
        """Refuse arrivals from now on: their platforms keep them for the next start."""
        self._is_receiving = False

    async def receive(self, rows: Sequence[NewRow]) -> list[Receipt]:
        """Store the arrivals that are new and find room."""
        if not self._is_receiving:
            raise BusError("The gateway is stopping and accepts nothing more")

        def operation(tx: Transaction) -> list[Receipt]:
            received = inbox_table.receive(tx, rows, self._door, time.time())
            tx.changed = bool(received.rows or received.told)
            for row in received.rows:
                self._announce(tx, row.session_key, row.state, row.lane)
            self._announce_sends(tx, received.told)
            checkpoint("receive.stored")
            return received.receipts

        receipts = await self._writer.submit(operation)
        checkpoint("receive.committed")
        return receipts

    def _announce(self, tx: Transaction, session_key: str, state: InboxState, lane: Lane) -> None:
        if state is InboxState.ARRIVING:
            tx.after_commit.append(lambda: self._listener.row_arriving())
        elif lane is Lane.CONTROL:
            tx.after_commit.append(lambda: self._listener.control_ready())
        else:
            tx.after_commit.append(lambda: self._listener.session_ready(session_key))

    async def resolve(self, row: InboxRow, message: InboundMessage) -> None:
        """Complete an arriving row: it is ready."""

        def operation(tx: Transaction) -> None:
            inbox_table.resolve(tx, row.id, message, time.time())
            self._announce(tx, row.session_key, InboxState.READY, row.lane)
            checkpoint("resolve.stored")

        await self._writer.submit(operation, is_waited_for=False)

    async def arriving(self, channel: str, limit: int) -> Arriving:
        """The oldest of a channel's rows that wait for its resolver."""
        return await self._writer.submit(
            lambda tx: inbox_table.arriving(tx, channel, limit, time.time()), is_waited_for=False
        )

    async def resolve_later(self, row: InboxRow, seconds: float) -> None:
        """The platform did not answer: the row is tried again."""
        await self._writer.submit(lambda tx: inbox_table.resolve_later(tx, row.id, seconds, time.time()))

    async def claim(self, session_key: str, *, busy: BusyMode = BusyMode.QUEUE) -> Claim | None:
        """Take the next turn of a session."""

        def operation(tx: Transaction) -> Claim | None:
            claim = claiming.claim(tx, session_key, busy, time.time())
            if claim is not None:
                self._note(tx, session_key, claim.lines)
                checkpoint("claim.stored")
            return claim

        return await self._writer.submit(operation, is_waited_for=False)

    async def steer(self, ref: TurnRef) -> tuple[tuple[InboxRow, ...], tuple[Line, ...]]:
        """Take the messages that wait behind a running turn into it."""

        def operation(tx: Transaction) -> tuple[tuple[InboxRow, ...], tuple[Line, ...]]:
            check_epoch(tx, ref)
            rows, lines = claiming.steer(tx, ref, time.time())
            self._note(tx, ref.session_key, lines)
            checkpoint("steer.stored")
            return rows, lines

        return await self._writer.submit(operation)

    async def interrupt(self, session_key: str) -> str | None:
        """End a running turn for the messages that wait behind it."""

        def operation(tx: Transaction) -> str | None:
            turn = claiming.interrupt(tx, session_key, time.time())
            if turn is not None:
                tx.after_commit.append(lambda: self._listener.session_ready(session_key))
            return turn

        return await self._writer.submit(operation)

    async def claim_control(self) -> InboxRow | None:
        """Take the oldest control row."""
        return await self._writer.submit(lambda tx: inbox_table.claim_control(tx, time.time()), is_waited_for=False)

    async def record(
        self,
        ref: TurnRef,
        lines: Sequence[NewLine],
        sends: Sequence[NewSend] = (),
        consumed: Sequence[str] = (),
    ) -> tuple[Line, ...]:
        """Append lines of a turn, with sends, in one transaction."""

        def operation(tx: Transaction) -> tuple[Line, ...]:
            placed = self._write(tx, ref, lines, sends)
            suspension_table.consume(tx, consumed, time.time())
            checkpoint("record.stored")
            return placed

        placed = await self._writer.submit(operation)
        checkpoint("record.committed")
        return placed

    async def suspend(
        self, ref: TurnRef, lines: Sequence[NewLine], sends: Sequence[NewSend], suspensions: Sequence[NewSuspension]
    ) -> tuple[Line, ...]:
        """Put the turn to sleep until its questions are answered."""

        def operation(tx: Transaction) -> tuple[Line, ...]:
            placed = self._write(tx, ref, lines, sends)
            suspension_table.insert(tx, ref, suspensions, time.time())
            tx.after_commit.append(lambda: self._listener.session_ready(ref.session_key))
            checkpoint("suspend.stored")
            return placed

        placed = await self._writer.submit(operation)
        checkpoint("suspend.committed")
        return placed

    async def answers(self, ref: TurnRef) -> tuple[Suspension, ...]:
        """The answers that a resumed turn has not seen yet."""

        def operation(tx: Transaction) -> tuple[Suspension, ...]:
            tx.changed = False
            return tuple(suspension_table.answered_in(tx, ref.turn))

        return await self._writer.submit(operation, is_waited_for=False)

    async def answer(self, suspension_id: str, session_key: str, text: str) -> Answered:
        """Answer an open question of a session, once."""

        def operation(tx: Transaction) -> Answered:
            found = suspension_table.find(tx, suspension_id)
            if found is None or found.session_key != session_key:
                tx.changed = False
                return Answered(None)
            tx.after_commit.append(lambda: self._listener.session_ready(session_key))
            return suspension_table.answer(tx, suspension_id, text, time.time())

        return await self._writer.submit(operation)

    async def finish(
        self,
        ref: TurnRef,
        lines: Sequence[NewLine],
        sends: Sequence[NewSend] = (),
        requeue: InboundMessage | None = None,
    ) -> tuple[Line, ...]:
        """End the turn: its rows are done, the session is free."""

        def operation(tx: Transaction) -> tuple[Line, ...]:
            placed = self._write(tx, ref, lines, sends)
            if any(line.kind in (LineKind.RESET, LineKind.UNDONE) for line in lines):
                suspension_table.cancel(tx, ref.session_key, time.time())
                consolidation_table.want(tx, ref.session_key, placed)
            inbox_table.finish(tx, ref, time.time())
            if requeue is not None:
                inbox_table.requeue(tx, ref, requeue, time.time())
            tx.after_commit.append(lambda: self._listener.session_ready(ref.session_key))
            checkpoint("finish.stored")
            return placed

        placed = await self._writer.submit(operation)
        checkpoint("finish.committed")
        return placed

    def _write(
        self, tx: Transaction, ref: TurnRef, lines: Sequence[NewLine], sends: Sequence[NewSend]
    ) -> tuple[Line, ...]:
        check_epoch(tx, ref)
        placed = append_lines(tx, ref.session_key, ref.turn, ref.epoch, lines)
        self._note(tx, ref.session_key, placed)
        self._announce_sends(tx, insert_sends(tx, ref.turn, ref.turn, sends, time.time()))
        return placed

    async def hand_back(self, ref: TurnRef) -> None:
        """Give a turn's rows back: it is claimed again as a resumed turn."""

        def operation(tx: Transaction) -> None:
            check_epoch(tx, ref)
            inbox_table.hand_back(tx, ref, time.time())
            tx.after_commit.append(lambda: self._listener.session_ready(ref.session_key))

        await self._writer.submit(operation)

    # Control rows

    async def stop(self, row: InboxRow, session_key: str, make_notice: MakeNotice) -> Stopped:
        """End a session's turn, park its queue and answer the control row."""

        def operation(tx: Transaction) -> Stopped:
            ensure_session(tx, session_key, self._projection.last_seq)
            stopped, addresses = inbox_table.stop(tx, row, session_key, make_notice, time.time())
            self._announce_sends(tx, addresses)
            checkpoint("stop.stored")
            return stopped

        stopped = await self._writer.submit(operation)
        checkpoint("stop.committed")
        return stopped

    async def resume(self, session_key: str) -> int:
        """Make a session's parked rows ready again."""

        def operation(tx: Transaction) -> int:
            count = inbox_table.resume(tx, session_key, time.time())
            tx.after_commit.append(lambda: self._listener.session_ready(session_key))
            tx.after_commit.append(lambda: self._listener.row_arriving())
            tx.changed = count > 0
            return count

        return await self._writer.submit(operation)

    async def settings(self, session_key: str) -> dict[str, str]:
        """What a person chose for the session."""

        def operation(tx: Transaction) -> dict[str, str]:
            tx.changed = False
            return read_settings(tx, session_key)

        return await self._writer.submit(operation, is_waited_for=False)

    async def waiting(self, session_key: str) -> Waiting:
        """What of a session is under way or waits."""
        return await self._writer.submit(lambda tx: inbox_table.waiting(tx, session_key), is_waited_for=False)

    async def answer_control(self, row: InboxRow, send: NewSend | None) -> None:
        """Close a control row, with its reply."""

        def operation(tx: Transaction) -> None:
            inbox_table.close_row(tx, row.id, time.time())
            sends = [] if send is None else [send]
            self._announce_sends(tx, insert_sends(tx, f"row-{row.id}", None, sends, time.time()))

        await self._writer.submit(operation)

    # Journal

    async def append(self, session_key: str, lines: Sequence[NewLine]) -> tuple[Line, ...]:
        """Append lines that belong to no turn."""
        return await self._writer.submit(lambda tx: self._append(tx, session_key, lines))

    def _append(self, tx: Transaction, session_key: str, lines: Sequence[NewLine]) -> tuple[Line, ...]:
        ensure_session(tx, session_key, self._projection.last_seq)
        placed = append_lines(tx, session_key, None, 0, lines)
        self._note(tx, session_key, placed)
        return placed

    async def journal(self, session_key: str) -> tuple[Line, ...]:
        """The session's lines that are not yet known to be in its file."""

        def operation(tx: Transaction) -> tuple[Line, ...]:
            tx.changed = False
            found = tx.db.execute("select line from journal where session = ? order by seq", (session_key,))
            return tuple(Line.from_json(line) for (line,) in found)

        return await self._writer.submit(operation, is_waited_for=False)

    def _note(self, tx: Transaction, session_key: str, lines: Sequence[Line]) -> None:
        if lines:
            last = lines[-1].seq
            tx.after_lines.append(lambda: self.syncer.note(session_key, last))

    # Start

    async def keep_tidy(self) -> None:
        """Forget what ended long ago, now and every hour, until cancelled."""
        while True:
            try:
                if await self._writer.submit(lambda tx: inbox_table.forget_old(tx, time.time())):
                    continue
            except BusError as error:
                logger.warning("%s; old rows are kept", error)
            await anyio.sleep(TIDY_SECONDS)

    async def recover(self) -> None:
        """Hand back what the last holder left under way; complete the session files from the journal."""

        def operation(tx: Transaction) -> None:
            inbox_table.recover(tx, self._notices, time.time())
            self.syncer.complete(tx)

        await self._writer.submit(operation)

    async def begun_turns(self) -> list[tuple[str, str]]:
        """Session and turn of all that was begun and neither ended nor sleeps."""
        return await self._writer.submit(claiming.begun_turns, is_waited_for=False)

    async def listen(self, listener: Listener) -> None:
        """Tell `listener` of everything that waits, and of everything from now on."""

        def operation(tx: Transaction) -> None:
            for waiting in inbox_table.waiting_sessions(tx):
                self._announce(tx, *waiting)
            self._announce_sends(tx, outbox_table.open_addresses(tx))
            tx.changed = True

        self._listener = listener
        await self._writer.submit(operation)


@asynccontextmanager
async def open_bus(
    state: Path, projection: Projection, notices: Notices, limits: Limits = DEFAULT_LIMITS
) -> AsyncIterator[SqliteBus]:
    """The bus of the state folder, recovered; the caller holds the folder's lock.

    Raises:
        BusError: the file cannot be opened.
    """
    writer = Writer(state / FILE_NAME, projection.append)
    writer.start()
    bus = SqliteBus(writer, projection, notices, limits)
    try:
        await bus.recover()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bus.syncer.run)
            tasks.start_soon(bus.keep_tidy)
            yield bus
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await bus.syncer.finish()
            await writer.aclose()
