"""A hundred thousand rows that wait: they stay on disk, and a start takes up a bounded number of them."""

import asyncio
import json
import sqlite3
import time
import tracemalloc
from pathlib import Path

import anyio
import pytest

from nanobee import gateway
from nanobee.agent.dispatch import MAX_SESSIONS, MAX_TURNS
from nanobee.bus.delivery import MAX_CHATS_AT_ONCE
from nanobee.bus.sqlite import FILE_NAME
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_server import ModelServer

ROWS = 100_000
START_SECONDS = 60
MAX_BYTES = 64 * 1024 * 1024
"""What a start may take for them: some hundred bytes for each session, nothing for each row."""


async def prepare(rig: GatewayRig) -> None:
    """Make the state folder."""
    async with rig.open():
        pass


def fill_inbox(state: Path, sessions: int) -> None:
    """Let `ROWS` messages wait, evenly over so many sessions."""
    db = sqlite3.connect(state / FILE_NAME)
    chats = json.dumps([f"memory:{chat}" for chat in range(sessions)])
    db.execute("insert into session(key, next_seq) select value, 1 from json_each(?)", (chats,))
    message = '{"to":"\' || s.value || \'","from":"1","text":"hi","at":"2026-01-01T00:00:00.000Z"}'
    db.execute(
        "insert into inbox(session, seq, lane, kind, dedupe, payload, message, state, created_at, changed_at)"
        f" select s.value, r.value, 1, 'message', s.value || '/' || r.value, '{{}}', '{message}', 'ready', ?, ?"
        " from json_each(?) r, json_each(?) s",
        (time.time(), time.time(), json.dumps(list(range(ROWS // sessions))), chats),
    )
    db.commit()
    db.close()


def fill_outbox(state: Path, chats: int) -> None:
    """Let `ROWS` parts wait, evenly over so many chats."""
    db = sqlite3.connect(state / FILE_NAME)
    db.execute(
        "insert into outbox(address, seq, part, parts, kind, payload, idempotency_key, state, created_at, changed_at)"
        " select s.value, 1, 0, 1, 'notice', '{\"text\":\"hi\"}', s.value || '/' || r.value, 'ready', ?, ?"
        " from json_each(?) r, json_each(?) s",
        (
            time.time(),
            time.time(),
            json.dumps(list(range(ROWS // chats))),
            json.dumps([f"memory:{chat}" for chat in range(chats)]),
        ),
    )
    db.commit()
    db.close()


@pytest.mark.parametrize("sessions", [500, ROWS])
async def test_messages_that_wait_take_a_bounded_number_of_tasks_and_little_memory(
    rig: GatewayRig, server: ModelServer, sessions: int
) -> None:
    hold = anyio.Event()
    server.reply_text("held", times=None, hold=hold)
    await prepare(rig)
    fill_inbox(rig.settings.state, sessions)
    tracemalloc.start()
    try:
        with anyio.fail_after(START_SECONDS):
            async with rig.open() as (_, channel):
                await server.wait_requests(MAX_TURNS)
                await channel.say("/status", chat_id="new")
                await channel.wait_sent(1, chat_id="new")
                tasks, (_, peak) = len(asyncio.all_tasks()), tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(server.requests) == MAX_TURNS
    assert tasks < MAX_SESSIONS + 3 * MAX_TURNS + 50
    assert peak < MAX_BYTES


@pytest.mark.parametrize("chats", [500, ROWS])
async def test_parts_that_wait_take_a_bounded_number_of_tasks_and_little_memory(
    rig: GatewayRig, chats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "SEND_SECONDS", 0.1)  # what is blocked is not waited for at the end
    await prepare(rig)
    fill_outbox(rig.settings.state, chats)
    memory = MemoryChannel()
    for chat in range(chats):
        memory.block(str(chat))
    tracemalloc.start()
    try:
        with anyio.fail_after(START_SECONDS):
            async with rig.open(memory):
                await memory.wait_attempts(MAX_CHATS_AT_ONCE)
                tasks, (_, peak) = len(asyncio.all_tasks()), tracemalloc.get_traced_memory()
                for part in list(memory.attempts):
                    memory.unblock(part.address.chat_id)
                await memory.wait_sent(MAX_CHATS_AT_ONCE)
    finally:
        tracemalloc.stop()
    assert tasks < MAX_CHATS_AT_ONCE + 50
    assert peak < MAX_BYTES
