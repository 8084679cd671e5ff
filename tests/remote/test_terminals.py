"""Terminals beside a running gateway: what they say and what they are shown."""

from datetime import UTC, datetime

import anyio
import pytest

from nanobee.channel import Arrival, Lane, Receipt
from nanobee.errors import StateError
from nanobee.messages import InboundMessage, PartKind
from nanobee.remote.client import open_link
from nanobee.testing.model_server import ModelServer
from tests.remote.conftest import LIMIT_SECONDS, OpenHolder, Terminal


async def test_what_a_terminal_says_is_answered_in_it(open_holder: OpenHolder, model: ModelServer) -> None:
    model.reply_text("Hello, you.")
    terminal = Terminal()
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            tasks.start_soon(terminal.live, holder.state)
            await terminal.said("hi")
            [part] = await terminal.wait_sent()
            terminal.leave()
            await terminal.ended.wait()
            await holder.wait_rows("select state, attempts from outbox", ("sent", 1))
    assert (part.text, part.kind, part.address) == ("Hello, you.", PartKind.ANSWER, terminal.address)
    assert terminal.failure is None


async def test_an_answer_is_seen_growing(open_holder: OpenHolder, model: ModelServer) -> None:
    hold = anyio.Event()
    words = [f'data: {{"choices":[{{"delta":{{"content":"word{n} "}}}}]}}\n\n'.encode() for n in range(20)]
    end = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    model.reply_bytes([*words, hold, end])
    terminal = Terminal()
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            tasks.start_soon(terminal.live, holder.state)
            await terminal.said("count")
            count = 1
            while not (frames := await terminal.wait_frames(count))[-1].text.endswith("word19 "):
                count = len(frames) + 1
            assert terminal.sent == []
            hold.set()
            [part] = await terminal.wait_sent()
            terminal.leave()
    texts = [frame.text for frame in frames]
    assert texts == sorted(texts, key=len)
    assert part.text == texts[-1].strip()


async def test_terminals_with_their_own_sessions_see_their_own_only(
    open_holder: OpenHolder, model: ModelServer
) -> None:
    terminals = [Terminal(f"chat{number}") for number in range(10)]
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            for terminal in terminals:
                tasks.start_soon(terminal.live, holder.state)
            for round_number in range(3):
                for terminal in terminals:
                    await terminal.said(f"{terminal.address.chat_id} {round_number}")
            for terminal in terminals:
                await terminal.wait_sent(3)
                terminal.leave()
    for terminal in terminals:
        words = [part.text.split()[-2:] for part in terminal.sent]
        assert words == [[terminal.address.chat_id, str(number)] for number in range(3)]


async def test_two_terminals_on_one_session_both_see_it(open_holder: OpenHolder, model: ModelServer) -> None:
    first, second = Terminal(), Terminal()
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            tasks.start_soon(first.live, holder.state)
            tasks.start_soon(second.live, holder.state)
            await first.said("one")
            await first.wait_sent(1)
            await second.said("two")
            for terminal in (first, second):
                await terminal.wait_sent(2)
                terminal.leave()
    assert [part.text for part in first.sent] == [part.text for part in second.sent]


async def test_a_terminal_that_shows_nothing_holds_up_no_other_one(open_holder: OpenHolder, model: ModelServer) -> None:
    suspended, other = Terminal(), Terminal()
    suspended.block("main")
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            tasks.start_soon(suspended.live, holder.state)
            await suspended.said("one")
            await suspended.wait_attempts()
            tasks.start_soon(other.live, holder.state)
            await other.said("two")
            await other.wait_receipts(1)
            suspended.unblock("main")
            await other.wait_sent(1)
            suspended.block("main")
            await other.said("three")
            await other.wait_sent(2)
            suspended.unblock("main")
            await suspended.wait_sent(3)
            for terminal in (suspended, other):
                terminal.leave()
    assert [part.text.split()[-1] for part in suspended.sent] == ["one", "two", "three"]


