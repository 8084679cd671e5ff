"""SqliteMemory: the memory's bookkeeping, which `SqliteBus` has beside all other transitions."""

from abc import abstractmethod
from collections.abc import Sequence

from nanobee.bus import consolidation_table
from nanobee.bus.checkpoints import checkpoint
from nanobee.bus.consolidation_table import Bookmark
from nanobee.bus.lines import Line, LineKind, NewLine
from nanobee.bus.sqlite_outbox import SqliteOutbox
from nanobee.bus.writer import Transaction


class SqliteMemory(SqliteOutbox):
    """How far each session is in memory."""

    @abstractmethod
    def _append(self, tx: Transaction, session_key: str, lines: Sequence[NewLine]) -> tuple[Line, ...]:
        """Append lines that belong to no turn."""

    async def bookmark(self, session_key: str) -> Bookmark:
        """How far a session is in memory."""
        return await self._writer.submit(lambda tx: consolidation_table.read(tx, session_key), is_waited_for=False)

    async def unfinished_consolidations(self) -> list[str]:
        """The sessions of which something has still to go into memory, however little it is."""
        return await self._writer.submit(consolidation_table.unfinished, is_waited_for=False)

    async def accept_consolidation(self, session_key: str, after: int, answer: str) -> bool:
        """Store a model's answer for the range behind `after`, once. Returns after the commit."""
        is_new = await self._writer.submit(lambda tx: consolidation_table.accept(tx, session_key, after, answer))
        checkpoint("memory.accepted")
        return is_new

    async def remember_consolidation(self, session_key: str, through: int) -> None:
        """How far the session's own lines say that it is in memory, for a bus that had lost its count."""
        await self._writer.submit(lambda tx: consolidation_table.move(tx, session_key, through))

    async def finish_consolidation(self, session_key: str, through: int) -> tuple[Line, ...]:
        """The lines up to `through` are in memory. Returns after the commit."""

        def operation(tx: Transaction) -> tuple[Line, ...]:
            lines = self._append(tx, session_key, [NewLine(LineKind.CONSOLIDATED, {"through": through})])
            consolidation_table.move(tx, session_key, through)
            checkpoint("memory.moved")
            return lines

        return await self._writer.submit(operation)

    async def count_memory_call(self, day: str, max_calls: int) -> bool:
        """Count one model call of that day; False where it would be one too many."""
        return await self._writer.submit(lambda tx: consolidation_table.count_call(tx, day, max_calls))
