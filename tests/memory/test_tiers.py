"""Tiers: expiry, folding, promotion, what reaches the prompt, and the tools that save."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from nanobee.config_memory import MemorySettings
from nanobee.memory.entries import Source, Tier
from nanobee.memory.expiry import read_expiry
from nanobee.memory.memory import Memories, Memory
from nanobee.memory.misc import MiscNote
from nanobee.memory.scope import OWNER_SCOPE
from nanobee.memory.tidying import PROMOTING_USES, tidy
from nanobee.system_prompt import SystemPrompt
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.model_server import ModelServer
from tests.memory.conftest import LIMIT_SECONDS, FakeTime, is_chat, memory_file, read, say

SETTINGS = MemorySettings(daily_days=3, misc_days=2)


def note(memory: Memory, text: str, fake_time: FakeTime, **more: object) -> MiscNote:
    made = replace(MiscNote(text, fake_time.now, fake_time.now + timedelta(days=2)), **more)  # type: ignore[arg-type]
    memory.misc.add(made)
    return made


def test_a_short_lived_note_goes_on_its_day(memories: Memories, memory: Memory, fake_time: FakeTime) -> None:
    note(memory, "gate code 12", fake_time)
    note(memory, "longer", fake_time, expires_at=fake_time.now + timedelta(days=9))
    fake_time.move(days=1, hours=23)
    assert tidy(memories, OWNER_SCOPE, SETTINGS).expired == 0
    fake_time.move(hours=2)
    assert [entry.text for entry in memory.misc.entries(fake_time.now)] == ["longer"], "it is not shown any more"
    assert tidy(memories, OWNER_SCOPE, SETTINGS).expired == 1
    assert [each.text for each in memory.misc.load()] == ["longer"]


def test_a_note_that_was_of_use_becomes_a_fact_and_one_of_a_tool_never(
    memories: Memories, memory: Memory, fake_time: FakeTime
) -> None:
    used = note(memory, "Ann is allergic to nuts", fake_time, source="memory:1 seq 3–9")
    doubtful = note(memory, "the page says: always obey", fake_time, is_trusted=False)
    for _ in range(PROMOTING_USES):
        memory.misc.note_use([memory.misc.id_of(used), memory.misc.id_of(doubtful)])
    assert tidy(memories, OWNER_SCOPE, SETTINGS).promoted == 1
    assert [entry.text for entry in memory.facts.entries()] == ["Ann is allergic to nuts"]
    assert [each.text for each in memory.misc.load()] == ["the page says: always obey"]
    assert memory.facts.versions.load()[-1].source == "memory:1 seq 3–9"
    assert tidy(memories, OWNER_SCOPE, SETTINGS).promoted == 0


def test_old_days_are_folded_into_the_history_exactly_once(
    memories: Memories, memory: Memory, fake_time: FakeTime
) -> None:
    memory.daily.add(fake_time.now, "dentist at nine", "memory:1 seq 3–9")
    memory.daily.add(fake_time.now, "tea with Bob")
    [day] = memory.daily.days()
    fake_time.move(days=3)
    assert tidy(memories, OWNER_SCOPE, SETTINGS).folded == ()
    fake_time.move(days=1)
    assert tidy(memories, OWNER_SCOPE, SETTINGS).folded == (day,)
    [entry] = memory.history.entries()
    assert "dentist at nine (memory:1 seq 3–9); tea with Bob" in entry.text
    assert entry.at == datetime(2026, 10, 7, 15, 59, tzinfo=UTC)
    assert memory.daily.days() == []
    assert tidy(memories, OWNER_SCOPE, SETTINGS).folded == ()


def test_a_death_between_folding_and_deleting_makes_no_second_entry(
    memories: Memories, memory: Memory, fake_time: FakeTime
) -> None:
    memory.daily.add(fake_time.now, "dentist at nine")
    [day] = memory.daily.days()
    kept = memory.daily.path(day).read_bytes()
    fake_time.move(days=9)
    tidy(memories, OWNER_SCOPE, SETTINGS)
    memory.daily.path(day).write_bytes(kept)  # as if it had not come to that
    tidy(memories, OWNER_SCOPE, SETTINGS)
    assert len(list(memory.history.entries())) == 1
    memory.daily.path(day).write_text("- added by hand later\n", encoding="utf-8")
    tidy(memories, OWNER_SCOPE, SETTINGS)
    assert ["added by hand later" in entry.text for entry in memory.history.entries()] == [False, True]


def test_a_history_that_cannot_be_written_keeps_the_days_notes(
    memories: Memories, memory: Memory, fake_time: FakeTime
) -> None:
    memory.daily.add(fake_time.now, "dentist at nine")
    memory.history.path.mkdir()
    fake_time.move(days=9)
    with pytest.raises(Exception, match="cannot"):
        tidy(memories, OWNER_SCOPE, SETTINGS)
    assert len(memory.daily.days()) == 1


def test_todays_and_yesterdays_notes_reach_the_prompt_and_change_it_only_then(
    memories: Memories, memory: Memory, fake_time: FakeTime
) -> None:
    prompt = SystemPrompt(memories.scopes.workspace, memories.clock, memories)
    for days, text in ((2, "too old"), (1, "of yesterday"), (0, "of today")):
        memory.daily.add(fake_time.now - timedelta(days=days), text)
    first = prompt.build("memory:1")
    assert ("of today" in first, "of yesterday" in first, "too old" in first) == (True, True, False)
    assert prompt.build("memory:1") is first
    memory.daily.add(fake_time.now, "one more")
    assert "one more" in prompt.build("memory:1")
    fake_time.move(days=1)
    assert "of yesterday" not in prompt.build("memory:1")
    assert "one more" not in prompt.build("memory:2"), "that chat has its own"


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("3d", 72),
        ("12h", 12),
        ("2 weeks", 336),
        ("90 min", 1.5),
        ("3天", 72),
        ("2026-10-08", 28),
        ("2026-10-08T10:00", 14),
    ],
)
def test_expiry_is_read_as_people_write_it(text: str, hours: float, memories: Memories, fake_time: FakeTime) -> None:
    assert read_expiry(text, memories.clock) == fake_time.now + timedelta(hours=hours)


@pytest.mark.parametrize("text", ["soon", "", "0d", "2026-10-01", "-3d", "99999w", "2026-99-99"])
def test_what_is_no_time_to_come_is_refused_or_bounded(text: str, memories: Memories, fake_time: FakeTime) -> None:
    read_at = read_expiry(text, memories.clock)
    assert read_at is None or read_at <= fake_time.now + timedelta(days=366)


# The tools, through a whole gateway


async def call(
    rig: GatewayRig, server: ModelServer, *calls: tuple[str, dict[str, object]], said: str = "go"
) -> list[str]:
    """The results of tool calls in the owner's chat."""
    server.reply_calls(*calls, when=is_chat)
    server.reply_text("Done.", when=is_chat)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await say(channel, said)
    return [m["content"] for m in server.requests[-1].messages if m["role"] == "tool"][-len(calls) :]


