"""Admin: what a person may do to single rows of the bus, from outside its holder.

Each change is one transaction, by the holder's own rules; whoever makes it wakes the holder after.
"""

from dataclasses import dataclass
from pathlib import Path

from nanobee.bus import inbox_table, outbox_table
from nanobee.bus.bus import InboxState, NewSend, OutboxState
from nanobee.bus.entries import Direction, EntryId
from nanobee.bus.journaling import insert_sends
from nanobee.bus.outside import changing
from nanobee.bus.rows import message_from_json, one
from nanobee.bus.writer import Transaction
from nanobee.channel import Lane
from nanobee.errors import BusError
from nanobee.messages import OutboundMessage, PartKind
from nanobee.phrases import Language, Phrase

DROPPED = "dropped by the owner"
DROPPED_NOTICE = Phrase(
    "Your message was put away by the owner and is not answered.", "您的消息已被主人移除，不会得到回答。"
)
NO_ROW = Phrase("There is no row {id}.", "没有 {id} 这一行。")
RUNNING = Phrase(
    "{id} is being worked on: /stop in its chat ends it.", "{id} 正在处理中：在其聊天中发送 /stop 可结束。"
)
SENDING = Phrase(
    "{id} is being sent; where its process died, the next start tries it again.",
    "{id} 正在发送；如果进程已中断，下次启动时会重试。",
)
BEGUN = Phrase(
    "The turn of {id} has begun and goes on when the gateway runs: /stop in its chat ends it.",
    "{id} 所在的轮次已开始，网关运行时会继续：在其聊天中发送 /stop 可结束。",
)
WAITS_FOR_ANSWER = Phrase(
    "{id} waits for the answer to a question: /stop in its chat cancels both.",
    "{id} 正在等待问题的回答：在其聊天中发送 /stop 可一并取消。",
)
ARRIVING = Phrase("{id} has not wholly arrived yet.", "{id} 尚未完全接收。")
OVER = Phrase("{id} is over ({state}).", "{id} 已结束（{state}）。")
NOT_PARKED = Phrase("{id} is not parked ({state}).", "{id} 没有被搁置（{state}）。")
EARLIER_FIRST = Phrase(
    "{id} is a later part of a message whose part {first} was given up: retry that one.",
    "{id} 是一条消息的后续部分，其 {first} 部分已被放弃：请先重试那一部分。",
)
ONLY_OUT = Phrase("{id} is an inbound row: `resume` is for those.", "{id} 是收到的消息：请使用 resume。")
ONLY_IN = Phrase("{id} is an outbound row: `retry` is for those.", "{id} 是发出的消息：请使用 retry。")


class ChangeRefusedError(BusError):
    """The row is not in a state from which this may be done. Nothing was changed."""

    def __init__(self, phrase: Phrase, **fields: object) -> None:
        self._phrase = phrase
        self._fields = fields
        super().__init__(phrase.say("en", **fields))

    def say(self, language: Language) -> str:
        """The reason in `language`."""
        return self._phrase.say(language, **self._fields)


def retry(state: Path, entry_id: EntryId, now: float) -> str:
    """Have a part sent that was given up, is postponed or may have arrived; return its session's key.

    The later parts that were given up with it follow.

    Raises:
        ChangeRefusedError: it is being sent, was sent, or is no outbound row.
        BusError: the bus cannot be written.
    """
    if entry_id.direction is not Direction.OUT:
        raise ChangeRefusedError(ONLY_OUT, id=entry_id)
    with changing(state) as tx:
        row = _load_outbound(tx, entry_id)
        _refuse_unless_open(entry_id, row)
        for earlier in range(row.part):
            key = f"{row.message_key}/{earlier}"
            found = one(tx.db, "select id from outbox where idempotency_key = ? and state = 'dead'", key)
            if found is not None:
                raise ChangeRefusedError(EARLIER_FIRST, id=entry_id, first=EntryId(Direction.OUT, found[0]))
        outbox_table.retry(tx, entry_id.number, row.message_key, row.later, now)
        return row.address


