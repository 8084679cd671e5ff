"""Snapshot: what stands in a gateway's bus, read from outside."""

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from nanobee.bus.sqlite import FILE_NAME
from nanobee.messages import Address
from nanobee.testing.chaos.log import BusRow, OutRow

BUSY_SECONDS = 2.0
"""How long a read waits for a writer's checkpoint."""
_LOG_SUFFIX = "-wal"
_UNDER_WAY = ("arriving", "ready", "running")
_UNSENT = ("ready", "sending", "unknown")


@dataclass(frozen=True, slots=True)
class UnderWay:
    """What a dead gateway's bus holds on disk."""

    sending: frozenset[tuple[int, str]] = frozenset()
    """Chat and text of each send that may have been on its way."""
    streams: frozenset[tuple[int, int]] = frozenset()
    """Chat and message id of each streamed message that the bus knows."""


class BusReader:
    """Reads the rows of some chats of one channel."""

    def __init__(self, state: Path, channel: str) -> None:
        self._file = state / FILE_NAME
        self._channel = channel

    def at_death(self, chats: Collection[int]) -> UnderWay:
        """What was under way when the gateway died."""
        with self._copy() as db:
            sending = self._find(db, "address", "address, payload", "outbox", chats, "state = 'sending'")
            streams = self._find(db, "address", "address, platform_ids", "outbox", chats, "kind = 'stream'")
        return UnderWay(
            frozenset((self._chat(address), _text(payload)) for address, payload in sending),
            frozenset((self._chat(address), int(each)) for address, ids in streams for each in json.loads(ids)),
        )

    def is_idle(self, chats: Collection[int]) -> bool:
        """Whether nothing of these chats is under way, in a gateway that runs."""
        with self._open(self._file) as db:
            rows = self._find(db, "session", "1", "inbox", chats, f"state in {_UNDER_WAY}")
            return not rows and not self._find(db, "address", "1", "outbox", chats, f"state in {_UNSENT}")

    def inbox(self, chats: Collection[int]) -> dict[int, BusRow]:
        """The inbound rows of a gateway that runs, by the message's id."""
        with self._open(self._file) as db:
            found = self._find(db, "session", "source_id, state, reason", "inbox", chats)
            return {int(source_id): BusRow(state, reason) for source_id, state, reason in found}

    def outbox(self, chats: Collection[int]) -> tuple[OutRow, ...]:
        """Its outbound rows."""
        columns = "address, payload, kind, state, reason"
        with self._open(self._file) as db:
            found = self._find(db, "address", columns, "outbox", chats, "kind <> 'stream'")
            return tuple(OutRow(self._chat(each[0]), _text(each[1]), *each[2:]) for each in found)

    def _find(
        self, db: sqlite3.Connection, key: str, columns: str, table: str, chats: Collection[int], where: str = "true"
    ) -> list[tuple[str, ...]]:
        keys = [Address(self._channel, str(chat)).session_key for chat in chats]
        marks = ", ".join("?" * len(keys))
        return db.execute(f"select {columns} from {table} where {key} in ({marks}) and {where}", keys).fetchall()

    @staticmethod
    def _chat(session_key: str) -> int:
        return int(Address.from_session_key(session_key).chat_id)

    @contextmanager
    def _copy(self) -> Iterator[sqlite3.Connection]:
        """A copy, so that what the dead left is found by the next life exactly as it was."""
        with tempfile.TemporaryDirectory(prefix="nanobee-chaos-") as folder:
            for file in (self._file, self._file.with_name(FILE_NAME + _LOG_SUFFIX)):
                if file.exists():
                    shutil.copyfile(file, Path(folder) / file.name)
            with self._open(Path(folder) / FILE_NAME, "rwc") as db:
                yield db

    @staticmethod
    @contextmanager
    def _open(file: Path, mode: str = "ro") -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode={mode}", uri=True, timeout=BUSY_SECONDS)) as db:
            yield db


def _text(payload: str) -> str:
    return str(json.loads(payload).get("text", ""))
