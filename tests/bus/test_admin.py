"""What a person may do to single rows, beside a running holder and without one."""

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from nanobee.bus.admin import ChangeRefusedError, drop, resume, retry
from nanobee.bus.bus import NewSend, Stopped
from nanobee.bus.entries import EntryId, Filter, list_entries, load_entry, load_related
from nanobee.bus.lines import NewLine
from nanobee.bus.outside import changing, reading
from nanobee.bus.overview import Overview, read_overview
from nanobee.bus.sqlite import FILE_NAME
from nanobee.bus.suspension import NewSuspension
from nanobee.chat import ToolCall
from nanobee.errors import BusError
from nanobee.messages import Address, OutboundPart
from tests.bus.conftest import OpenBus, Opened, new_row, new_send

ADDRESS = Address("test", "1")
KEY = ADDRESS.session_key


def states(folder: Path, direction: str = "inbox") -> list[tuple[int, str, str | None]]:
    db = sqlite3.connect(folder / FILE_NAME)
    try:
        return db.execute(f"select id, state, reason from {direction} order by id").fetchall()
    finally:
        db.close()


def row(text: str) -> EntryId:
    return EntryId.parse(text)


async def receive(opened: Opened, *texts: str) -> None:
    await opened.bus.receive([new_row(text) for text in texts])


async def answer(opened: Opened, texts: Sequence[str]) -> None:
    """One message and its answer in parts, none of them sent."""
    await receive(opened, "hi")
    claim = await opened.bus.claim(KEY)
    assert claim is not None
    await opened.bus.finish(claim.ref, [], [new_send("".join(texts), texts=tuple(texts))])


async def take_part(opened: Opened) -> OutboundPart:
    outgoing = await opened.bus.outgoing(ADDRESS)
    assert outgoing.part is not None
    return outgoing.part


async def park(opened: Opened, *texts: str) -> None:
    """Messages that a /stop has put aside."""
    await receive(opened, *texts, "/stop")
    control = await opened.bus.claim_control()
    assert control is not None

    def notice(stopped: Stopped) -> NewSend:
        return new_send("Stopped.", "reply")

    await opened.bus.stop(control, KEY, notice)


# retry


async def test_a_part_that_was_given_up_is_sent_again_with_the_parts_given_up_with_it(
    open_state: OpenBus, tmp_path: Path
) -> None:
    async with open_state() as opened:
        await answer(opened, ["a", "b", "c"])
        first = await take_part(opened)
        await opened.bus.sent(first, ["m1"])
        await opened.bus.bury(await take_part(opened), "blocked")
        assert [state for _, state, _ in states(tmp_path, "outbox")] == ["sent", "dead", "dead"]
        assert retry(tmp_path, row("out-2"), time.time()) == KEY
        assert states(tmp_path, "outbox") == [(1, "sent", None), (2, "ready", None), (3, "ready", None)]
        again = await take_part(opened)
    assert (again.text, again.attempt) == ("b", 1)


