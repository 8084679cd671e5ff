"""`nanobee memory` and the commands that export and remove conversations, with a real model server."""

import json
import sqlite3
from pathlib import Path

from nanobee.testing.model_server import ModelServer
from nanobee.testing.telegram_server import TelegramServer
from tests.cli.conftest import Nanobee, provider
from tests.cli.test_beside import run_gateway
from tests.memory.conftest import is_chat, is_memory_call

SECRET = "PIN is 4711"
LONG = "Ann moves to Paris in May and I help her with the boxes. " * 8


async def talk(nanobee: Nanobee, server: ModelServer) -> None:
    """A conversation that is in memory in every tier, and one that is not."""
    nanobee.configure(provider(server) + "memory: {consolidate_after_tokens: 100}\ntimezone: UTC\n")
    server.reply_calls(("memory_save", {"tier": "misc", "text": f"door {SECRET}", "expires": "3d"}), when=is_chat)
    server.reply_text(f"I keep that your {SECRET}.", when=is_chat)
    saved = {
        "history_entry": f"Ann moves in May. The {SECRET}.",
        "memory_update": f"# Memory\n\n- Ann moves in May\n- The {SECRET}\n",
        "daily_note": "boxes at nine",
    }
    server.reply_calls(("save_memory", saved), when=is_memory_call)
    for text in (f"Keep that my {SECRET}. {LONG}", "/new"):
        assert (await nanobee.run("cli", "-m", text)).code == 0
    assert (await nanobee.run("cli", "--session", "work", "-m", "hello")).code == 0


async def test_memory_is_listed_searched_and_explained(nanobee: Nanobee, server: ModelServer) -> None:
    await talk(nanobee, server)
    listed = await nanobee.run("memory", "ls")
    assert listed.code == 0, listed.err
    assert "important" in listed.out
    assert "Ann moves in May" in listed.out
    as_json = json.loads((await nanobee.run("memory", "ls", "--tier", "misc", "--json")).out)
    assert [(each["tier"], each["text"], each["session"]) for each in as_json] == [
        ("misc", f"door {SECRET}", "terminal:main")
    ]
    assert as_json[0]["expires_at"] > as_json[0]["at"]
    found = await nanobee.run("memory", "search", "ann may", "--tier", "history")
    assert "Ann moves in May." in found.out
    assert "[terminal:main seq 1–" in found.out
    why = await nanobee.run("memory", "why", "Ann moves in May")
    assert "important: Ann moves in May" in why.out
    assert "user: Keep that my PIN is 4711. Ann moves to Paris" in why.out
    [origin, *_] = json.loads((await nanobee.run("memory", "why", "Ann moves in May", "--json")).out)
    assert origin["session"] == "terminal:main"
    assert (await nanobee.run("memory", "why", "volcano")).out == "Nothing in memory says that.\n"
    assert (await nanobee.run("memory", "scopes")).out == "owner\n"
    assert (await nanobee.run("memory", "ls", "--scope", "telegram:9")).out == "Nothing is remembered there.\n"


async def test_the_texts_of_memory_md_can_be_seen_compared_and_brought_back(
    nanobee: Nanobee, server: ModelServer
) -> None:
    await talk(nanobee, server)
    file = nanobee.home / ".nanobee/workspace/memory/MEMORY.md"
    before = file.read_text()
    log = json.loads((await nanobee.run("memory", "log", "--json")).out)
    number = log[-1]["number"]
    assert log[-1]["source"].startswith("terminal:main seq 1–")
    file.write_text("# Memory\n\n- by hand\n")
    diff = (await nanobee.run("memory", "diff", str(number))).out
    assert "-- Ann moves in May\n" in diff
    assert "+- by hand\n" in diff
    assert (await nanobee.run("memory", "restore", str(number))).code == 0
    assert file.read_text() == before
    sources = [each["source"] for each in json.loads((await nanobee.run("memory", "log", "--json")).out)]
    assert sources[-2:] == ["hand", f"restore {number}"]
    missing = await nanobee.run("memory", "restore", "999")
    assert (missing.code, missing.err) == (1, "MEMORY.md has no kept version 999.\n")
    assert (await nanobee.run("memory", "diff", str(number))).out == "Nothing differs.\n"


def holding(nanobee: Nanobee) -> list[str]:
    """The files of the user that hold the secret as plain bytes."""
    root = nanobee.home / ".nanobee"
    return sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and SECRET.encode() in path.read_bytes() and path.name != "terminal_history"
    )


