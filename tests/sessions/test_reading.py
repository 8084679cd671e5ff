"""Sessions looked at from outside, while their holder writes them and after."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanobee.bus.bus import InboxRow, NewRow, NewSend
from nanobee.bus.lines import Line, LineKind, NewLine
from nanobee.bus.sqlite import SqliteBus, open_bus
from nanobee.channel import Arrival, Lane
from nanobee.messages import Address, InboundMessage
from nanobee.sessions.files import SessionFiles
from nanobee.sessions.reading import TurnRecord, group_turns, list_sessions, load_last_turns
from nanobee.sessions.session import message_line

KEY = "test:1"


class NoNotices:
    """Nobody is told anything here."""

    def crashed(self, row: InboxRow) -> NewSend:
        raise AssertionError

    def busy(self, row: InboxRow, waiting: int) -> NewSend:
        raise AssertionError

    def not_accepted(self, row: InboxRow) -> NewSend:
        raise AssertionError


@asynccontextmanager
async def open_state(state: Path) -> AsyncIterator[SqliteBus]:
    async with open_bus(state, SessionFiles(state), NoNotices()) as bus:
        yield bus


async def take_turn(bus: SqliteBus, text: str, answer: str, chat: str = "1", state: str = "done") -> None:
    address = Address("test", chat)
    message = InboundMessage(address, "7", text, datetime.now(UTC))
    arrival = Arrival(f"{chat}{text}", address.session_key, "7", Lane.USER, {}, message=message)
    await bus.receive([NewRow(arrival, arrival.event_key)])
    claim = await bus.claim(address.session_key)
    assert claim is not None
    lines = [message_line("assistant", answer), NewLine(LineKind.TURN, {"state": state, "reason": "because"})]
    await bus.finish(claim.ref, lines)


def texts(records: list[TurnRecord] | None) -> list[list[str]]:
    """What was said in each turn."""
    assert records is not None
    return [[str(line.data["content"]) for line in record.lines if "content" in line.data] for record in records]


def files_in(state: Path) -> dict[Path, bytes]:
    """The session files with their contents."""
    return {path: path.read_bytes() for path in (state / "sessions").rglob("*") if path.is_file()}


async def test_the_last_turns_are_found_beside_the_holder_and_after_it(tmp_path: Path) -> None:
    async with open_state(tmp_path) as bus:
        for number in range(10):
            await take_turn(bus, f"question {number}", f"answer {number}")
        beside = load_last_turns(tmp_path, KEY, 2)
    after = load_last_turns(tmp_path, KEY, 2)
    assert texts(beside) == [["question 8", "answer 8"], ["question 9", "answer 9"]]
    assert texts(after) == texts(beside)
    assert after is not None
    assert (after[0].state, after[0].reason) == ("done", "because")


async def test_what_is_in_the_journal_only_is_found_too(tmp_path: Path) -> None:
    files = SessionFiles(tmp_path)
    async with open_state(tmp_path) as bus:
        await take_turn(bus, "in the file", "yes")
        await bus.syncer.finish()
        whole = files.path(KEY).read_bytes()
        await take_turn(bus, "not yet", "in the file")
        files.path(KEY).write_bytes(whole)
        assert texts(load_last_turns(tmp_path, KEY, 5)) == [["in the file", "yes"], ["not yet", "in the file"]]
        [summary] = list_sessions(tmp_path)
    assert (summary.session_key, summary.lines) == (KEY, 8)


async def test_more_turns_than_there_are_gives_all(tmp_path: Path) -> None:
    async with open_state(tmp_path) as bus:
        await take_turn(bus, "one", "two")
    assert texts(load_last_turns(tmp_path, KEY, 1000)) == [["one", "two"]]


async def test_sessions_are_listed_the_last_used_first(tmp_path: Path) -> None:
    async with open_state(tmp_path) as bus:
        for chat in ("a", "b", "c", "a"):
            await take_turn(bus, f"hi {chat} {len(list_sessions(tmp_path))}", "hello", chat)
        beside = list_sessions(tmp_path)
    assert [summary.session_key for summary in beside] == ["test:a", "test:c", "test:b"]
    assert [summary.lines for summary in beside] == [8, 4, 4]
    assert list_sessions(tmp_path) == beside


def test_a_folder_without_sessions_has_none_and_stays_empty(tmp_path: Path) -> None:
    assert list_sessions(tmp_path) == []
    assert load_last_turns(tmp_path, KEY, 5) is None
    assert list(tmp_path.iterdir()) == []


async def test_a_session_that_is_not_there_is_none(tmp_path: Path) -> None:
    async with open_state(tmp_path) as bus:
        await take_turn(bus, "one", "two")
    assert load_last_turns(tmp_path, "test:2", 5) is None


async def test_bad_and_torn_lines_cost_those_lines_and_nothing_is_written(tmp_path: Path) -> None:
    async with open_state(tmp_path) as bus:
        await take_turn(bus, "one", "two")
    path = SessionFiles(tmp_path).path(KEY)
    path.write_bytes(b"{bad}\n" + path.read_bytes() + b'{"seq": 5, "at"')
    before = files_in(tmp_path)
    assert texts(load_last_turns(tmp_path, KEY, 5)) == [["one", "two"]]
    assert [summary.lines for summary in list_sessions(tmp_path)] == [4]
    assert files_in(tmp_path) == before


@pytest.mark.parametrize("count", [1, 3])
async def test_a_long_session_costs_the_reading_of_its_end_only(tmp_path: Path, count: int) -> None:
    path = SessionFiles(tmp_path).path(KEY)
    at = datetime.now(UTC)
    with path.open("w", encoding="utf-8") as file:
        for number in range(20_000):
            turn, place = divmod(number, 4)
            kind = LineKind.TURN if place in (0, 3) else LineKind.MESSAGE
            data = [{"state": "started"}, {"role": "user", "content": f"q{turn}"}, {"content": "a"}, {"state": "done"}]
            file.write(Line(number + 1, at, f"t{turn}", kind, data[place]).to_json() + "\n")
    with path.open("r+b") as file:
        file.write(b"\x00" * 1_000_000)  # whoever reads this far finds no line
    found = load_last_turns(tmp_path, KEY, count)
    assert texts(found) == [[f"q{turn}", "a"] for turn in range(5_000 - count, 5_000)]
    assert [summary.lines for summary in list_sessions(tmp_path)] == [20_000]


def line(seq: int, turn: str | None, kind: LineKind = LineKind.MESSAGE, **data: object) -> Line:
    return Line(seq, datetime.now(UTC), turn, kind, data)


def test_turns_that_overlap_keep_their_lines_together() -> None:
    lines = [
        line(1, "a", LineKind.TURN, state="started"),
        line(2, "a", LineKind.TURN, state="suspended"),
        line(3, "b", LineKind.TURN, state="started"),
        line(4, None, LineKind.SETTINGS, model="x"),
        line(5, "b", LineKind.TURN, state="done"),
        line(6, "a", LineKind.TURN, state="failed", reason="no answer"),
    ]
    groups = group_turns(lines)
    assert [(group.turn, [each.seq for each in group.lines]) for group in groups] == [
        ("a", [1, 2, 6]),
        ("b", [3, 5]),
        (None, [4]),
    ]
    assert [(group.state, group.reason) for group in groups] == [("failed", "no answer"), ("done", None), (None, None)]
    assert groups[0].started_at == lines[0].at
    assert replace(groups[2]).state is None
