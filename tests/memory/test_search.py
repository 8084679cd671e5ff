"""Search: words in English and Chinese, from an index that follows the files."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from threading import Thread

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobee.bus.lines import Line
from nanobee.clock import Clock
from nanobee.errors import ToolError
from nanobee.memory import grep as grep_module
from nanobee.memory.dates import Span, find_spans
from nanobee.memory.entries import Entry, Tier
from nanobee.memory.finder import Finder
from nanobee.memory.grep import grep
from nanobee.memory.lock import WriterLock
from nanobee.memory.memory import Memories, Memory
from nanobee.memory.misc import MiscNote
from nanobee.memory.recall import recall
from nanobee.memory.scope import OWNER_SCOPE, Scopes
from nanobee.memory.search import MAX_ALL_ROWS, MAX_ONE_ROWS, MAX_TERMS, Query
from nanobee.memory.words import overlap, runs, tokens
from nanobee.sessions.files import SessionFiles
from tests.memory.conftest import FakeTime

AT = datetime(2026, 10, 7, 12, 0, tzinfo=UTC)


def log(memory: Memory, *texts: str, days_ago: float = 30) -> None:
    for number, text in enumerate(texts):
        at = AT - timedelta(days=days_ago, minutes=-number)
        memory.history.append(at, text, f"memory:1 seq {number * 10 + int(days_ago * 1000)}–{number * 10 + 5}")


def find(finder: Finder, text: str, *tiers: Tier, **more: object) -> list[str]:
    query = Query(text, tiers or tuple(Query("").tiers), **more)  # type: ignore[arg-type]
    return [match.entry.text for match in finder.find_now(OWNER_SCOPE, query).matches.found]


# Words


def test_chinese_becomes_pairs_and_a_last_character_and_other_words_stay_whole() -> None:
    assert tokens("去北京吃Peking烤鸭！") == ["去北", "北京", "京吃", "吃", "peking", "烤鸭", "鸭"]
    assert tokens("ＡＢＣ１２３ Straße") == ["abc123", "strasse"]
    assert runs("don't 北 x_y") == ["don", "t", "北", "x", "y"]


@given(st.text(max_size=60))
def test_any_text_has_tokens_and_overlaps_itself(text: str) -> None:
    found = tokens(text)
    assert all(token and " " not in token for token in found)
    assert overlap(text, frozenset(found)) == (1.0 if found else 0.0)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("北京", ["昨天我们去北京吃烤鸭。"]),
        ("烤鸭", ["昨天我们去北京吃烤鸭。"]),
        ("鸭", ["昨天我们去北京吃烤鸭。"]),
        ("天我", ["昨天我们去北京吃烤鸭。"]),
        ("京北", []),
        ("吃烤鸭", ["昨天我们去北京吃烤鸭。"]),
        ("北京 烤鸭", ["昨天我们去北京吃烤鸭。"]),
        ("上海", ["妈妈从上海来了。"]),
        ("你还记得我们去北京吃的烤鸭吗", ["昨天我们去北京吃烤鸭。"]),
        ("zanzibar", ["The ferry to Zanzibar leaves at nine."]),
        ("ZANZI", ["The ferry to Zanzibar leaves at nine."]),
        ("ferries", []),
        ("ferry nine", ["The ferry to Zanzibar leaves at nine."]),
        ('"ferry" OR (nine) NOT x*', ["The ferry to Zanzibar leaves at nine."]),
        ("words : ferry", ["The ferry to Zanzibar leaves at nine."]),
        ("nowhere", []),
    ],
)
def test_words_of_two_characters_and_more_are_found(
    query: str, wanted: list[str], finder: Finder, memory: Memory
) -> None:
    log(memory, "昨天我们去北京吃烤鸭。", "妈妈从上海来了。", "The ferry to Zanzibar leaves at nine.", "Nothing else.")
    assert find(finder, query) == wanted


@given(
    texts=st.lists(st.text("北京上海烤鸭妈我们去吃 ab", min_size=2, max_size=12), min_size=1, max_size=6),
    start=st.integers(0, 10),
    length=st.integers(2, 4),
)
def test_any_part_of_a_text_finds_it(
    texts: list[str], start: int, length: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("search")
    memories = Memories(Scopes(root / "w", ("memory:1",)), WriterLock(root / "s"), Clock())
    finder = Finder(memories, SessionFiles(root / "s"), root / "s")
    memory = memories.of(OWNER_SCOPE)
    log(memory, *texts)
    part = " ".join(texts[0].split())[start : start + length].strip()
    if len(part) < 2 or " " in part or not part.isalpha() or part.isascii() != texts[0].isascii():
        return
    if part.isascii():
        return  # words of letters are found whole, or by how they begin
    assert any(part in text for text in find(finder, part))


# What is found, and where


def test_every_tier_is_searched_and_can_be_chosen(
    finder: Finder, memory: Memory, files: SessionFiles, fake_time: FakeTime
) -> None:
    memory.facts.add_fact("Zanzibar in facts", "s")
    memory.daily.add(AT, "Zanzibar in daily")
    memory.misc.add(MiscNote("Zanzibar in misc", AT, AT + timedelta(days=1), is_trusted=False))
    log(memory, "Zanzibar in history")
    write_session(files, "memory:1", [("user", "Zanzibar in session"), ("tool", "Zanzibar in a tool")])
    everything = find(finder, "zanzibar")
    assert sorted(text.replace("user: ", "") for text in everything) == [
        f"Zanzibar in {tier}" for tier in ("daily", "facts", "history", "misc", "session")
    ]
    assert find(finder, "zanzibar", Tier.DAILY) == ["Zanzibar in daily"]
    assert find(finder, "zanzibar", Tier.SESSION) == ["user: Zanzibar in session"]
    fake_time.move(days=2)
    assert find(finder, "zanzibar", Tier.MISC) == [], "its day is over"


def test_a_span_of_time_bounds_the_search_and_no_words_give_the_newest(finder: Finder, memory: Memory) -> None:
    for days in (40, 30, 20, 10):
        log(memory, f"boat {days} days ago", days_ago=days)
    since, until = AT - timedelta(days=35), AT - timedelta(days=15)
    assert find(finder, "boat", since=since, until=until) == ["boat 20 days ago", "boat 30 days ago"]
    assert find(finder, "", limit=2) == ["boat 10 days ago", "boat 20 days ago"]
    assert find(finder, "…", since=since, until=until) == ["boat 20 days ago", "boat 30 days ago"]


def test_who_has_more_of_the_words_comes_first_then_the_newer(finder: Finder, memory: Memory) -> None:
    log(memory, "boat trip with Ann", days_ago=90)
    log(memory, "boat", "boat trip", days_ago=10)
    assert find(finder, "boat trip ann")[0] == "boat trip with Ann"
    assert find(finder, "boat")[0] == "boat trip"


def test_rows_touched_do_not_grow_with_the_history(finder: Finder, memory: Memory) -> None:
    memory.root.mkdir(parents=True)
    rows = [
        f"[2026-09-01 10:{number % 60:02d}] common word number{number} [memory:1 seq {number}–{number}]\n\n"
        for number in range(5000)
    ]
    memory.history.path.write_text("".join(rows), encoding="utf-8")
    for query in ("common", "common word", "number4999 common", "absent common"):
        found = finder.find_now(OWNER_SCOPE, Query(query)).matches
        assert found.rows_touched <= MAX_ALL_ROWS + MAX_TERMS * MAX_ONE_ROWS
        assert found.found


# The index follows the files


def write_session(files: SessionFiles, key: str, said: Sequence[tuple[str, str]], start: int = 1) -> None:
    rows = []
    for seq, (role, text) in enumerate(said, start):
        data = json.loads(text) if role in ("forgotten", "undone") else {"role": role, "content": text}
        kind = role if role in ("forgotten", "undone") else "message"
        rows.append((key, Line(seq, AT, None, kind, data).to_json()))
    files.append(rows)


def all_entries(finder: Finder) -> list[Entry]:
    finder.update(OWNER_SCOPE, 30)
    query = Query("", limit=10_000)
    return sorted((match.entry for match in finder.find_now(OWNER_SCOPE, query).matches.found), key=lambda e: e.id)


def test_what_grows_is_read_on_and_what_changes_is_read_anew(
    finder: Finder, memory: Memory, files: SessionFiles
) -> None:
    log(memory, "first boat")
    write_session(files, "memory:1", [("user", "boat one")])
    assert len(find(finder, "boat")) == 2
    memory.history.append(AT, "second boat", "memory:1 seq 100–101")
    write_session(files, "memory:1", [("assistant", "boat two")], start=2)
    finder.note("memory:1")
    assert len(find(finder, "boat")) == 4
    text = memory.history.path.read_text(encoding="utf-8")
    memory.history.path.write_text(text.replace("first boat", "a train"), encoding="utf-8")
    memory.facts.add_fact("boat in facts", "s")
    finder.read_again(OWNER_SCOPE)
    assert sorted(find(finder, "boat")) == ["assistant: boat two", "boat in facts", "second boat", "user: boat one"]
    assert find(finder, "train") == ["a train"]
    memory.facts.path.write_text("", encoding="utf-8")
    memory.history.path.unlink()
    assert sorted(find(finder, "boat")) == ["assistant: boat two", "user: boat one"]


def test_a_deleted_or_broken_index_is_made_again_with_the_same_ids(
    finder: Finder, memory: Memory, files: SessionFiles, memories: Memories, tmp_path: Path
) -> None:
    log(memory, *(f"boat {number}" for number in range(30)))
    memory.facts.add_fact("boat in facts", "s")
    memory.daily.add(AT, "boat in daily")
    write_session(files, "memory:1", [("user", "boat one")])
    before = all_entries(finder)
    assert len(before) == 33
    path = finder.index(OWNER_SCOPE).path
    for break_it in (lambda: finder.index(OWNER_SCOPE).delete(), lambda: path.write_bytes(b"no database" * 999)):
        break_it()
        fresh = Finder(memories, files, tmp_path / "state")
        fresh.update(OWNER_SCOPE, 30)
        assert [(e.id, e.tier, e.text) for e in all_entries(fresh)] == [(e.id, e.tier, e.text) for e in before]


def test_an_index_of_another_version_is_made_anew(finder: Finder, memory: Memory) -> None:
    log(memory, "boat")
    finder.update(OWNER_SCOPE, 30)
    with sqlite3.connect(finder.index(OWNER_SCOPE).path) as db:
        db.execute("pragma user_version = 99")
    db.close()
    finder.update(OWNER_SCOPE, 30)
    assert find(finder, "boat") == ["boat"]


def test_taken_back_lines_are_not_found(finder: Finder, files: SessionFiles) -> None:
    write_session(files, "memory:1", [("user", "boat one"), ("user", "boat two"), ("user", "boat three")])
    assert len(find(finder, "boat")) == 3
    write_session(files, "memory:1", [("forgotten", '{"seqs": [1]}'), ("undone", '{"from": 3, "through": 3}')], start=4)
    finder.note("memory:1")
    assert find(finder, "boat") == ["user: boat two"]


def test_another_scopes_sessions_and_files_are_not_in_the_index(
    finder: Finder, memory: Memory, memories: Memories, files: SessionFiles
) -> None:
    other = memories.of(memories.scopes.of("memory:9"))
    other.facts.add_fact("boat of others", "s")
    write_session(files, "memory:9", [("user", "boat of others")])
    log(memory, "my boat")
    assert find(finder, "boat") == ["my boat"]
    found = finder.find_now(memories.scopes.of("memory:9"), Query("boat")).matches.found
    assert {match.entry.tier for match in found} == {Tier.IMPORTANT, Tier.SESSION}


def test_searches_go_on_while_the_index_is_built(finder: Finder, memory: Memory) -> None:
    memory.root.mkdir(parents=True)
    rows = [f"[2026-09-01 10:00] boat number{number} [memory:1 seq {number}–{number}]\n\n" for number in range(8000)]
    memory.history.path.write_text("".join(rows), encoding="utf-8")
    builder = Thread(target=finder.update, args=(OWNER_SCOPE, 60))
    builder.start()
    finder.index(OWNER_SCOPE).update(memory.root, [], max_seconds=0.01)
    builder.join(60)
    assert find(finder, "number7999") == ["boat number7999"]


# Patterns


async def test_a_pattern_is_looked_for_in_files_and_sessions(memory: Memory, files: SessionFiles) -> None:
    log(memory, "order 4711 arrived", "nothing")
    write_session(files, "memory:1", [("user", "my order is 4712"), ("tool", "order 4713")])
    lines = await grep(r"order \D*471\d", [memory.history.path, files.path("memory:1")])
    assert [(line.number, line.text) for line in lines.found][1:] == [(1, "my order is 4712")]
    assert "order 4711 arrived" in lines.found[0].text
    assert lines.is_complete


async def test_r18_a_pattern_that_never_ends_is_ended_and_the_loop_goes_on(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep_module, "MAX_SECONDS", 1.0)
    log(memory, "a" * 5000 + "!")
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        last = anyio.current_time()
        while True:
            await anyio.lowlevel.checkpoint()
            longest = max(longest, anyio.current_time() - last)
            last = anyio.current_time()
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            lines = await grep("(a+)+$", [memory.history.path])
            tasks.cancel_scope.cancel()
    assert (lines.found, lines.is_complete) == ((), False)
    assert longest < 1.0


@pytest.mark.parametrize("pattern", ["(", "x" * 501, "(?P<a>x)(?P<a>y)"])
async def test_what_is_no_pattern_is_refused(pattern: str, memory: Memory) -> None:
    with pytest.raises(ToolError):
        await grep(pattern, [memory.history.path])


# Recall: time, person, event


TODAY = date(2026, 10, 7)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("what did we say yesterday?", "2026-10-06", "2026-10-06"),
        ("昨天我们说了什么", "2026-10-06", "2026-10-06"),
        ("前天", "2026-10-05", "2026-10-05"),
        ("the day before yesterday", "2026-10-05", "2026-10-05"),
        ("on Friday", "2026-10-02", "2026-10-02"),
        ("上周五", "2026-10-02", "2026-10-02"),
        ("last week", "2026-09-28", "2026-10-04"),
        ("三天前", "2026-10-04", "2026-10-04"),
        ("two weeks ago", "2026-09-21", "2026-09-27"),
        ("2026-09-01", "2026-09-01", "2026-09-01"),
        ("10月3日", "2026-10-03", "2026-10-03"),
        ("10月3号", "2026-10-03", "2026-10-03"),
        ("3 October", "2026-10-03", "2026-10-03"),
        ("Oct 3rd, 2025", "2025-10-03", "2025-10-03"),
        ("in March", "2026-03-01", "2026-03-31"),
        ("in November", "2025-11-01", "2025-11-30"),
        ("十二月", "2025-12-01", "2025-12-31"),
        ("去年", "2025-01-01", "2025-12-31"),
        ("today", "2026-10-07", "2026-10-07"),
    ],
)
def test_a_day_is_read_from_what_people_write(text: str, first: str, last: str) -> None:
    assert find_spans(text, TODAY) == [Span(date.fromisoformat(first), date.fromisoformat(last))]


@pytest.mark.parametrize(
    "text", ["may I", "31 February 2026", "tomorrow", "2026-13-45", "march on", "version 1.2.3", ""]
)
def test_what_is_no_day_of_the_past_is_none(text: str) -> None:
    assert find_spans(text, TODAY) == []


@given(st.text(max_size=200))
def test_no_text_breaks_the_reading_of_days(text: str) -> None:
    assert all(span.first <= span.last <= TODAY for span in find_spans(text, TODAY))


@pytest.fixture
def remembering(finder: Finder, memory: Memory) -> Callable[[str], list[str]]:
    """What is recalled for a message, out of a memory with some noise."""
    log(memory, *(f"We spoke of the weather and of work, number {number}." for number in range(60)), days_ago=50)
    log(memory, "Ann's birthday is on the third of May.", "小明的生日是五月三日。", days_ago=40)
    memory.daily.add(AT - timedelta(days=1), "dentist said: come again")
    memory.daily.add(AT - timedelta(days=5), "the boiler man came on Friday")
    log(memory, "On that Friday the boiler was mended.", days_ago=5)
    memory.misc.add(MiscNote("gate code of the Zwingli house is 12", AT, AT + timedelta(days=3)))
    finder.update(OWNER_SCOPE, 30)

    def ask(text: str) -> list[str]:
        return [entry.text for entry in recall(finder.index(OWNER_SCOPE), text, finder.memories.clock).entries]

    return ask


def test_a_name_finds_its_tier_whatever_else_is_said(remembering: Callable[[str], list[str]]) -> None:
    assert remembering("When is the birthday of Ann?")[0] == "Ann's birthday is on the third of May."
    assert remembering("你还记得小明的生日吗？")[0] == "小明的生日是五月三日。"
    assert remembering("Zwingli house: how do I get in?") == ["gate code of the Zwingli house is 12"]


def test_a_day_finds_the_notes_and_the_log_of_that_day(remembering: Callable[[str], list[str]]) -> None:
    found = remembering("Who came last Friday?")
    assert set(found[:2]) == {"the boiler man came on Friday", "On that Friday the boiler was mended."}
    assert set(remembering("上周五谁来了")) >= set(found[:2])


def test_what_stands_in_the_prompt_is_not_recalled_again(remembering: Callable[[str], list[str]]) -> None:
    assert "dentist said: come again" not in remembering("What did the dentist say yesterday?")


@pytest.mark.parametrize("text", ["hi", "thanks", "好的", "We spoke of the weather.", ""])
def test_small_talk_recalls_nothing(text: str, remembering: Callable[[str], list[str]]) -> None:
    assert remembering(text) == []