async def test_forgetting_and_then_redacting_leaves_the_secret_in_no_file(
    nanobee: Nanobee, server: ModelServer
) -> None:
    await talk(nanobee, server)
    assert len(holding(nanobee)) >= 5
    gone = await nanobee.run("memory", "forget", SECRET)
    assert gone.code == 0, gone.err
    assert gone.out.startswith("Forgotten: 1 facts, 1 notes, 1 entries of the history, ")
    assert not [name for name in holding(nanobee) if name.startswith("workspace")]
    assert "sessions/terminal%3amain.jsonl" in str(holding(nanobee))
    redacted = await nanobee.run("sessions", "redact", "main", "--text", SECRET)
    assert redacted.code == 0, redacted.err
    assert holding(nanobee) == []
    shown = await nanobee.run("sessions", "show", "main")
    assert shown.code == 0
    assert (await nanobee.run("cli", "-m", "still here?")).code == 0
    lines = [json.loads(row) for row in (await nanobee.run("sessions", "export", "main")).out.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert {line["kind"] for line in lines} >= {"redacted", "message", "reset"}


async def test_lines_are_redacted_by_number_and_by_what_forget_marked(nanobee: Nanobee, server: ModelServer) -> None:
    nanobee.configure(provider(server))
    for text in ("first message to remember", "second message to remember", "/forget first message"):
        assert (await nanobee.run("cli", "-m", text)).code == 0
    file = nanobee.state / "sessions" / "terminal%3amain.jsonl"
    assert "first message" in file.read_text()
    assert (await nanobee.run("sessions", "redact", "main", "--forgotten")).code == 0
    assert "first message" not in file.read_text()
    assert "second message" in file.read_text()
    seqs = [json.loads(row)["seq"] for row in file.read_text().splitlines() if "second message" in row]
    assert (await nanobee.run("sessions", "redact", "main", "--seq", f"{seqs[0]}-{seqs[-1]}")).code == 0
    assert b"second message to remember" not in (nanobee.state / "bus.db").read_bytes()
    assert "second message" not in file.read_text()
    for arguments, reason in ((("--seq", "x"), "--seq is"), ((), "Say what"), (("--text", "x"), "")):
        assert reason in (await nanobee.run("sessions", "redact", "main", *arguments)).err
    assert (
        await nanobee.run("sessions", "redact", "nobody", "--seq", "1")
    ).err == "There is no session terminal:nobody.\n"


async def test_conversations_are_exported_deleted_and_pruned(
    nanobee: Nanobee, server: ModelServer, tmp_path: Path
) -> None:
    nanobee.configure(provider(server) + "timezone: UTC\n")
    for session in ("old", "new"):
        assert (await nanobee.run("cli", "--session", session, "-m", f"hello {session}")).code == 0
    out = tmp_path / "old.md"
    assert (await nanobee.run("sessions", "export", "old", "--markdown", "--out", str(out))).code == 0
    assert out.read_text().startswith("**user** · 20")
    assert "hello old" in out.read_text()
    assert (await nanobee.run("sessions", "prune", "--older-than", "3")).out == "No conversation is that old.\n"
    file = nanobee.state / "sessions" / "terminal%3aold.jsonl"
    file.write_text(file.read_text().replace('"at":"20', '"at":"19'))
    assert (await nanobee.run("sessions", "prune", "--older-than", "3", "--dry-run")).out.startswith(
        "terminal:old, last used 19"
    )
    assert (await nanobee.run("sessions", "prune", "--older-than", "3", stdin=b"n\n")).code == 1
    assert file.exists()
    assert (await nanobee.run("sessions", "prune", "--older-than", "3", "--yes")).out == "terminal:old is deleted.\n"
    assert not file.exists()
    assert (await nanobee.run("sessions", "rm", "old", "--yes")).err == "There is no session terminal:old.\n"
    assert (await nanobee.run("cli", "--session", "old", "-m", "again")).code == 0
    seqs = [json.loads(row)["seq"] for row in file.read_text().splitlines()]
    assert seqs[0] > 4, "numbers are never used again"
    assert (await nanobee.run("sessions", "rm", "new", "old", "--yes")).code == 0
    with sqlite3.connect(nanobee.state / "bus.db") as db:
        assert db.execute("select count(*) from outbox").fetchone() == (0,)
    db.close()


async def test_beside_a_gateway_memory_is_read_and_what_needs_the_state_folder_says_so(
    nanobee: Nanobee, server: ModelServer
) -> None:
    await talk(nanobee, server)
    async with TelegramServer() as platform, run_gateway(nanobee, server, platform):
        assert "Ann moves in May" in (await nanobee.run("memory", "ls")).out
        assert "Ann moves in May" in (await nanobee.run("memory", "search", "ann")).out
        assert (await nanobee.run("sessions", "export", "main")).code == 0
        for arguments in (
            ("memory", "forget", SECRET),
            ("sessions", "rm", "main", "--yes"),
            ("sessions", "redact", "main", "--seq", "1"),
        ):
            ended = await nanobee.run(*arguments)
            assert ended.code == 1
            assert "process" in ended.err
