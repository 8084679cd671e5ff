"""The bus's transitions on a real file, over restarts."""

import sqlite3
from pathlib import Path

import anyio
import pytest

from nanobee.bus.bus import Claim, NewSend, Stopped
from nanobee.bus.lines import LineKind, NewLine
from nanobee.bus.overview import read_overview
from nanobee.bus.sqlite import FILE_NAME
from nanobee.channel import Arrival, Lane, Receipt
from nanobee.errors import BusError, StaleTurnError
from nanobee.messages import Address
from nanobee.sessions.session import message_line
from tests.bus.conftest import OpenBus, Opened, new_row, new_send

CHAT = Address("test", "1")


async def claim_of(opened: Opened, chat: str = "1") -> Claim:
    claim = await opened.bus.claim(f"test:{chat}")
    assert claim is not None
    return claim


async def test_a_received_message_is_claimed_answered_and_delivered_once(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state() as opened:
        assert await opened.bus.receive([new_row("hi")]) == [Receipt.STORED]
        claim = await claim_of(opened)
        await opened.bus.finish(claim.ref, [message_line("assistant", "hello")], [new_send("hello")])
        assert opened.heard.addresses == [CHAT]
        outgoing = await opened.bus.outgoing(CHAT)
        assert outgoing.part is not None
        assert (outgoing.part.text, outgoing.part.attempt, outgoing.may_have_arrived) == ("hello", 1, False)
        await opened.bus.sent(outgoing.part, ["m1"])
        assert (await opened.bus.outgoing(CHAT)).part is None
        assert await opened.bus.claim("test:1") is None
    assert read_overview(tmp_path).inbox == {"done": 1}
    assert read_overview(tmp_path).outbox == {"sent": 1}


async def test_the_same_event_is_stored_once_also_after_a_restart(open_state: OpenBus) -> None:
    async with open_state() as opened:
        assert await opened.bus.receive([new_row("hi"), new_row("hi")]) == [Receipt.STORED, Receipt.DUPLICATE]
    async with open_state() as opened:
        assert await opened.bus.receive([new_row("hi")]) == [Receipt.DUPLICATE]
        assert opened.heard.sessions == ["test:1"]


async def test_a_turn_takes_the_oldest_message_and_the_next_waits_for_its_end(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row("one"), new_row("two")])
        claim = await claim_of(opened)
        assert [row.message.text for row in claim.rows if row.message] == ["one"]
        assert await opened.bus.claim("test:1") is None
        await opened.bus.finish(claim.ref, [], [])
        assert [row.message.text for row in (await claim_of(opened)).rows if row.message] == ["two"]


async def test_sessions_are_claimed_side_by_side(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row("one", "1"), new_row("two", "2")])
        first, second = await claim_of(opened, "1"), await claim_of(opened, "2")
        assert first.ref.turn != second.ref.turn


async def test_a_turn_left_by_a_dead_process_is_resumed_under_its_own_id_with_its_lines(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row("one"), new_row("two")])
        old = await claim_of(opened)
        await opened.bus.record(old.ref, [message_line("assistant", "step")])
    async with open_state() as opened:
        again = await claim_of(opened)
        assert again.is_resumed
        assert again.ref.turn == old.ref.turn
        assert again.ref.epoch > old.ref.epoch
        assert again.lines == ()
        with pytest.raises(StaleTurnError):
            await opened.bus.record(old.ref, [message_line("assistant", "too late")])
        texts = [line.data["content"] for line in opened.files.read_backwards("test:1") if "content" in line.data]
        assert texts == ["step", "one"]


async def test_a_part_that_was_being_sent_at_the_kill_is_marked_as_maybe_arrived(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row("one")])
        await opened.bus.finish((await claim_of(opened)).ref, [], [new_send("a b", texts=("a", "b"))])
    async with open_state() as opened:
        assert opened.heard.addresses == [CHAT]
        first = await opened.bus.outgoing(CHAT)
        assert first.part is not None
        assert first.may_have_arrived
        await opened.bus.sent(first.part, ["m1"])
        second = await opened.bus.outgoing(CHAT)
        assert second.part is not None
        assert (second.part.text, second.part.is_last, second.may_have_arrived) == ("b", True, False)


