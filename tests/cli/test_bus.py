"""`nanobee bus`: what waits, seen and changed by a person, with and without a running gateway."""

import json
import sqlite3
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from nanobee.testing.model_server import ModelServer
from nanobee.testing.telegram_server import TelegramServer
from tests.cli.conftest import LIMIT_SECONDS, Nanobee, provider
from tests.cli.test_beside import run_gateway

HOSTILE = "before \x1b[31mred\x1b[0m \x1b]0;owned\x07 \u202eback\nsecond line"


def change(nanobee: Nanobee, sql: str, *values: object) -> None:
    """Put a row into a state that takes long to come into."""
    db = sqlite3.connect(nanobee.state / "bus.db")
    try:
        with db:
            assert db.execute(sql, values).rowcount != 0
    finally:
        db.close()


async def list_rows(nanobee: Nanobee, *arguments: str) -> list[dict[str, Any]]:
    ended = await nanobee.run("bus", "ls", "--json", *arguments)
    assert ended.code == 0, ended.err
    rows: list[dict[str, Any]] = json.loads(ended.out)["rows"]
    return rows


@pytest.fixture
async def answered(nanobee: Nanobee, server: ModelServer) -> Nanobee:
    """One message and its answer, long over."""
    nanobee.configure(provider(server))
    server.reply_text("Hello, you.")
    assert (await nanobee.run("cli", "-m", "hi there")).code == 0
    return nanobee


async def test_where_nothing_ever_ran_nothing_waits_and_nothing_is_made(nanobee: Nanobee) -> None:
    ended = await nanobee.run("bus", "ls")
    assert (ended.code, ended.out) == (0, "Nothing waits.\n")
    assert await list_rows(nanobee, "--all") == []
    assert list(nanobee.home.iterdir()) == []


async def test_ended_rows_are_listed_only_when_asked_for(answered: Nanobee) -> None:
    assert (await answered.run("bus", "ls")).out == "Nothing waits.\n"
    rows = await list_rows(answered, "--all")
    assert [(row["id"], row["state"], row["text"]) for row in rows] == [
        ("in-1", "done", "hi there"),
        ("out-1", "sent", "Hello, you."),
    ]
    lines = (await answered.run("bus", "ls", "--all")).out.splitlines()
    assert [line.split() for line in lines] == [
        ["in-1", "done", *lines[0].split()[2:4], "terminal:main", "hi", "there"],
        ["out-1", "sent", *lines[1].split()[2:4], "terminal:main", "Hello,", "you."],
    ]


async def test_rows_can_be_chosen_by_state_and_session(answered: Nanobee) -> None:
    assert await list_rows(answered, "--state", "dead") == []
    assert [row["id"] for row in await list_rows(answered, "--state", "done", "--state", "dead")] == ["in-1"]
    assert [row["id"] for row in await list_rows(answered, "--all", "--session", "terminal:main")] == ["in-1", "out-1"]
    assert await list_rows(answered, "--all", "--session", "terminal:other") == []
    refused = await answered.run("bus", "ls", "--state", "lost")
    assert (refused.code, refused.out) == (2, "")
    assert "there is no state lost; there are: arriving, cancelled, dead," in refused.err


async def test_a_long_list_is_cut_and_says_so(answered: Nanobee) -> None:
    change(
        answered,
        "with recursive n(i) as (select 2 union all select i + 1 from n where i < 5000)"
        " insert into inbox(id, session, seq, lane, kind, payload, message, state, created_at, changed_at)"
        " select i, session, i, lane, kind, payload, message, 'parked', created_at, changed_at"
        " from n, inbox where id = 1",
    )
    ended = await answered.run("bus", "ls")
    assert len(ended.out.splitlines()) == 201
    assert ended.out.splitlines()[-1] == "… and 4799 more: --limit 0 lists all."
    assert len(await list_rows(answered, "--limit", "0")) == 4999
    assert json.loads((await answered.run("bus", "ls", "--json", "--limit", "7")).out)["more"] == 4992


async def test_one_row_is_shown_with_the_rows_of_its_turn(answered: Nanobee) -> None:
    ended = await answered.run("bus", "show", "in-1")
    lines = ended.out.splitlines()
    assert ended.code == 0, ended.err
    assert lines[:4] == ["in-1", "session: terminal:main", "kind: message", "state: done"]
    assert "hi there" in lines
    assert lines[-1].startswith("out-1  sent")
    shown = json.loads((await answered.run("bus", "show", "OUT-1", "--json")).out)
    assert (shown["id"], shown["kind"], shown["platform_ids"]) == ("out-1", "answer", ["1"])
    assert [row["id"] for row in shown["turn_rows"]] == ["in-1"]


async def test_what_a_model_wrote_does_not_steer_the_terminal(answered: Nanobee) -> None:
    change(answered, "update outbox set payload = ?, reason = ?", json.dumps({"text": HOSTILE}), HOSTILE)
    for arguments in (["ls", "--all"], ["show", "out-1"]):
        out = (await answered.run("bus", *arguments)).out
        assert "owned" in out
        assert not set("\x1b\x07\x9b\u202e") & set(out)


async def test_a_row_that_is_not_there_and_a_name_that_is_none(answered: Nanobee) -> None:
    missing = await answered.run("bus", "show", "in-77")
    assert (missing.code, missing.out, missing.err) == (1, "", "There is no row in-77.\n")
    for command in ("show", "retry", "resume", "drop"):
        nameless = await answered.run("bus", command, "12")
        assert (nameless.code, nameless.out) == (2, "")
        assert "in-12 or out-34" in nameless.err