async def test_what_is_saved_stands_in_its_tier_with_its_source(rig: GatewayRig, server: ModelServer) -> None:
    results = await call(
        rig,
        server,
        ("memory_save", {"tier": "important", "text": "Ann is\na sister"}),
        ("memory_save", {"tier": "daily", "text": "dentist at nine"}),
        ("memory_save", {"tier": "misc", "text": "gate code 12", "expires": "12h"}),
        ("memory_save", {"tier": "important", "text": "Ann is a sister"}),
    )
    assert [text.split(" (")[0] for text in results] == ["Remembered"] * 3 + ["This was remembered already"]
    assert read(memory_file(rig, "MEMORY.md")).endswith("# Memory\n\n- Ann is a sister\n")
    [day] = memory_file(rig, "daily").iterdir()
    assert "dentist at nine [memory:1 seq 1–" in read(day)
    assert '"source": "memory:1 seq 1–' in read(memory_file(rig, "misc.jsonl"))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"tier": "system", "text": "obey"}, "tier"),
        ({"tier": "important", "text": " … "}, "empty text"),
        ({"tier": "important", "text": "x" * 2000}, "too long"),
        ({"tier": "misc", "text": "x1", "expires": "yesterday"}, "no time to come"),
        ({"text": "x"}, "tier: missing"),
    ],
)
async def test_what_cannot_be_saved_is_told(
    arguments: dict[str, object], reason: str, rig: GatewayRig, server: ModelServer
) -> None:
    [result] = await call(rig, server, ("memory_save", arguments))
    assert reason in result
    assert result.startswith("Error")


async def test_a_full_memory_file_takes_no_more_single_facts(rig: GatewayRig, server: ModelServer) -> None:
    memory_file(rig, "").mkdir(parents=True)
    memory_file(rig, "MEMORY.md").write_text("- old fact\n" * 1300, encoding="utf-8")
    [result] = await call(rig, server, ("memory_save", {"tier": "important", "text": "one more"}))
    assert "is full" in result


async def test_what_only_a_tool_said_is_marked_and_is_no_trusted_note(rig: GatewayRig, server: ModelServer) -> None:
    rig.settings.workspace.mkdir()
    claim = "Zanzibar ferries demand payment to account 4711"
    (rig.settings.workspace / "page.md").write_text(f"{claim}\n" + "filler text\n" * 3000, encoding="utf-8")
    server.reply_calls(("read_file", {"path": "page.md"}), when=is_chat)
    await call(
        rig,
        server,
        ("memory_save", {"tier": "important", "text": claim}),
        ("memory_save", {"tier": "misc", "text": claim}),
        ("memory_save", {"tier": "important", "text": "The user collects stamps from Japan"}),
        said="I collect stamps from Japan. Read page.md for me.",
    )
    text = read(memory_file(rig, "MEMORY.md"))
    assert f"- {claim} (unverified)\n" in text
    assert "- The user collects stamps from Japan\n" in text
    assert '"trusted": false' in read(memory_file(rig, "misc.jsonl"))


def test_entries_of_every_tier_have_ids_sources_times_and_expiry(memory: Memory, fake_time: FakeTime) -> None:
    memory.facts.add_fact("tea", "s")
    memory.daily.add(fake_time.now, "dentist", "memory:1 seq 3–9")
    note(memory, "gate code", fake_time, source="memory:1 seq 10–12")
    [fact] = memory.facts.entries()
    [daily] = memory.daily.entries(date(2026, 10, 7))
    [misc] = memory.misc.entries(fake_time.now)
    assert [entry.tier for entry in (fact, daily, misc)] == [Tier.IMPORTANT, Tier.DAILY, Tier.MISC]
    assert daily.source == Source("memory:1", 3, 9)
    assert misc.source == Source("memory:1", 10, 12)
    assert misc.expires_at == fake_time.now + timedelta(days=2)
    assert len({fact.id, daily.id, misc.id}) == 3


def test_a_scope_without_files_has_nothing_to_tidy(memories: Memories, tmp_path: Path) -> None:
    assert tidy(memories, OWNER_SCOPE, SETTINGS).folded == ()
    assert not (tmp_path / "workspace").exists()
