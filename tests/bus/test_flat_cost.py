"""Flat cost: what a transition costs does not grow with what the bus holds already."""

import json
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from nanobee.bus.bus import Claim, NewRow
from nanobee.bus.capacity import Limits
from nanobee.bus.lines import LineKind, NewLine
from nanobee.bus.sqlite import FILE_NAME
from nanobee.bus.suspension import NewSuspension
from nanobee.channel import Arrival, Lane
from nanobee.chat import ToolCall
from nanobee.config import BusyMode
from nanobee.messages import Address
from nanobee.sessions.session import message_line
from tests.bus.conftest import OpenBus, Opened, new_row, new_send, opener

CHAT = Address("test", "1")
KEY = "test:1"
WHOLE_TABLE = re.compile(r"^SCAN (?:inbox|outbox|journal|session|suspension|consolidation)\b")


@contextmanager
def recorded_statements() -> Iterator[set[str]]:
    """Every statement that connections run which are opened meanwhile."""
    statements: set[str] = set()
    connect = sqlite3.connect

    def recording(*arguments: Any, **options: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(*arguments, **options)
        db.set_trace_callback(statements.add)
        return db

    with patch("sqlite3.connect", recording):
        yield statements


async def claim_of(opened: Opened, busy: BusyMode = BusyMode.QUEUE) -> Claim:
    claim = await opened.bus.claim(KEY, busy=busy)
    assert claim is not None
    return claim


async def receive_and_resolve(opened: Opened) -> None:
    arriving = NewRow(Arrival("late", KEY, "7", Lane.USER, {}), "test::late")
    await opened.bus.receive([new_row(str(number)) for number in range(4)])
    await opened.bus.receive([arriving, new_row("one too many"), new_row("0")])
    [row] = (await opened.bus.arriving("test", 9)).rows
    message = new_row("late").arrival.message
    assert message is not None
    await opened.bus.resolve(row, message)


async def run_turns(opened: Opened) -> None:
    claim = await claim_of(opened)
    await opened.bus.record(claim.ref, [message_line("assistant", "step")], [new_send("note", "call.0")])
    await opened.bus.steer(claim.ref)
    await opened.bus.hand_back(claim.ref)
    await opened.bus.finish(
        (await claim_of(opened)).ref, [NewLine(LineKind.RESET)], [new_send("answer", texts=("a", "b"))]
    )
    await opened.bus.receive([new_row("more"), new_row("and more")])
    await claim_of(opened)
    await opened.bus.interrupt(KEY)
    await opened.bus.finish((await claim_of(opened, BusyMode.COLLECT)).ref, [])
    await opened.bus.waiting(KEY)
    await opened.bus.settings(KEY)


async def ask_and_answer(opened: Opened) -> None:
    await opened.bus.receive([new_row("ask")])
    claim = await claim_of(opened)
    questions = [NewSuspension(f"q{each}", ToolCall("c", "ask", "{}"), "Well?", ("yes", "no")) for each in range(2)]
    await opened.bus.suspend(claim.ref, [], [new_send("Well?", "ask-q0")], questions)
    await opened.bus.answer("q0", KEY, "yes")
    await opened.bus.receive([new_row("yes")])
    claim = await claim_of(opened)
    used = [answer.id for answer in await opened.bus.answers(claim.ref)]
    await opened.bus.record(claim.ref, [], [], used)
    await opened.bus.receive([new_row("waits"), new_row("/stop"), new_row("/resume")])
    row = await opened.bus.claim_control()
    assert row is not None
    await opened.bus.stop(row, KEY, lambda stopped: new_send("stopped", "reply"))
    row = await opened.bus.claim_control()
    assert row is not None
    await opened.bus.resume(KEY)
    await opened.bus.answer_control(row, new_send("resumed", "reply"))


async def deliver(opened: Opened) -> None:
    await opened.bus.record_stream(CHAT, "a-turn", ["m0"])
    await opened.bus.stream_handle("a-turn")
    ends = 0
    while (part := (await opened.bus.outgoing(CHAT)).part) is not None:
        ends += 1
        if ends == 1:
            await opened.bus.postpone(part, "busy", -1, is_unknown=True)
        elif ends == 2:
            await opened.bus.bury(part, "refused")
        else:
            await opened.bus.sent(part, ["m1"])
    await opened.bus.append(KEY, [NewLine(LineKind.RECORD, {"content": "x"})])
    await opened.bus.journal(KEY)
    await opened.bus.syncer.sync()


PLAYS = (receive_and_resolve, run_turns, ask_and_answer, deliver)


async def test_no_transition_reads_a_whole_table(open_state: OpenBus, tmp_path: Path) -> None:
    with recorded_statements() as statements:
        async with open_state() as opened:
            statements.clear()  # a start may look at everything
            for play in PLAYS:
                await play(opened)
            found = sorted(each for each in statements if each.split()[0] in ("select", "update", "delete"))
    db = sqlite3.connect(tmp_path / FILE_NAME)
    plans = {each: [row[3] for row in db.execute(f"explain query plan {each}")] for each in found}
    db.close()
    assert len(plans) > 50
    slow = [each for each, plan in plans.items() if any(WHOLE_TABLE.match(step) for step in plan)]
    assert slow == []


@contextmanager
def counted_instructions() -> Iterator[list[int]]:
    """How many instructions SQLite's machine runs, for connections that are opened meanwhile."""
    count = [0]
    connect = sqlite3.connect

    def count_one() -> None:
        count[0] += 1

    def counting(*arguments: Any, **options: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(*arguments, **options)
        db.set_progress_handler(count_one, 1)
        return db

    with patch("sqlite3.connect", counting):
        yield count


def fill(state: Path, rows: int) -> None:
    """Put so many ended messages into the chat, and as many that wait into others."""
    db = sqlite3.connect(state / FILE_NAME)
    now = time.time()
    inbox = (
        "insert into inbox(session, seq, lane, kind, dedupe, turn, payload, message, state, created_at, changed_at)"
        " select session, seq, lane, kind, ? || value, ? || value, payload, message, ?, ?, ? from inbox, json_each(?)"
        " where dedupe = 'test::first:' || ?"
    )
    values = json.dumps(list(range(rows)))
    db.execute(inbox, ("done", "turn", "done", now, now, values, 1))
    db.execute(inbox, ("waits", "none", "ready", now, now, values, 2))
    db.execute(
        "insert into outbox(address, seq, turn, part, parts, kind, payload, idempotency_key, state, created_at,"
        " changed_at) select ?, 1, 'turn' || value, 0, 1, 'answer', '{\"text\":\"x\"}', 'turn' || value || '/final/0',"
        " 'sent', ?, ? from json_each(?)",
        (KEY, now, now, values),
    )
    db.commit()
    db.close()


async def cost(open_state: OpenBus, state: Path, rows: int) -> int:
    async with open_state() as opened:
        await opened.bus.receive([new_row("first", "1", "first"), new_row("first", "2", "first")])
        await opened.bus.finish((await claim_of(opened)).ref, [])
    fill(state, rows)
    with counted_instructions() as count:
        async with open_state() as opened:
            await opened.bus.receive([new_row("one", "3")])  # the first counts what waits, as every thousandth does
            count[0] = 0
            for play in PLAYS:
                await play(opened)
            return count[0]


async def test_a_messages_way_costs_the_same_after_many_others(tmp_path: Path) -> None:
    costs = []
    for rows in (20, 2_000):
        state = tmp_path / str(rows)
        state.mkdir()
        costs.append(await cost(opener(state, Limits(busy_at=3, per_session=5, total=9_999)), state, rows))
    assert costs[1] < costs[0] * 1.1, costs
