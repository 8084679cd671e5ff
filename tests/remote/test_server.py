"""The socket at which clients reach the holder: who is taken, and what a bad one costs."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from nanobee.bus.admin import drop, resume, retry
from nanobee.bus.entries import EntryId
from nanobee.errors import NotSentError, RefusedError, StateError
from nanobee.messages import Address
from nanobee.remote.channel import TERMINAL, RemoteChannel
from nanobee.remote.client import open_link, wake_holder
from nanobee.remote.frames import VERSION, Frame, Hello, Leave, Refusal, Refused, Welcome, encode_frame
from nanobee.remote.parts import Shown
from nanobee.remote.server import MAX_CLIENTS, HolderSide, Server
from nanobee.remote.socket_path import SOCKET_NAME, find_socket
from nanobee.remote.sockets import connect as connect_socket
from nanobee.remote.wire import Wire, WireError
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_server import ModelServer
from nanobee.testing.recording_inbox import RecordingInbox
from tests.remote.conftest import LIMIT_SECONDS, MODEL, Holder, OpenHolder, Terminal

ADDRESS = Address(TERMINAL, "main")
HELLO = Hello(VERSION, ADDRESS.session_key)


@asynccontextmanager
async def connect(state: Path) -> AsyncIterator[Wire]:
    """A client that speaks as it likes."""
    wire = await open_wire(state)
    try:
        yield wire
    finally:
        await wire.aclose()


async def open_wire(state: Path) -> Wire:
    """A connection, as soon as somebody listens."""
    while True:
        path = find_socket(state)
        try:
            if path is not None:
                return Wire(await connect_socket(path))
        except (ConnectionRefusedError, FileNotFoundError):
            pass
        await anyio.lowlevel.checkpoint()


def ignore(session_key: str) -> None:
    """A holder that nobody need wake."""


async def greet(wire: Wire, hello: Frame) -> Frame:
    await wire.send(hello)
    return await wire.receive()


async def test_only_the_owner_can_reach_it(open_holder: OpenHolder) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, connect(holder.state):
            path = find_socket(holder.state)
            assert path is not None
            assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


async def test_a_hello_is_answered_with_who_answers(open_holder: OpenHolder) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, connect(holder.state) as wire:
            answer = await greet(wire, HELLO)
    assert isinstance(answer, Welcome)
    assert answer.model == MODEL


@pytest.mark.parametrize(
    ("hello", "refusal"),
    [
        (Hello(VERSION + 1, ADDRESS.session_key), Refusal.VERSION),
        (Hello(VERSION, "telegram:7"), Refusal.SESSION),
        (Hello(VERSION, "no key"), Refusal.SESSION),
        (Hello(VERSION, "a:b:c:d", wakes=True), Refusal.SESSION),
    ],
)
async def test_a_client_that_cannot_be_served_is_told_why(
    open_holder: OpenHolder, hello: Hello, refusal: Refusal
) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, connect(holder.state) as wire:
            answer = await greet(wire, hello)
            assert isinstance(answer, Refused)
            assert answer.refusal is refusal
            with pytest.raises(WireError, match="closed"):
                await wire.receive()


async def test_the_reason_reaches_people(short_folder: Path) -> None:
    async def no_channel() -> None:
        await Server(short_folder, {}, HolderSide(MODEL, ignore)).run()

    with anyio.fail_after(LIMIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(no_channel)
            with pytest.raises(StateError, match="runs a channel of its own under the name of this terminal"):
                async with open_link(short_folder, ADDRESS, "en", LIMIT_SECONDS):
                    pass
            with pytest.raises(StateError, match="以此终端的名称"):
                async with open_link(short_folder, ADDRESS, "zh", LIMIT_SECONDS):
                    pass
            tasks.cancel_scope.cancel()


async def test_more_clients_than_are_served_are_told_so(open_holder: OpenHolder) -> None:
    wires = []
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder:
            for _ in range(MAX_CLIENTS):
                wires.append(await open_wire(holder.state))
                assert isinstance(await greet(wires[-1], HELLO), Welcome)
            async with connect(holder.state) as wire:
                answer = await greet(wire, HELLO)
                assert isinstance(answer, Refused)
                assert answer.refusal is Refusal.FULL
            await wires.pop().aclose()
            while not isinstance(answer, Welcome):
                async with connect(holder.state) as wire:
                    answer = await greet(wire, HELLO)
            for wire in wires:
                await wire.aclose()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b'{"kind":"hello"}\n',
        b"\x00" * 100 + b"\n",
        encode_frame(Leave()),
        encode_frame(Shown(1, ("1",))),
        encode_frame(HELLO) + b"garbage\n",
        encode_frame(HELLO) + encode_frame(HELLO) + encode_frame(Shown(99, ())) + b"{}\n",
    ],
)
async def test_a_client_that_speaks_nonsense_ends_its_own_connection_only(
    open_holder: OpenHolder, model: ModelServer, garbage: bytes
) -> None:
    terminal = Terminal()
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            tasks.start_soon(terminal.live, holder.state)
            await terminal.said("before")
            async with connect(holder.state) as probe:
                path = find_socket(holder.state)
                assert path is not None
                reader, writer = await asyncio.open_unix_connection(path)
                writer.write(garbage)
                with suppress(ConnectionResetError):
                    await reader.read()
                writer.close()
                assert isinstance(await greet(probe, HELLO), Welcome)
            await terminal.said("after")
            await terminal.wait_sent(2)
            terminal.leave()


async def test_clients_that_say_nothing_do_not_hold_up_others(open_holder: OpenHolder) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, connect(holder.state), connect(holder.state) as wire:
            assert isinstance(await greet(wire, HELLO), Welcome)


async def test_where_no_holder_is_no_link_is_made(short_folder: Path) -> None:
    async with open_link(short_folder, ADDRESS, "en") as link:
        assert link is None
    assert await wake_holder(short_folder, ADDRESS.session_key) is False


async def test_the_socket_of_a_killed_holder_is_no_link_and_is_replaced(
    rig: GatewayRig, open_holder: OpenHolder, model: ModelServer
) -> None:
    state = rig.settings.state
    state.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as stale, suppress(OSError):  # a test run's folder may be too deep
        stale.bind(str(state / SOCKET_NAME))
    async with open_link(state, ADDRESS, "en") as link:
        assert link is None
    terminal = Terminal()
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            tasks.start_soon(terminal.live, holder.state)
            await terminal.said("hi")
            await terminal.wait_sent()
            terminal.leave()


async def test_a_socket_that_cannot_be_opened_ends_nothing_and_is_tried_again(
    short_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = short_folder / SOCKET_NAME
    in_the_way.mkdir()
    with anyio.fail_after(LIMIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Server(short_folder, {}, HolderSide(MODEL, ignore)).run)
            while "no client can reach this process" not in caplog.text:
                await anyio.lowlevel.checkpoint()
            in_the_way.rmdir()
            async with connect(short_folder) as wire:
                assert isinstance(await greet(wire, Hello(VERSION, "a:b", wakes=True)), Welcome)
            tasks.cancel_scope.cancel()


async def test_a_socket_that_answers_nothing_is_no_link(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanobee.remote.client.ANSWER_SECONDS", 0.05)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(short_folder / SOCKET_NAME))
        silent.listen()
        with anyio.fail_after(LIMIT_SECONDS):
            async with open_link(short_folder, ADDRESS, "en") as link:
                assert link is None
            assert await wake_holder(short_folder, ADDRESS.session_key) is False


async def test_below_a_deep_state_folder_terminals_work_too(tmp_path: Path, model: ModelServer) -> None:
    state = tmp_path / ("深" * 30) / "state"
    state.mkdir(parents=True)
    inbox, remote, terminal = RecordingInbox(), RemoteChannel(), Terminal()
    with anyio.fail_after(LIMIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Server(state, {}, HolderSide(MODEL, ignore, remote, inbox)).run)
            tasks.start_soon(terminal.live, state)
            await terminal.said("hi")
            terminal.leave()
            await terminal.ended.wait()
            tasks.cancel_scope.cancel()
    assert inbox.texts == ["hi"]
    assert list(state.iterdir()) == []


async def test_an_inbox_that_cannot_store_is_told_to_the_terminal(short_folder: Path) -> None:
    inbox, remote, terminal = RecordingInbox(), RemoteChannel(), Terminal()
    inbox.break_down()
    with anyio.fail_after(LIMIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Server(short_folder, {}, HolderSide(MODEL, ignore, remote, inbox)).run)
            tasks.start_soon(terminal.live, short_folder)
            terminal.post("hi", chat_id="main")
            await inbox.wait_calls(1)
            assert terminal.receipts == {}
            inbox.heal()
            await terminal.wait_receipts(1)
            terminal.leave()
            await terminal.ended.wait()
            tasks.cancel_scope.cancel()
    assert inbox.texts == ["hi"]


# Rows changed from outside


async def dead_answer(holder: Holder, memory: MemoryChannel) -> EntryId:
    """A part that its platform has refused for good."""
    memory.fail("1", RefusedError("blocked by the user"))
    await memory.say("hi")
    await holder.wait_rows("select state, reason from outbox where kind = 'answer'", ("dead", "blocked by the user"))
    return find_answer(holder)


def find_answer(holder: Holder) -> EntryId:
    """The only answer in the outbox."""
    [(number,)] = holder.rows("select id from outbox where kind = 'answer'")
    return EntryId.parse(f"out-{number}")


async def test_a_dead_part_is_delivered_by_the_running_gateway_once_it_is_woken(
    open_holder: OpenHolder, model: ModelServer
) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder:
            memory = holder.gateway.channels["memory"]
            assert isinstance(memory, MemoryChannel)
            entry_id = await dead_answer(holder, memory)
            session_key = await anyio.to_thread.run_sync(retry, holder.state, entry_id, time.time())
            assert await wake_holder(holder.state, session_key)
            await memory.wait_sent(1)
            await holder.wait_rows(
                "select state, reason, attempts from outbox where kind = 'answer'", ("sent", None, 1)
            )


async def test_a_postponed_part_goes_at_once(open_holder: OpenHolder, model: ModelServer) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder:
            memory = holder.gateway.channels["memory"]
            assert isinstance(memory, MemoryChannel)
            memory.fail("1", NotSentError("slow down", retry_after_seconds=3600))
            await memory.say("hi")
            await holder.wait_rows("select state, reason from outbox where kind = 'answer'", ("ready", "slow down"))
            session_key = await anyio.to_thread.run_sync(retry, holder.state, find_answer(holder), time.time())
            assert await wake_holder(holder.state, session_key)
            await memory.wait_sent(1)


async def test_a_parked_message_is_answered_by_the_running_gateway_once_it_is_woken(
    open_holder: OpenHolder, model: ModelServer
) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder:
            memory = holder.gateway.channels["memory"]
            assert isinstance(memory, MemoryChannel)
            reply = model.reply_text("never", hold=anyio.Event())
            await memory.say("one")
            await reply.asked.wait()
            await memory.say("two")
            await memory.say("three")
            await memory.say("/stop")
            await memory.wait_sent(1)
            await holder.wait_rows("select id from inbox where state = 'parked' order by id", (2,), (3,))
            await anyio.to_thread.run_sync(drop, holder.state, EntryId.parse("in-2"), "en", time.time())
            session_key = await anyio.to_thread.run_sync(resume, holder.state, EntryId.parse("in-3"), time.time())
            assert await wake_holder(holder.state, session_key)
            sent = await memory.wait_sent(2)
    assert sent[-1].text.endswith("three")
    assert len(model.requests) == 2
