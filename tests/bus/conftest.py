"""A real bus on a temporary state folder, with a listener that records."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanobee.bus.bus import InboxRow, NewRow, NewSend
from nanobee.bus.capacity import Limits
from nanobee.bus.sqlite import SqliteBus, open_bus
from nanobee.channel import Arrival, Lane, lane_of
from nanobee.messages import Address, InboundMessage, OutboundMessage, PartKind
from nanobee.sessions.files import SessionFiles

LIMITS = Limits(busy_at=3, per_session=5, total=400)


@dataclass
class Heard:
    """What the listener was told, in order."""

    sessions: list[str] = field(default_factory=list)
    controls: int = 0
    arriving: int = 0
    addresses: list[Address] = field(default_factory=list)

    def session_ready(self, session_key: str) -> None:
        self.sessions.append(session_key)

    def control_ready(self) -> None:
        self.controls += 1

    def row_arriving(self) -> None:
        self.arriving += 1

    def outbox_ready(self, address: Address) -> None:
        self.addresses.append(address)


@dataclass(frozen=True)
class Opened:
    bus: SqliteBus
    heard: Heard
    files: SessionFiles


OpenBus = Callable[[], AbstractAsyncContextManager[Opened]]


@pytest.fixture
def open_state(tmp_path: Path) -> OpenBus:
    """Opens the bus of one state folder, again and again: each time as after a restart."""
    return opener(tmp_path)


def opener(state: Path, limits: Limits = LIMITS) -> OpenBus:
    """As `open_state`, for any folder."""

    @asynccontextmanager
    async def open_it() -> AsyncIterator[Opened]:
        files = SessionFiles(state)
        heard = Heard()
        async with open_bus(state, files, PlainNotices(), limits) as bus:
            await bus.listen(heard)
            yield Opened(bus, heard, files)

    return open_it


class PlainNotices:
    """What senders are told, in words that tests look for."""

    def crashed(self, row: InboxRow) -> NewSend:
        return self._notice(row, "it crashed three times", "crashed")

    def busy(self, row: InboxRow, waiting: int) -> NewSend:
        return self._notice(row, f"kept behind {waiting}", "busy")

    def not_accepted(self, row: InboxRow) -> NewSend:
        return self._notice(row, "not accepted", "full")

    def _notice(self, row: InboxRow, text: str, key: str) -> NewSend:
        address = Address.from_session_key(row.session_key)
        return NewSend(OutboundMessage(address, text), PartKind.NOTICE, key, (text,))


def new_row(text: str, chat: str = "1", event: str | None = None) -> NewRow:
    """A person's message that needs no resolver."""
    address = Address("test", chat)
    message = InboundMessage(address, "7", text, datetime.now(UTC), source_id="s1")
    arrival = Arrival(event or text, address.session_key, "7", lane_of(text), {}, source_id="s1", message=message)
    return NewRow(arrival, f"test::{arrival.event_key}:{chat}")


def new_send(text: str, key: str = "final", chat: str = "1", texts: tuple[str, ...] | None = None) -> NewSend:
    """An answer to a chat."""
    return NewSend(OutboundMessage(Address("test", chat), text), PartKind.ANSWER, key, texts or (text,))


def background(text: str, chat: str, event: str) -> NewRow:
    """What a heartbeat or a sub-agent hands in."""
    row = new_row(text, chat, event).arrival
    arrival = Arrival(event, row.session_key, "7", Lane.BACKGROUND, {}, message=row.message)
    return NewRow(arrival, f"test::{event}:{chat}")


def incomplete(chat: str, event: str) -> NewRow:
    """A message that its channel has still to resolve."""
    return NewRow(Arrival(event, f"test:{chat}", "7", Lane.USER, {"event": event}), f"test::{event}:{chat}")
