"""SqliteBus: the bus of one process, on one SQLite file."""

import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio

from nanobee.bus import inbox_table, outbox_table
from nanobee.bus.bus import (
    Claim,
    InboxRow,
    InboxState,
    Listener,
    MakeNotice,
    NewRow,
    NewSend,
    Outgoing,
    Stopped,
    TurnRef,
    Waiting,
)
from nanobee.bus.journaling import append_lines, check_epoch, ensure_session, insert_sends
from nanobee.bus.lines import Line, NewLine
from nanobee.bus.projection import Projection
from nanobee.bus.writer import Transaction, Writer
from nanobee.channel import Lane
from nanobee.errors import BusError
from nanobee.messages import Address, InboundMessage, OutboundPart

logger = logging.getLogger(__name__)

FILE_NAME = "bus.db"
SYNC_SECONDS = 2.0
"""How long journal rows whose lines stand in a session file wait for the file's fsync."""


class SqliteBus:
    """Implements `nanobee.bus.bus.Bus`. Open it with `open_bus`."""

    def __init__(self, writer: Writer, projection: Projection) -> None:
        self._writer = writer
        self._projection = projection
        self._listener: Listener = _Nobody()
        self._unsynced: dict[str, int] = {}
        self._has_unsynced = anyio.Event()

    # Inbox

    async def receive(self, rows: Sequence[NewRow]) -> list[bool]:
        """Store the arrivals; True for each that is new."""

        def operation(tx: Transaction) -> list[bool]:
            stored = inbox_table.receive(tx, rows, self._projection.last_seq, time.time())
            new = [row for row in stored if row is not None]
            tx.changed = bool(new)
            for row in new:
                self._announce(tx, row)
            return [row is not None for row in stored]

        return await self._writer.submit(operation)

    def _announce(self, tx: Transaction, row: InboxRow) -> None:
        if row.state is InboxState.ARRIVING:
            tx.after_commit.append(lambda: self._listener.row_arriving(row))
        elif row.lane is Lane.CONTROL:
            tx.after_commit.append(lambda: self._listener.control_ready())
        else:
            tx.after_commit.append(lambda: self._listener.session_ready(row.session_key))

    async def resolve(self, row: InboxRow, message: InboundMessage) -> None:
        """Complete an arriving row: it is ready."""

        def operation(tx: Transaction) -> None:
            inbox_table.resolve(tx, row.id, message, time.time())
            self._announce(tx, replace(row, state=InboxState.READY, message=message))

        await self._writer.submit(operation, is_waited_for=False)

    async def claim(self, session_key: str) -> Claim | None:
        """Take the next turn of a session."""

        def operation(tx: Transaction) -> Claim | None:
            claim = inbox_table.claim(tx, session_key, time.time())
            if claim is not None:
                self._note(tx, session_key, claim.lines)
            return claim

        return await self._writer.submit(operation, is_waited_for=False)

    async def claim_control(self) -> InboxRow | None:
        """Take the oldest control row."""
        return await self._writer.submit(lambda tx: inbox_table.claim_control(tx, time.time()), is_waited_for=False)

    async def record(self, ref: TurnRef, lines: Sequence[NewLine], sends: Sequence[NewSend] = ()) -> tuple[Line, ...]:
        """Append lines of a turn, with sends, in one transaction."""
        return await self._writer.submit(lambda tx: self._write(tx, ref, lines, sends))

    async def finish(self, ref: TurnRef, lines: Sequence[NewLine], sends: Sequence[NewSend] = ()) -> tuple[Line, ...]:
        """End the turn: its rows are done, the session is free."""

        def operation(tx: Transaction) -> tuple[Line, ...]:
            placed = self._write(tx, ref, lines, sends)
            inbox_table.finish(tx, ref, time.time())
            tx.after_commit.append(lambda: self._listener.session_ready(ref.session_key))
            return placed

        return await self._writer.submit(operation)

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
            return stopped

        return await self._writer.submit(operation)

    async def resume(self, session_key: str) -> int:
        """Make a session's parked rows ready again."""

        def operation(tx: Transaction) -> int:
            count = inbox_table.resume(tx, session_key, time.time())
            tx.after_commit.append(lambda: self._listener.session_ready(session_key))
            for row in inbox_table.arriving(tx):
                if row.session_key == session_key:
                    self._announce(tx, row)
            tx.changed = count > 0
            return count

        return await self._writer.submit(operation)

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

        def operation(tx: Transaction) -> tuple[Line, ...]:
            ensure_session(tx, session_key, self._projection.last_seq)
            placed = append_lines(tx, session_key, None, 0, lines)
            self._note(tx, session_key, placed)
            return placed

        return await self._writer.submit(operation)

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
            tx.after_commit.append(lambda: self._mark_unsynced(session_key, last))

    def _mark_unsynced(self, session_key: str, seq: int) -> None:
        self._unsynced[session_key] = seq
        self._has_unsynced.set()

    async def keep_synced(self) -> None:
        """Fsync session files some time after they grew, then forget their journal rows. Runs until cancelled."""
        while True:
            await self._has_unsynced.wait()
            await anyio.sleep(SYNC_SECONDS)
            try:
                await self.sync()
            except BusError as error:
                logger.warning("%s; the journal keeps its lines", error)

    async def sync(self) -> None:
        """Fsync the session files that grew, then forget their journal rows."""
        batch, self._unsynced, self._has_unsynced = self._unsynced, {}, anyio.Event()
        safe = await anyio.to_thread.run_sync(self._projection.sync, list(batch))
        for key in batch.keys() - safe:
            self._mark_unsynced(key, max(batch[key], self._unsynced.get(key, 0)))
        done = [(key, batch[key]) for key in safe if key in batch]

        def operation(tx: Transaction) -> None:
            tx.db.executemany("delete from journal where session = ? and seq <= ?", done)

        await self._writer.submit(operation)

    # Outbox

    def _announce_sends(self, tx: Transaction, addresses: Sequence[Address]) -> None:
        for address in addresses:
            tx.after_commit.append(self._outbox_call(address))

    def _outbox_call(self, address: Address) -> Callable[[], None]:
        return lambda: self._listener.outbox_ready(address)

    async def outgoing(self, address: Address) -> Outgoing:
        """Mark the address's next part as sending and return it."""
        return await self._writer.submit(lambda tx: outbox_table.outgoing(tx, address, time.time()))

    async def sent(self, part: OutboundPart, platform_ids: Sequence[str]) -> None:
        """The platform has the part."""
        await self._writer.submit(
            lambda tx: outbox_table.sent(tx, part, platform_ids, time.time()), is_waited_for=False
        )

    async def postpone(self, part: OutboundPart, reason: str, seconds: float, *, is_unknown: bool) -> None:
        """Try the part again, not before `seconds` have passed."""
        await self._writer.submit(lambda tx: outbox_table.postpone(tx, part, reason, seconds, is_unknown, time.time()))

    async def bury(self, part: OutboundPart, reason: str) -> None:
        """Give the part up; its message's later parts too."""
        await self._writer.submit(lambda tx: outbox_table.bury(tx, part, reason, time.time()))

    # Start

    async def recover(self) -> None:
        """Hand back what the last holder left under way; complete the session files from the journal."""

        def operation(tx: Transaction) -> None:
            inbox_table.recover(tx, time.time())
            for session_key, last in tx.db.execute("select session, max(seq) from journal group by session"):
                in_file = self._projection.last_seq(session_key)
                missing = tx.db.execute(
                    "select session, line from journal where session = ? and seq > ? order by seq",
                    (session_key, in_file),
                )
                tx.lines += missing.fetchall()
                tx.after_commit.append(_bind_seq(self._mark_unsynced, session_key, last))

        await self._writer.submit(operation)

    async def listen(self, listener: Listener) -> None:
        """Tell `listener` of everything that waits, and of everything from now on."""

        def operation(tx: Transaction) -> None:
            for row in inbox_table.waiting_rows(tx):
                self._announce(tx, row)
            self._announce_sends(tx, outbox_table.open_addresses(tx))
            tx.changed = True

        self._listener = listener
        await self._writer.submit(operation)


class _Nobody:
    """Listens until the gateway's parts do: what it misses, `listen` tells again."""

    def session_ready(self, session_key: str) -> None: ...

    def control_ready(self) -> None: ...

    def row_arriving(self, row: InboxRow) -> None: ...

    def outbox_ready(self, address: Address) -> None: ...


def _bind_seq(function: Callable[[str, int], None], session_key: str, seq: int) -> Callable[[], None]:
    return lambda: function(session_key, seq)


@asynccontextmanager
async def open_bus(state: Path, projection: Projection) -> AsyncIterator[SqliteBus]:
    """The bus of the state folder, recovered; the caller holds the folder's lock.

    Raises:
        BusError: the file cannot be opened.
    """
    writer = Writer(state / FILE_NAME, projection.append)
    writer.start()
    bus = SqliteBus(writer, projection)
    try:
        await bus.recover()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bus.keep_synced)
            yield bus
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            try:
                await bus.sync()
            except BusError as error:
                logger.warning("%s; the journal keeps its lines", error)
            await writer.aclose()