async def test_a_postponed_part_holds_back_those_after_it(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row("one")])
        claim = await claim_of(opened)
        await opened.bus.record(claim.ref, [], [new_send("first", "a"), new_send("second", "b")])
        part = (await opened.bus.outgoing(CHAT)).part
        assert part is not None
        await opened.bus.postpone(part, "busy", 3600, is_unknown=False)
        outgoing = await opened.bus.outgoing(CHAT)
        assert outgoing.part is None
        assert outgoing.next_at is not None
        await opened.bus.postpone(part, "busy", -1, is_unknown=False)
        again = (await opened.bus.outgoing(CHAT)).part
        assert again is not None
        assert (again.text, again.attempt) == ("first", 2)


async def test_a_dead_part_takes_the_rest_of_its_message_along_and_nothing_else(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row("one")])
        claim = await claim_of(opened)
        await opened.bus.record(claim.ref, [], [new_send("a b", "a", texts=("a", "b")), new_send("c", "c")])
        part = (await opened.bus.outgoing(CHAT)).part
        assert part is not None
        await opened.bus.bury(part, "blocked by the user")
        left = (await opened.bus.outgoing(CHAT)).part
        assert left is not None
        assert left.text == "c"


async def test_a_repeated_effect_of_a_resumed_turn_is_not_sent_twice(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row("one")])
        claim = await claim_of(opened)
        await opened.bus.record(claim.ref, [], [new_send("note", "call_1.0")])
    async with open_state() as opened:
        claim = await claim_of(opened)
        await opened.bus.record(claim.ref, [], [new_send("note", "call_1.0")])
        part = (await opened.bus.outgoing(CHAT)).part
        assert part is not None
        await opened.bus.sent(part, [])
        assert (await opened.bus.outgoing(CHAT)).part is None


async def test_stop_ends_the_turn_parks_the_queue_and_cancels_what_was_not_sent(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row("one"), new_row("two"), new_row("three"), new_row("/stop")])
        claim = await claim_of(opened)
        await opened.bus.record(claim.ref, [], [new_send("early", "a"), new_send("late", "b")])
        row = await opened.bus.claim_control()
        assert row is not None

        def notice(stopped: Stopped) -> NewSend:
            return new_send(f"stopped, {stopped.parked} kept", "reply")

        stopped = await opened.bus.stop(row, "test:1", notice)
        assert stopped == Stopped(claim.ref.turn, 2)
        with pytest.raises(StaleTurnError):
            await opened.bus.finish(claim.ref, [], [new_send("answer")])
        assert await opened.bus.claim("test:1") is None
        sent = []
        while (part := (await opened.bus.outgoing(CHAT)).part) is not None:
            sent.append(part.text)
            await opened.bus.sent(part, [])
        assert sent == ["early", "stopped, 2 kept"]
        waiting = await opened.bus.waiting("test:1")
        assert (waiting.is_running, waiting.queued, waiting.parked) == (False, 0, 2)
        assert await opened.bus.resume("test:1") == 2
        assert [row.message.text for row in (await claim_of(opened)).rows if row.message] == ["two"]


async def test_a_finish_that_commits_before_the_stop_wins(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row("one"), new_row("/stop")])
        claim = await claim_of(opened)
        await opened.bus.finish(claim.ref, [], [new_send("answer")])
        row = await opened.bus.claim_control()
        assert row is not None
        stopped = await opened.bus.stop(row, "test:1", lambda stopped: new_send("nothing ran", "reply"))
        assert stopped == Stopped(None, 0)
        first = (await opened.bus.outgoing(CHAT)).part
        assert first is not None
        assert first.text == "answer"


async def test_control_rows_overtake_a_running_turn_and_its_queue(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row("one"), new_row("two"), new_row("/status")])
        await claim_of(opened)
        row = await opened.bus.claim_control()
        assert row is not None
        assert row.message is not None
        assert row.message.text == "/status"
        await opened.bus.answer_control(row, new_send("fine", "reply"))
        assert await opened.bus.claim_control() is None