async def test_stop_reaches_a_turn_over_the_socket(open_holder: OpenHolder, model: ModelServer) -> None:
    reply = model.reply_text("never", hold=anyio.Event())
    terminal = Terminal()
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            tasks.start_soon(terminal.live, holder.state)
            await terminal.said("long work")
            await reply.asked.wait()
            await terminal.said("/stop")
            [notice] = await terminal.wait_sent()
            terminal.leave()
    assert (notice.kind, notice.text) == (PartKind.NOTICE, "Stopped.")


async def test_the_same_event_is_stored_once(open_holder: OpenHolder, model: ModelServer) -> None:
    terminal = Terminal()
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            tasks.start_soon(terminal.live, holder.state)
            assert await terminal.say("hi", chat_id="main", event_key="e1") is Receipt.STORED
            assert await terminal.say("hi", chat_id="main", event_key="e1") is Receipt.DUPLICATE
            await terminal.wait_sent()
            terminal.leave()
    assert len(model.requests) == 1


async def test_a_terminal_speaks_in_its_own_session_only(open_holder: OpenHolder, model: ModelServer) -> None:
    terminal = Terminal("mine")
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            tasks.start_soon(terminal.live, holder.state)
            terminal.post("intruding", chat_id="other")
            terminal.leave()
            await terminal.ended.wait()
            assert holder.rows("select * from inbox") == []
    assert terminal.receipts == {}


async def test_a_gateway_that_is_stopping_says_so_to_who_speaks(open_holder: OpenHolder) -> None:
    terminal = Terminal()
    with anyio.fail_after(LIMIT_SECONDS):
        async with (
            open_holder() as holder,
            open_link(holder.state, terminal.address, "en", LIMIT_SECONDS) as link,
            anyio.create_task_group() as tasks,
        ):
            assert link is not None
            holder.gateway.bus.stop_receiving()
            tasks.start_soon(link.show, terminal)
            with pytest.raises(StateError, match="stopping and accepts nothing more"):
                await link.receive(_arrival(terminal))
            terminal.leave()


async def test_a_text_of_four_megabytes_goes_both_ways(open_holder: OpenHolder, model: ModelServer) -> None:
    text = "ü\u0001" * 1_400_000
    model.reply_text("short")
    terminal = Terminal()
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            tasks.start_soon(terminal.live, holder.state)
            await terminal.said(text)
            await terminal.wait_sent()
            [(message,)] = holder.rows("select message from inbox")
            terminal.leave()
    assert len(str(message)) > len(text)
    assert model.requests[0].messages[-1]["content"].endswith(text)


# Nobody looks


async def test_an_answer_that_nobody_looks_at_waits_without_a_try(open_holder: OpenHolder, model: ModelServer) -> None:
    hold = anyio.Event()
    reply = model.reply_text("late", hold=hold)
    first, second = Terminal(), Terminal()
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            tasks.start_soon(first.live, holder.state)
            await first.said("take your time")
            await reply.asked.wait()
            first.leave()
            await first.ended.wait()
            hold.set()
            elsewhere = Terminal("elsewhere")
            tasks.start_soon(elsewhere.live, holder.state)
            await elsewhere.said("meanwhile")
            await elsewhere.wait_sent()
            await holder.wait_rows("select state, attempts from outbox where address = 'terminal:main'", ("ready", 0))
            tasks.start_soon(second.live, holder.state)
            await second.wait_sent()
            for terminal in (elsewhere, second):
                terminal.leave()
    assert first.sent == []
    assert [part.text for part in second.sent] == ["late"]


async def test_an_answer_waits_over_a_restart_for_its_terminal(open_holder: OpenHolder, model: ModelServer) -> None:
    hold = anyio.Event()
    reply = model.reply_text("late", hold=hold)
    first, second = Terminal(), Terminal()
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            tasks.start_soon(first.live, holder.state)
            await first.said("take your time")
            await reply.asked.wait()
            first.die()
        hold.set()
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            tasks.start_soon(second.live, holder.state)
            await second.wait_sent()
            second.leave()
            await second.ended.wait()
            await holder.wait_rows("select state from outbox", ("sent",))
    assert len(second.sent) == 1


