"""The files of one memory: appended to, merged, kept in versions, read again after a hand edit."""

import errno
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobee.errors import StateError
from nanobee.memory.entries import Source, Tier, entry_id, one_line, split_source
from nanobee.memory.memory import Memories, Memory
from nanobee.memory.merging import merge
from nanobee.memory.misc import MAX_NOTES, MiscNote
from nanobee.memory.scope import OWNER_SCOPE
from nanobee.memory.versions import BY_HAND, MAX_VERSIONS
from tests.memory.conftest import FakeTime

AT = datetime(2026, 10, 7, 12, 0, tzinfo=UTC)
SOURCE = "memory:1 seq 3–9"


def test_an_entry_has_its_local_time_its_text_on_one_line_and_its_source(memory: Memory) -> None:
    memory.history.append(AT, "Ann\nmoves [soon].", SOURCE)
    memory.history.append(AT, "Second.", "memory:1 seq 10–12")
    text = memory.history.path.read_text(encoding="utf-8")
    assert text == (
        "[2026-10-07 20:00] Ann moves [soon]. [memory:1 seq 3–9]\n\n[2026-10-07 20:00] Second. [memory:1 seq 10–12]\n\n"
    )
    first, second = memory.history.entries()
    assert (first.at, first.text, first.source) == (AT, "Ann moves [soon].", Source("memory:1", 3, 9))
    assert [entry.text for entry in memory.history.entries(first.end)] == ["Second."]
    assert second.end == len(text.encode())


@pytest.mark.parametrize("before", ["old", "old\n", "old\n\n", "old\r\n\r\n", ""])
def test_what_stood_in_the_history_is_an_untouched_prefix(before: str, memory: Memory) -> None:
    memory.root.mkdir(parents=True)
    memory.history.path.write_bytes(before.encode())
    memory.history.append(AT, "New.", SOURCE)
    data = memory.history.path.read_bytes()
    assert data.startswith(before.encode())
    assert [entry.text for entry in memory.history.entries()][-1] == "New."


@pytest.mark.parametrize("cut", [0, 1, 10, 30, 56, 57])
def test_a_replay_completes_an_entry_that_a_crash_cut_and_doubles_none(cut: int, memory: Memory) -> None:
    memory.history.append(AT, "First.", "memory:1 seq 1–2")
    whole = memory.history.path.read_bytes()
    memory.history.append(AT, "Second.", SOURCE)
    both = memory.history.path.read_bytes()
    memory.history.path.write_bytes(both[: len(whole) + cut])
    memory.history.append(AT, "Second.", SOURCE, is_replay=True)
    memory.history.append(AT, "Second.", SOURCE, is_replay=True)
    assert memory.history.path.read_bytes() == both