async def test_a_session_waits_for_the_event_at_its_head_to_be_resolved_and_no_other_session_does(
    open_state: OpenBus,
) -> None:
    async with open_state() as opened:
        arriving = Arrival("e1", "test:1", "7", Lane.USER, {"file": "big"})
        ready = new_row("after")
        await opened.bus.receive([type(ready)(arriving, "test::e1"), ready, new_row("other", "2")])
        assert await opened.bus.claim("test:1") is None
        assert (await claim_of(opened, "2")).rows[0].session_key == "test:2"
        assert opened.heard.arriving == 1
        [row] = (await opened.bus.arriving("test", 10)).rows
        assert row.raw == {"file": "big"}
        message = new_row("the file").arrival.message
        assert message is not None
        await opened.bus.resolve(row, message)
        claim = await claim_of(opened)
        assert [row.message.text for row in claim.rows if row.message] == ["the file"]


async def test_an_arriving_row_is_handed_out_again_after_a_restart(open_state: OpenBus) -> None:
    async with open_state() as opened:
        row = new_row("x")
        await opened.bus.receive([type(row)(Arrival("e1", "test:1", "7", Lane.USER, {"n": 1}), "test::e1")])
    async with open_state() as opened:
        assert opened.heard.arriving == 1
        assert [row.raw for row in (await opened.bus.arriving("test", 10)).rows] == [{"n": 1}]


async def test_journal_rows_go_once_their_lines_are_in_the_synced_file(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await opened.bus.append("test:1", [NewLine(LineKind.RESET), message_line("user", "hé\ud800")])
        assert [line.seq for line in await opened.bus.journal("test:1")] == [1, 2]
        await opened.bus.syncer.sync()
        assert await opened.bus.journal("test:1") == ()
        newest = next(opened.files.read_backwards("test:1"))
        assert (newest.seq, newest.data["content"]) == (2, "hé?")


async def test_lines_that_never_reached_the_file_are_completed_from_the_journal_at_start(
    open_state: OpenBus, tmp_path: Path
) -> None:
    async with open_state() as opened:
        await opened.bus.append("test:1", [message_line("user", str(number)) for number in range(5)])
        path = opened.files.path("test:1")
        # As after a kill between the commit and the append: the journal still has what the file lacks.
        rows = [("test:1", line.seq, None, 0, line.to_json()) for line in await opened.bus.journal("test:1")]
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]) + b'{"seq":3,"at"')
    with sqlite3.connect(tmp_path / FILE_NAME) as db:
        db.executemany("insert into journal values (?, ?, ?, ?, ?)", rows)
    db.close()
    async with open_state() as opened:
        pass
    assert [line.data["content"] for line in opened.files.read_backwards("test:1")] == ["4", "3", "2", "1", "0"]
    assert path.read_bytes().count(b'{"seq":3,"at"') == 2


async def test_many_waiting_operations_share_one_commit(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state() as opened:
        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(opened.bus.receive, [new_row(str(number), str(number % 100))])
        assert read_overview(tmp_path).inbox == {"ready": 200}
        assert set(opened.heard.sessions) == {f"test:{chat}" for chat in range(100)}


async def test_a_read_only_file_refuses_the_arrival_instead_of_losing_it(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row("one")])
        other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
        other.execute("alter table inbox rename to gone")
        with pytest.raises(BusError, match="cannot be written"):
            await opened.bus.receive([new_row("two")])
        other.execute("alter table gone rename to inbox")
        other.close()
        assert await opened.bus.receive([new_row("two")]) == [Receipt.STORED]


async def test_a_bus_of_a_later_version_is_refused_and_left_alone(open_state: OpenBus, tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / FILE_NAME)
    db.execute("pragma user_version = 99")
    db.close()
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(BusError, match="later version"):
        async with open_state():
            pass
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_the_overview_of_a_folder_without_a_bus_is_empty(tmp_path: Path) -> None:
    assert read_overview(tmp_path).inbox == {}
    assert list(tmp_path.iterdir()) == []
