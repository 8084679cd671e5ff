"""`nanobee sessions`: the conversations, beside a holder and without one."""

import json
from pathlib import Path

import anyio

from nanobee.testing.model_server import ModelServer
from nanobee.testing.telegram_server import TelegramServer
from tests.cli.conftest import Nanobee, provider
from tests.cli.test_beside import run_gateway


async def talk(nanobee: Nanobee, server: ModelServer) -> None:
    """A conversation with a tool call, a failed one, an answer, and another conversation."""
    nanobee.configure(provider(server))
    server.reply_calls(("read_file", {"path": "USER.md"}), ("read_file", {"path": "no such file"}), text="I look.")
    server.reply_text("It says: \x1b[31mnothing\x1b[0m.")
    assert (await nanobee.run("cli", "-m", "what is in USER.md?\nand elsewhere?")).code == 0
    assert (await nanobee.run("cli", "--session", "work", "-m", "hello")).code == 0


async def test_where_nothing_was_said_there_are_none(nanobee: Nanobee) -> None:
    ended = await nanobee.run("sessions", "ls")
    assert (ended.code, ended.out) == (0, "There are no sessions yet.\n")
    assert json.loads((await nanobee.run("sessions", "ls", "--json")).out) == []
    missing = await nanobee.run("sessions", "show", "main")
    assert (missing.code, missing.out, missing.err) == (1, "", "There is no session terminal:main.\n")
    assert list(nanobee.home.iterdir()) == []


async def test_they_are_listed_the_last_used_first(nanobee: Nanobee, server: ModelServer) -> None:
    await talk(nanobee, server)
    lines = (await nanobee.run("sessions", "ls")).out.splitlines()
    assert [line.split()[0] for line in lines] == ["terminal:work", "terminal:main"]
    assert lines[0].endswith("4 lines")
    listed = json.loads((await nanobee.run("sessions", "ls", "--json")).out)
    assert [each["session"] for each in listed] == ["terminal:work", "terminal:main"]
    assert listed[0]["last_at"] >= listed[1]["last_at"]


async def test_the_last_turns_are_shown_readably(nanobee: Nanobee, server: ModelServer) -> None:
    await talk(nanobee, server)
    ended = await nanobee.run("sessions", "show", "main")
    assert ended.code == 0, ended.err
    head, *lines = ended.out.splitlines()
    assert head.startswith("── ")
    assert head.endswith(" · done")
    assert lines[:3] == ["> what is in USER.md?", "  and elsewhere?", "I look."]
    assert lines[3:5] == ['  · read_file {"path": "USER.md"}', '  · read_file {"path": "no such file"}']
    assert lines[5].startswith("  → ")
    assert lines[6].startswith("  ✗ ")
    assert lines[7] == "It says: �[31mnothing�[0m."


async def test_a_turn_can_be_chosen_from_the_end(nanobee: Nanobee, server: ModelServer) -> None:
    nanobee.configure(provider(server))
    for text in ("one", "two", "three"):
        await nanobee.run("cli", "-m", text)
    last = (await nanobee.run("sessions", "show", "main", "--last", "2")).out
    assert [line for line in last.splitlines() if line.startswith(">")] == ["> two", "> three"]
    second = (await nanobee.run("sessions", "show", "terminal:main", "--turn", "2")).out
    assert [line for line in second.splitlines() if line.startswith(">")] == ["> two"]
    whole = json.loads((await nanobee.run("sessions", "show", "main", "--json")).out)
    assert [turn["state"] for turn in whole] == ["done"] * 3
    assert [turn["lines"][1]["content"] for turn in whole] == ["one", "two", "three"]
    beyond = await nanobee.run("sessions", "show", "main", "--turn", "9")
    assert (beyond.code, beyond.err) == (1, "terminal:main has not 9 turns.\n")


async def test_a_failed_turn_tells_why(nanobee: Nanobee, server: ModelServer) -> None:
    nanobee.configure(provider(server))
    server.reply_status(401, {"error": {"message": "bad key"}}, times=None)
    assert (await nanobee.run("cli", "-m", "hi")).code == 1
    shown = (await nanobee.run("sessions", "show", "main")).out
    assert " · failed: The model gave no answer" in shown.splitlines()[0]


async def test_a_name_that_is_nearly_right_is_helped(nanobee: Nanobee, server: ModelServer) -> None:
    await talk(nanobee, server)
    ended = await nanobee.run("sessions", "show", "wrok")
    assert (ended.code, ended.err) == (1, "There is no session terminal:wrok. Did you mean terminal:work?\n")


async def test_a_conversation_under_way_is_seen_beside_its_gateway(nanobee: Nanobee, server: ModelServer) -> None:
    hold = anyio.Event()
    async with TelegramServer() as platform, run_gateway(nanobee, server, platform):
        reply = server.reply_text("later", hold=hold)
        platform.private(7).says("take your time")
        await reply.asked.wait()
        shown = await nanobee.run("sessions", "show", "bot:7")
        before = files_in(nanobee.state / "sessions")
        hold.set()
        await platform.wait_texts("later")
    assert shown.out.splitlines()[0].endswith(" · under way")
    assert shown.out.splitlines()[1] == "> take your time"
    assert [path.name for path in before] == ["bot%3a7.jsonl"]


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())