async def test_a_part_whose_terminal_died_showing_it_goes_to_the_next_once(
    open_holder: OpenHolder, model: ModelServer
) -> None:
    first, second = Terminal(), Terminal()
    first.block("main")
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            tasks.start_soon(first.live, holder.state)
            await first.said("hi")
            await first.wait_attempts()
            first.die()
            await first.ended.wait()
            tasks.start_soon(second.live, holder.state)
            await second.wait_sent()
            await second.said("go on")
            await second.wait_sent(2)
            second.leave()
            await second.ended.wait()
            await holder.wait_rows("select state, reason from outbox", ("sent", None), ("sent", None))
    assert [part.text.split()[-1] for part in second.sent] == ["hi", "on"]


async def test_a_terminal_that_leaves_while_it_shows_tells_of_it_first(
    open_holder: OpenHolder, model: ModelServer
) -> None:
    terminal = Terminal()
    terminal.block("main")
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            tasks.start_soon(terminal.live, holder.state)
            await terminal.said("hi")
            await terminal.wait_attempts()
            terminal.leave()
            terminal.unblock("main")
            await terminal.ended.wait()
            await holder.wait_rows("select state from outbox", ("sent",))
    assert len(terminal.sent) == 1


async def test_parts_behind_one_that_hangs_are_not_taken_for_sent_when_their_terminal_dies(
    open_holder: OpenHolder, model: ModelServer
) -> None:
    first, second = Terminal(), Terminal()
    first.block("main")
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder, anyio.create_task_group() as tasks:
            tasks.start_soon(first.live, holder.state)
            for number in range(5):
                await first.said(f"message {number}")
            await first.wait_attempts()
            await model.wait_requests(5)
            first.die()
            await first.ended.wait()
            tasks.start_soon(second.live, holder.state)
            await second.wait_sent(5)
            second.leave()
    assert [part.text.split()[-1] for part in second.sent] == list("01234")


# The holder


async def test_a_terminal_is_told_when_its_gateway_ends(open_holder: OpenHolder, model: ModelServer) -> None:
    terminal = Terminal()
    with anyio.fail_after(LIMIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            async with open_holder() as holder:
                tasks.start_soon(terminal.live, holder.state)
                await terminal.said("hi")
                await terminal.wait_sent()
            await terminal.ended.wait()
    assert isinstance(terminal.failure, StateError)
    assert "has ended. What it accepted is kept" in str(terminal.failure)


async def test_a_message_whose_gateway_ends_before_its_receipt_is_not_said_to_be_stored(
    open_holder: OpenHolder, model: ModelServer
) -> None:
    terminal = Terminal()
    with anyio.fail_after(LIMIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            async with open_holder() as holder:
                tasks.start_soon(terminal.live, holder.state)
                await terminal.said("first")
            terminal.post("second", chat_id="main")
            await terminal.ended.wait()
    assert len(terminal.receipts) == 1


async def test_everything_survives_while_terminals_come_and_go(open_holder: OpenHolder, model: ModelServer) -> None:
    shown: list[str] = []
    with anyio.fail_after(LIMIT_SECONDS):
        async with open_holder() as holder:
            for number in range(12):
                terminal = Terminal()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(terminal.live, holder.state)
                    await terminal.said(f"message {number}")
                    terminal.leave()
                shown += [part.text.split()[-1] for part in terminal.sent]
            last = Terminal()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(last.live, holder.state)
                await last.said("the end")
                while not last.sent or not last.sent[-1].text.endswith("the end"):
                    await last.wait_sent(len(last.sent) + 1)
                last.leave()
            shown += [part.text.split()[-1] for part in last.sent]
    assert shown == [*map(str, range(12)), "end"]


def _arrival(terminal: Terminal) -> Arrival:
    message = InboundMessage(terminal.address, "local", "hi", datetime.now(UTC))
    return Arrival("e1", terminal.address.session_key, "local", Lane.USER, {}, message=message)