async def test_a_postponed_part_goes_at_once(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state() as opened:
        await answer(opened, ["a"])
        await opened.bus.postpone(await take_part(opened), "flood", 3600, is_unknown=False)
        assert (await opened.bus.outgoing(ADDRESS)).part is None
        retry(tmp_path, row("out-1"), time.time())
        assert (await take_part(opened)).text == "a"


async def test_a_part_that_may_have_arrived_is_sent_again_as_if_it_had_not(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state() as opened:
        await answer(opened, ["a"])
        await opened.bus.postpone(await take_part(opened), "cut", 3600, is_unknown=True)
        retry(tmp_path, row("out-1"), time.time())
        outgoing = await opened.bus.outgoing(ADDRESS)
    assert outgoing.part is not None
    assert not outgoing.may_have_arrived


async def test_a_later_part_is_not_sent_before_an_earlier_one_that_was_given_up(
    open_state: OpenBus, tmp_path: Path
) -> None:
    async with open_state() as opened:
        await answer(opened, ["a", "b"])
        await opened.bus.bury(await take_part(opened), "blocked")
        with pytest.raises(ChangeRefusedError, match=r"part out-1 was given up: retry that one"):
            retry(tmp_path, row("out-2"), time.time())
        assert [state for _, state, _ in states(tmp_path, "outbox")] == ["dead", "dead"]


async def test_what_is_being_sent_or_was_sent_is_not_sent_again(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state() as opened:
        await answer(opened, ["a"])
        part = await take_part(opened)
        with pytest.raises(ChangeRefusedError, match="out-1 is being sent"):
            retry(tmp_path, row("out-1"), time.time())
        await opened.bus.sent(part, ["m1"])
        await opened.bus.append(KEY, [])
        with pytest.raises(ChangeRefusedError, match=r"out-1 is over \(sent\)"):
            retry(tmp_path, row("out-1"), time.time())
    assert states(tmp_path, "outbox") == [(1, "sent", None)]


async def test_a_retry_without_a_holder_is_found_by_the_next_one(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state() as opened:
        await answer(opened, ["a"])
        await opened.bus.bury(await take_part(opened), "blocked")
    retry(tmp_path, row("out-1"), time.time())
    async with open_state() as opened:
        assert ADDRESS in opened.heard.addresses
        assert (await take_part(opened)).text == "a"


# resume


async def test_one_parked_message_is_worked_on_and_the_others_stay(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state() as opened:
        await park(opened, "one", "two")
        assert resume(tmp_path, row("in-2"), time.time()) == KEY
        claim = await opened.bus.claim(KEY)
    assert claim is not None
    assert [each.message.text for each in claim.rows if each.message is not None] == ["two"]
    assert states(tmp_path)[0] == (1, "parked", "stopped")


async def test_only_what_is_parked_is_resumed(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state() as opened:
        await receive(opened, "one")
        with pytest.raises(ChangeRefusedError, match=r"in-1 is not parked \(ready\)"):
            resume(tmp_path, row("in-1"), time.time())


# drop


async def test_a_dropped_message_is_not_answered_stays_visible_and_its_sender_is_told(
    open_state: OpenBus, tmp_path: Path
) -> None:
    async with open_state() as opened:
        await receive(opened, "one", "two")
        assert drop(tmp_path, row("in-1"), "en", time.time()) == KEY
        claim = await opened.bus.claim(KEY)
        notice = await take_part(opened)
    assert claim is not None
    assert [each.id for each in claim.rows] == [2]
    assert states(tmp_path)[0] == (1, "stopped", "dropped by the owner")
    assert notice.text == "Your message was put away by the owner and is not answered."
    assert notice.reply_to == "s1"


async def test_without_a_holder_the_notice_is_not_taken_for_half_sent(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state() as opened:
        await receive(opened, "one")
    drop(tmp_path, row("in-1"), "zh", time.time())
    assert states(tmp_path, "outbox") == [(1, "ready", None)]
    async with open_state() as opened:
        outgoing = await opened.bus.outgoing(ADDRESS)
    assert outgoing.part is not None
    assert not outgoing.may_have_arrived
    assert "主人" in outgoing.part.text


async def test_a_parked_message_is_dropped_without_a_second_notice(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state() as opened:
        await park(opened, "one")
        drop(tmp_path, row("in-1"), "en", time.time())
    assert states(tmp_path)[0] == (1, "stopped", "dropped by the owner")
    assert len(states(tmp_path, "outbox")) == 1


async def test_a_dropped_part_takes_the_later_parts_of_its_message_along(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state() as opened:
        await answer(opened, ["a", "b", "c"])
        await opened.bus.sent(await take_part(opened), ["m1"])
        await opened.bus.append(KEY, [])
        drop(tmp_path, row("out-2"), "en", time.time())
        assert (await opened.bus.outgoing(ADDRESS)).part is None
    dropped = "dropped by the owner"
    assert states(tmp_path, "outbox") == [(1, "sent", None), (2, "cancelled", dropped), (3, "cancelled", dropped)]


async def test_what_runs_sleeps_arrives_or_is_over_is_not_dropped(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state() as opened:
        await receive(opened, "one")
        claim = await opened.bus.claim(KEY)
        assert claim is not None
        with pytest.raises(ChangeRefusedError, match="in-1 is being worked on"):
            drop(tmp_path, row("in-1"), "en", time.time())
        asked = NewSuspension("ab12", ToolCall("c1", "ask_user", "{}"), "Which?")
        await opened.bus.suspend(claim.ref, [], [], [asked])
        with pytest.raises(ChangeRefusedError, match="in-1 waits for the answer to a question"):
            drop(tmp_path, row("in-1"), "en", time.time())
        await opened.bus.answer("ab12", KEY, "this")
        with pytest.raises(ChangeRefusedError, match="The turn of in-1 has begun"):
            drop(tmp_path, row("in-1"), "en", time.time())
        resumed = await opened.bus.claim(KEY)
        assert resumed is not None
        await opened.bus.finish(resumed.ref, [NewLine("turn", {"state": "done"})])
        with pytest.raises(ChangeRefusedError, match=r"in-1 is over \(done\)"):
            drop(tmp_path, row("in-1"), "en", time.time())
    assert states(tmp_path) == [(1, "done", None)]


@pytest.mark.parametrize("name", ["in-7", "out-7"])
async def test_a_row_that_is_not_there_is_refused_in_the_owners_language(
    open_state: OpenBus, tmp_path: Path, name: str
) -> None:
    async with open_state():
        pass
    with pytest.raises(ChangeRefusedError) as refused:
        drop(tmp_path, row(name), "en", time.time())
    assert refused.value.say("zh") == f"没有 {name} 这一行。"
    change = retry if name == "out-7" else resume
    with pytest.raises(ChangeRefusedError, match=f"There is no row {name}"):
        change(tmp_path, row(name), time.time())


async def test_each_change_is_for_its_own_direction(open_state: OpenBus, tmp_path: Path) -> None:
    with pytest.raises(ChangeRefusedError, match="in-1 is an inbound row: `resume`"):
        retry(tmp_path, row("in-1"), time.time())
    with pytest.raises(ChangeRefusedError, match="out-1 is an outbound row: `retry`"):
        resume(tmp_path, row("out-1"), time.time())


# Reading


async def test_rows_are_listed_oldest_first_and_ended_ones_only_when_asked_for(
    open_state: OpenBus, tmp_path: Path
) -> None:
    async with open_state() as opened:
        await answer(opened, ["a", "b"])
        await opened.bus.sent(await take_part(opened), ["m1"])
        await receive(opened, "two", "three")
        await opened.bus.receive([new_row("elsewhere", chat="2")])

    def names(which: Filter, limit: int = 10) -> tuple[list[str], int]:
        with reading(tmp_path) as db:
            assert db is not None
            entries, more = list_entries(db, which, limit)
            return [f"{entry.id} {entry.state} {entry.text}" for entry in entries], more

    waiting = ["in-2 ready two", "in-3 ready three", "in-4 ready elsewhere", "out-2 ready b"]
    assert names(Filter()) == (waiting, 0)
    assert names(Filter(), limit=2) == ([*waiting[:2], waiting[3]], 1)
    assert names(Filter(), limit=-1) == (waiting, 0)
    assert names(Filter(session_key="test:2")) == (["in-4 ready elsewhere"], 0)
    assert names(Filter(states=frozenset({"done", "sent"}))) == (["in-1 done hi", "out-1 sent a"], 0)


async def test_a_row_is_shown_with_the_rows_of_its_turn(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state() as opened:
        await answer(opened, ["a", "b"])
        await opened.bus.sent(await take_part(opened), ["m1"])
    with reading(tmp_path) as db:
        assert db is not None
        said, sent = load_entry(db, row("in-1")), load_entry(db, row("out-1"))
        assert said is not None
        assert sent is not None
        assert [str(entry.id) for entry in load_related(db, said)] == ["out-1", "out-2"]
        assert [str(entry.id) for entry in load_related(db, sent)] == ["in-1"]
        assert load_entry(db, row("out-3")) is None
    assert (said.sender, said.lane, said.source_id) == ("(7)", "user", "s1")
    assert (sent.part, sent.parts, sent.platform_ids, sent.kind) == (0, 2, ("m1",), "answer")


@pytest.mark.parametrize(
    "text", ["in-0", "in-", "in12", "inn-1", "1", "", "out-1x", "in--1", "in-1\n2", "in-" + "9" * 19]
)
def test_what_names_no_row_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="rows are named"):
        EntryId.parse(text)


def test_names_of_rows_are_read_back() -> None:
    for text in ("in-1", "out-123456789012345678"):
        assert str(EntryId.parse(f" {text.upper()} ")) == text


async def test_the_overview_counts_rows_and_open_questions(open_state: OpenBus, tmp_path: Path) -> None:
    assert read_overview(tmp_path) == Overview()
    async with open_state() as opened:
        await receive(opened, "one", "two")
        claim = await opened.bus.claim(KEY)
        assert claim is not None
        questions = [NewSuspension(f"ab1{n}", ToolCall(f"c{n}", "ask_user", "{}"), "Which?") for n in range(2)]
        await opened.bus.suspend(claim.ref, [], [new_send("Which?", "ask")], questions)
        overview = read_overview(tmp_path)
    assert overview.inbox == {"suspended": 1, "ready": 1}
    assert overview.outbox == {"sending": 1}
    assert overview.open_questions == 2
    assert overview.oldest_ready_at is not None


# From outside


def test_without_a_bus_nothing_is_read_and_nothing_is_made(tmp_path: Path) -> None:
    with reading(tmp_path) as db:
        assert db is None
    with pytest.raises(BusError, match="There is no bus"), changing(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


async def test_an_error_in_a_change_leaves_everything_as_it_was(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state() as opened:
        await receive(opened, "one")
        with pytest.raises(RuntimeError, match="half way"), changing(tmp_path) as tx:  # noqa: PT012
            tx.db.execute("update inbox set state = 'dead'")
            raise RuntimeError("half way")
        assert states(tmp_path) == [(1, "ready", None)]
        await receive(opened, "two")


@pytest.mark.parametrize("content", [b"no database at all" * 100, b""])
def test_a_file_that_is_no_bus_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(BusError, match="bus"), reading(tmp_path):
        pass
    with pytest.raises(BusError, match="bus"), changing(tmp_path):
        pass


async def test_a_bus_of_another_version_is_not_touched(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state():
        pass
    db = sqlite3.connect(tmp_path / FILE_NAME)
    db.execute("pragma user_version = 99")
    db.close()
    with pytest.raises(BusError, match="another version"), changing(tmp_path):
        pass
    with pytest.raises(BusError, match="another version"), reading(tmp_path):
        pass


async def test_changes_from_outside_and_the_holders_own_go_side_by_side(open_state: OpenBus, tmp_path: Path) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row("first", chat=f"a{number}") for number in range(1, 41)])
        for number in range(1, 41):
            await opened.bus.receive([new_row("second", chat=f"b{number}")])
            drop(tmp_path, row(f"in-{number}"), "en", time.time())
    found = [state for _, state, _ in states(tmp_path)]
    assert (found.count("stopped"), found.count("ready")) == (40, 40)
