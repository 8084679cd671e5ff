"""SqliteOutbox: the delivery's transitions, which `SqliteBus` has beside all others."""

import time
from collections.abc import Callable, Sequence

from nanobee.bus import outbox_table
from nanobee.bus.bus import Listener, NewSend, Outgoing
from nanobee.bus.checkpoints import checkpoint
from nanobee.bus.journaling import insert_sends
from nanobee.bus.writer import Transaction, Writer
from nanobee.messages import Address, OutboundPart


class SqliteOutbox:
    """What becomes of outbound parts and of the messages that turns stream into."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._listener: Listener = _Nobody()
        self._outcomes: dict[int, Callable[[Transaction], None]] = {}
        """What became of parts whose rows do not say so on disk yet."""

    async def outgoing(self, address: Address) -> Outgoing:
        """Mark the address's next part as sending and return it."""
        outgoing = await self._writer.submit(lambda tx: outbox_table.outgoing(tx, address, self._outcomes, time.time()))
        if outgoing.part is not None:
            checkpoint("sending.committed")
        return outgoing

    async def sent(self, part: OutboundPart, platform_ids: Sequence[str]) -> None:
        """The platform has the part."""

        def outcome(tx: Transaction) -> None:
            outbox_table.sent(tx, part, platform_ids, time.time())
            checkpoint("sent.stored")

        await self._writer.submit(self._remember(part, outcome), is_waited_for=False)

    def _remember(self, part: OutboundPart, outcome: Callable[[Transaction], None]) -> Callable[[Transaction], None]:
        """The operation that stores what became of a part.

        Where its commit fails, the row still says `sending`: what asks for the address next stores it
        first, so that a full disk does not have the part sent again and again.
        """

        def operation(tx: Transaction) -> None:
            outcome(tx)
            tx.after_commit.append(lambda: self._forget(part))

        self._outcomes[part.id] = operation
        return operation

    def _forget(self, part: OutboundPart) -> None:
        self._outcomes.pop(part.id, None)

    async def stream_handle(self, turn: str) -> tuple[str, ...]:
        """The platform message that the turn streams into."""

        def operation(tx: Transaction) -> tuple[str, ...]:
            tx.changed = False
            return outbox_table.stream_handle(tx, turn)

        return await self._writer.submit(operation, is_waited_for=False)

    async def record_stream(self, address: Address, turn: str, platform_ids: Sequence[str]) -> None:
        """Remember the platform message that the turn streams into."""
        await self._writer.submit(lambda tx: outbox_table.record_stream(tx, address, turn, platform_ids, time.time()))
        checkpoint("stream.committed")

    async def postpone(self, part: OutboundPart, reason: str, seconds: float, *, is_unknown: bool) -> bool:
        """Try the part again, not before `seconds` have passed; False where it is too old for that."""
        operation = self._remember(
            part, lambda tx: outbox_table.postpone(tx, part, reason, seconds, is_unknown, time.time())
        )
        if await self._writer.submit(lambda tx: outbox_table.is_too_old(tx, part, time.time()), is_waited_for=False):
            return False
        await self._writer.submit(operation)
        return True

    async def hold_back(self, address: Address) -> None:
        """Nobody can be reached there: the part that was to be sent waits, and this was no try."""
        await self._writer.submit(lambda tx: outbox_table.hold_back(tx, address, self._outcomes, time.time()))

    async def bury(self, part: OutboundPart, reason: str, notices: Sequence[NewSend] = ()) -> None:
        """Give the part up; its message's later parts too. `notices` tell the owner."""

        def outcome(tx: Transaction) -> None:
            outbox_table.bury(tx, part, reason, time.time())
            self._announce_sends(tx, insert_sends(tx, f"dead-{part.id}", None, notices, time.time()))

        await self._writer.submit(self._remember(part, outcome))

    def _announce_sends(self, tx: Transaction, addresses: Sequence[Address]) -> None:
        for address in addresses:
            tx.after_commit.append(self._outbox_call(address))

    def _outbox_call(self, address: Address) -> Callable[[], None]:
        return lambda: self._listener.outbox_ready(address)


class _Nobody:
    """Listens until the gateway's parts do: what it misses, `listen` tells again."""

    def session_ready(self, session_key: str) -> None: ...

    def control_ready(self) -> None: ...

    def row_arriving(self) -> None: ...

    def outbox_ready(self, address: Address) -> None: ...