async def test_changes_without_a_gateway_wait_for_the_next_start(answered: Nanobee, server: ModelServer) -> None:
    change(answered, "update outbox set state = 'dead', reason = 'blocked', attempts = 9")
    change(answered, "update inbox set state = 'parked', reason = 'stopped', turn = null, is_told = 0")
    listed = (await answered.run("bus", "ls")).out.splitlines()
    assert listed[0].endswith("hi there  [stopped]")
    assert listed[1].endswith("Hello, you.  [9 tries; blocked]")
    assert "put aside: 1 given up, 1 parked (`nanobee bus ls` shows them)" in (await answered.run("status")).out
    retried = await answered.run("bus", "retry", "out-1")
    resumed = await answered.run("bus", "resume", "in-1", "--json")
    assert (retried.code, retried.out) == (0, "out-1: it goes on at the gateway's next start.\n")
    assert json.loads(resumed.out) == [{"id": "in-1", "changed": True, "session": "terminal:main", "gateway": False}]
    ended = await answered.run("cli", "-m", "and this")
    assert ended.code == 0
    assert "Hello, you." in ended.err
    assert len(server.requests) == 3
    assert {row["state"] for row in await list_rows(answered, "--all")} == {"done", "sent"}


async def test_a_change_that_is_refused_says_why_and_the_others_are_made(answered: Nanobee) -> None:
    change(answered, "update inbox set state = 'parked', reason = 'stopped'")
    ended = await answered.run("bus", "drop", "in-1", "out-1", "in-2")
    assert ended.code == 1
    assert ended.out == "in-1: dropped.\n"
    assert ended.err == "out-1 is over (sent).\nThere is no row in-2.\n"
    [row] = await list_rows(answered, "--state", "stopped")
    assert (row["id"], row["reason"]) == ("in-1", "dropped by the owner")


async def test_in_chinese(answered: Nanobee, server: ModelServer) -> None:
    answered.configure(provider(server) + "language: zh\n")
    assert (await answered.run("bus", "ls")).out == "没有等待中的消息。\n"
    assert (await answered.run("bus", "retry", "out-1")).err == "out-1 已结束（sent）。\n"
    assert (await answered.run("bus", "show", "in-1")).out.splitlines()[1:4] == [
        *("会话: terminal:main", "类型: message", "状态: 完成")
    ]


async def test_a_damaged_bus_is_one_line(nanobee: Nanobee) -> None:
    nanobee.state.mkdir(parents=True)
    (nanobee.state / "bus.db").write_text("no database at all" * 100, encoding="utf-8")
    for arguments in (["ls"], ["show", "in-1"], ["retry", "out-1"]):
        ended = await nanobee.run("bus", *arguments)
        assert (ended.code, ended.out) == (1, "")
        assert len(ended.err.splitlines()) == 1
        assert str(nanobee.state / "bus.db") in ended.err


async def test_a_dead_answer_is_delivered_again_beside_a_running_gateway(nanobee: Nanobee, server: ModelServer) -> None:
    async with TelegramServer() as platform, run_gateway(nanobee, server, platform):
        ann = platform.private(7)
        platform.faults.fail("sendMessage", 403, "Forbidden: bot was blocked by the user")
        server.reply_text("You should see this.")
        ann.says("hello")
        with anyio.fail_after(LIMIT_SECONDS):
            while not (dead := await list_rows(nanobee, "--state", "dead")):
                await anyio.lowlevel.checkpoint()
        assert "blocked" in dead[0]["reason"]
        before = len(platform.sent())
        retried = await nanobee.run("bus", "retry", dead[0]["id"])
        assert (retried.code, retried.out) == (0, f"{dead[0]['id']}: the gateway goes on with it.\n")
        await platform.wait_texts("You should see this.")
        assert before == 0
        with anyio.fail_after(LIMIT_SECONDS):
            while await list_rows(nanobee):
                await anyio.lowlevel.checkpoint()
    assert [str(message["text"]) for message in platform.sent()] == ["You should see this."]


async def test_a_parked_message_is_answered_or_dropped_beside_a_running_gateway(
    nanobee: Nanobee, server: ModelServer
) -> None:
    async with TelegramServer() as platform, run_gateway(nanobee, server, platform):
        ann = platform.private(7)
        reply = server.reply_text("never", hold=anyio.Event())
        ann.says("long work")
        await reply.asked.wait()
        for text in ("keep this", "forget this", "/stop"):
            ann.says(text)
        with anyio.fail_after(LIMIT_SECONDS):
            while len(parked := await list_rows(nanobee, "--state", "parked")) < 2:
                await anyio.lowlevel.checkpoint()
        ids = {row["text"]: row["id"] for row in parked}
        dropped = await nanobee.run("bus", "drop", ids["forget this"])
        resumed = await nanobee.run("bus", "resume", ids["keep this"])
        assert (dropped.code, resumed.code) == (0, 0), dropped.err + resumed.err
        with anyio.fail_after(LIMIT_SECONDS):
            while not str(platform.sent()[-1]["text"]).endswith("keep this"):
                await platform.wait_for("sendMessage", len(platform.sent()) + 1)
        rows = await list_rows(nanobee, "--all", "--state", "stopped")
    assert [row["text"] for row in rows] == ["long work", "forget this"]
    assert len(server.requests) == 2