def test_a_full_disk_leaves_the_history_as_it_was(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.history.append(AT, "First.", SOURCE)
    before = memory.history.path.read_bytes()
    written = os.pwrite

    def half(descriptor: int, data: bytes, offset: int) -> int:
        if offset > len(before):
            raise OSError(errno.ENOSPC, "full")
        return written(descriptor, bytes(data)[:7], offset)

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(StateError):
        memory.history.append(AT, "Second.", "memory:1 seq 10–12")
    assert memory.history.path.read_bytes() == before


@given(st.text(max_size=80), st.text(min_size=1, max_size=30), st.integers(1, 10**9), st.integers(1, 10**9))
def test_any_source_is_read_back(text: str, chat_id: str, first: int, last: int) -> None:
    key = "ws:" + chat_id.replace("%", "%25").replace(":", "%3A")
    source = Source(key, first, last)
    assert split_source(f"{one_line(text)} [{source}]") == (one_line(text), source)
    assert "\n" not in str(source)


def test_ids_are_stable_small_and_apart_for_scope_tier_and_text() -> None:
    ids = {entry_id(scope, tier, text) for scope in ("owner", "a:1") for tier in Tier for text in ("x", "y")}
    assert len(ids) == 2 * len(Tier) * 2
    assert all(0 < number < 2**53 for number in ids)
    assert entry_id("owner", Tier.MISC, "tea") == 1159579264928920


lines = st.lists(st.sampled_from([f"- fact {number}" for number in range(12)]), unique=True, max_size=10)


@given(lines, lines, lines)
def test_a_merge_keeps_what_both_sides_added_drops_what_either_dropped_and_is_the_same_twice(
    base: list[str], update: list[str], current: list[str]
) -> None:
    texts = ["\n".join(each) + "\n" for each in (base, update, current)]
    merged = merge(*texts)
    removed, added = set(base) - set(update), set(update) - set(base)
    assert {line for line in merged.split("\n") if line} == (set(current) - removed) | added
    assert merge(texts[0], texts[1], merged) == merged


def test_two_updates_from_one_base_lose_nothing(memory: Memory) -> None:
    base = "# Memory\n\n- tea\n- Ann\n"
    memory.facts.apply("", base, "s1")
    memory.facts.apply(base, "# Memory\n\n- tea\n- Ann\n- Paris\n", "s2")
    memory.facts.apply(base, "# Memory\n\n- green tea\n- Ann\n", "s3")
    assert memory.facts.read() == "# Memory\n\n- green tea\n- Ann\n- Paris\n"


def test_a_hand_edit_in_the_middle_stays_and_is_kept_as_a_version(memory: Memory) -> None:
    base = "# Memory\n\n- tea\n"
    memory.facts.apply("", base, "s1")
    memory.facts.path.write_text("# Memory\n\n- tea\n- by hand\n", encoding="utf-8")
    memory.facts.apply(base, "# Memory\n\n- tea\n- Paris\n", "s2")
    text = memory.facts.read()
    assert "- by hand" in text
    assert "- Paris" in text
    assert [version.source for version in memory.facts.versions.load()] == ["s1", BY_HAND, "s2"]


def test_a_file_that_changes_between_read_and_write_is_read_again(memory: Memory) -> None:
    memory.facts.apply("", "- tea\n", "s1")
    edits = ["- tea\n- first\n", "- tea\n- first\n- second\n"]

    def change(current: str) -> str:
        if edits:
            memory.facts.path.write_text(edits.pop(0), encoding="utf-8")
        return current + "- ours\n"

    memory.facts.update(change, "s2")
    assert memory.facts.read() == "- tea\n- first\n- second\n- ours\n"


def test_the_last_versions_are_kept_and_numbered_on(memory: Memory) -> None:
    for number in range(MAX_VERSIONS + 5):
        memory.facts.add_fact(f"fact {number}", "s")
    versions = memory.facts.versions.load()
    assert len(versions) == MAX_VERSIONS
    assert [version.number for version in versions] == list(range(6, MAX_VERSIONS + 6))
    assert versions[-1].text == memory.facts.read()
    assert not memory.facts.add_fact("fact 3", "s")


def test_a_broken_line_in_the_versions_costs_that_version_only(memory: Memory) -> None:
    for number in range(3):
        memory.facts.add_fact(f"fact {number}", "s")
    path = memory.facts.versions.path
    rows = path.read_text(encoding="utf-8").split("\n")
    path.write_text("\n".join([rows[0], "{broken", *rows[1:]]), encoding="utf-8")
    assert len(memory.facts.versions.load()) == 3


def test_daily_notes_stand_under_their_local_day_once(memory: Memory) -> None:
    late = datetime(2026, 10, 7, 17, 30, tzinfo=UTC)  # half past one of the 8th in Shanghai
    assert memory.daily.add(AT, "dentist at nine", SOURCE)
    assert not memory.daily.add(AT + timedelta(minutes=5), "dentist at nine", SOURCE)
    assert memory.daily.add(late, "call\nAnn")
    assert [day.isoformat() for day in memory.daily.days()] == ["2026-10-07", "2026-10-08"]
    text = memory.daily.path(memory.daily.days()[0]).read_text(encoding="utf-8")
    assert text == "# 2026-10-07\n\n- 20:00 dentist at nine [memory:1 seq 3–9]\n"
    [entry] = memory.daily.entries(memory.daily.days()[1])
    assert (entry.text, entry.at, entry.source) == ("call Ann", late, None)


def test_a_daily_note_of_a_person_is_an_entry_too(memory: Memory) -> None:
    memory.daily.folder.mkdir(parents=True)
    (memory.daily.folder / "2026-10-01.md").write_text("# My day\n\n* 99:99 odd\nplain\n", encoding="utf-8")
    (memory.daily.folder / "2026-13-01.md").write_text("no day", encoding="utf-8")
    [day] = memory.daily.days()
    assert [entry.text for entry in memory.daily.entries(day)] == ["odd", "plain"]


def test_misc_notes_last_as_long_as_the_longer_of_two_and_unknown_lines_stay(memory: Memory) -> None:
    memory.root.mkdir(parents=True)
    memory.misc.path.write_text("# mine\n{}\n", encoding="utf-8")
    short, long = AT + timedelta(days=1), AT + timedelta(days=9)
    assert memory.misc.add(MiscNote("gate code 12", AT, short))
    assert not memory.misc.add(MiscNote("gate code 12", AT, long))
    assert not memory.misc.add(MiscNote("gate code 12", AT, short))
    [note] = memory.misc.load()
    assert note.expires_at == long
    assert memory.misc.path.read_text(encoding="utf-8").startswith("# mine\n{}\n")
    assert [entry.id for entry in memory.misc.entries(AT)] == [entry_id("owner", Tier.MISC, "gate code 12")]
    memory.misc.remove([memory.misc.id_of(note)])
    assert memory.misc.path.read_text(encoding="utf-8") == "# mine\n{}\n"


def test_too_many_misc_notes_lose_those_that_would_go_first(memory: Memory, fake_time: FakeTime) -> None:
    rows = [
        MiscNote(f"note {number}", AT, AT + timedelta(minutes=number + 1)).to_json() for number in range(MAX_NOTES + 3)
    ]
    memory.root.mkdir(parents=True)
    memory.misc.path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert memory.misc.clean(fake_time.now) == 3
    assert memory.misc.load()[0].text == "note 3"


def test_one_writer_at_a_time_over_threads(memories: Memories, memory: Memory) -> None:
    def add(name: str) -> None:
        for number in range(20):
            with memories.lock.hold(OWNER_SCOPE):
                memory.facts.add_fact(f"{name} {number}", "s")
                memory.history.append(AT, f"{name} {number}", f"memory:{name} seq {number}–{number}")

    threads = [Thread(target=add, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(memory.facts.entries()) == 60
    assert len(list(memory.history.entries())) == 60


def test_files_are_private(memory: Memory) -> None:
    memory.facts.add_fact("tea", "s")
    memory.history.append(AT, "x", SOURCE)
    memory.daily.add(AT, "x")
    assert {path.stat().st_mode & 0o077 for path in memory.root.rglob("*")} == {0}


@pytest.mark.parametrize(
    "write", [lambda memory: memory.facts.add_fact("x", "s"), lambda memory: memory.daily.add(AT, "x")]
)
def test_a_folder_that_cannot_be_written_is_a_state_error(
    write: Callable[[Memory], object], memory: Memory, tmp_path: Path
) -> None:
    memory.root.parent.mkdir(parents=True)
    memory.root.write_text("a file in its place")
    with pytest.raises(StateError):
        write(memory)