def resume(state: Path, entry_id: EntryId, now: float) -> str:
    """Have a parked message worked on; return its session's key.

    Raises:
        ChangeRefusedError: it is not parked, or is no inbound row.
        BusError: the bus cannot be written.
    """
    if entry_id.direction is not Direction.IN:
        raise ChangeRefusedError(ONLY_IN, id=entry_id)
    with changing(state) as tx:
        row = _load_inbound(tx, entry_id)
        if row.state != InboxState.PARKED:
            raise ChangeRefusedError(NOT_PARKED, id=entry_id, state=row.state)
        inbox_table.resume_row(tx, entry_id.number, now)
        return row.session_key


def drop(state: Path, entry_id: EntryId, language: Language, now: float) -> str:
    """End a row that waits, is parked or was given up; it stays visible. Return its session's key.

    The sender of a message that still waited is told; the sender of a parked one has been told.

    Raises:
        ChangeRefusedError: it is under way, or over.
        BusError: the bus cannot be written.
    """
    with changing(state) as tx:
        if entry_id.direction is Direction.OUT:
            part = _load_outbound(tx, entry_id)
            _refuse_unless_open(entry_id, part)
            outbox_table.drop(tx, entry_id.number, part.message_key, part.later, DROPPED, now)
            return part.address
        row = _load_inbound(tx, entry_id)
        _refuse_unless_idle(entry_id, row)
        inbox_table.drop(tx, entry_id.number, DROPPED, now)
        if row.state == InboxState.READY and row.message is not None and row.lane == Lane.USER:
            _tell_sender(tx, entry_id, row.message, language, now)
        return row.session_key


@dataclass(frozen=True, slots=True)
class _Outbound:
    address: str
    state: str
    part: int
    parts: int
    message_key: str
    """Common to the idempotency keys of all parts of its message."""

    @property
    def later(self) -> range:
        """The numbers of the parts after it."""
        return range(self.part + 1, self.parts)


@dataclass(frozen=True, slots=True)
class _Inbound:
    session_key: str
    state: str
    lane: int
    turn: str | None
    message: str | None


def _load_outbound(tx: Transaction, entry_id: EntryId) -> _Outbound:
    found = one(tx.db, "select address, state, part, parts, idempotency_key from outbox where id = ?", entry_id.number)
    if found is None:
        raise ChangeRefusedError(NO_ROW, id=entry_id)
    address, state, part, parts, key = found
    return _Outbound(address, state, part, parts, key.rpartition("/")[0])


def _load_inbound(tx: Transaction, entry_id: EntryId) -> _Inbound:
    found = one(tx.db, "select session, state, lane, turn, message from inbox where id = ?", entry_id.number)
    if found is None:
        raise ChangeRefusedError(NO_ROW, id=entry_id)
    return _Inbound(*found)


def _refuse_unless_open(entry_id: EntryId, row: _Outbound) -> None:
    if row.state == OutboxState.SENDING:
        raise ChangeRefusedError(SENDING, id=entry_id)
    if row.state in (OutboxState.SENT, OutboxState.CANCELLED):
        raise ChangeRefusedError(OVER, id=entry_id, state=row.state)


def _refuse_unless_idle(entry_id: EntryId, row: _Inbound) -> None:
    phrase = _BUSY.get(InboxState(row.state))
    if phrase is None and row.state == InboxState.READY and row.turn is not None:
        phrase = BEGUN
    if phrase is not None:
        raise ChangeRefusedError(phrase, id=entry_id, state=row.state)


_BUSY = {
    InboxState.RUNNING: RUNNING,
    InboxState.SUSPENDED: WAITS_FOR_ANSWER,
    InboxState.ARRIVING: ARRIVING,
    InboxState.DONE: OVER,
    InboxState.STOPPED: OVER,
}


def _tell_sender(tx: Transaction, entry_id: EntryId, message: str, language: Language, now: float) -> None:
    said = message_from_json(message)
    text = DROPPED_NOTICE.say(language)
    notice = NewSend(OutboundMessage(said.address, text, said.source_id), PartKind.NOTICE, "dropped", (text,))
    owner = f"row-{entry_id.number}"
    insert_sends(tx, owner, None, [notice], now)
    # It is not being sent before its delivery takes it: a start in between must not take it for half sent.
    tx.db.execute(
        "update outbox set state = 'ready' where idempotency_key = ? and state = 'sending'", (f"{owner}/dropped/0",)
    )
