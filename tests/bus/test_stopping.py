"""Stopping: everything of a session that is under way ends, whatever else of it waits."""

import pytest

from nanobee.bus.bus import Claim
from nanobee.bus.lines import LineKind, NewLine
from nanobee.bus.suspension import NewSuspension
from nanobee.chat import ToolCall
from nanobee.errors import StaleTurnError
from nanobee.sessions.session import message_line
from tests.bus.conftest import OpenBus, Opened, new_row, new_send


async def claim_of(opened: Opened) -> Claim:
    claim = await opened.bus.claim("test:1")
    assert claim is not None
    return claim


async def asked(opened: Opened) -> Claim:
    """A turn that sleeps until question `q1` is answered."""
    await opened.bus.receive([new_row("one")])
    claim = await claim_of(opened)
    question = NewSuspension("q1", ToolCall("c1", "ask_user", "{}"), "Well?", ("yes", "no"))
    await opened.bus.suspend(claim.ref, [message_line("tool", "pending", tool_call_id="c1")], [], [question])
    return claim


async def test_stop_ends_the_running_turn_and_the_one_that_was_answered_meanwhile(open_state: OpenBus) -> None:
    async with open_state() as opened:
        asking = await asked(opened)
        await opened.bus.receive([new_row("two")])
        running = await claim_of(opened)
        await opened.bus.answer("q1", "test:1", "yes")
        await opened.bus.receive([new_row("/stop")])
        row = await opened.bus.claim_control()
        assert row is not None
        stopped = await opened.bus.stop(row, "test:1", lambda stopped: new_send("stopped", "reply"))
        assert stopped.turn == running.ref.turn
        for ref in (asking.ref, running.ref):
            with pytest.raises(StaleTurnError):
                await opened.bus.finish(ref, [])
        await opened.bus.receive([new_row("three")])
        after = await claim_of(opened)
        assert [row.message.text for row in after.rows if row.message] == ["three"]


async def test_a_new_conversation_ends_the_turn_that_was_answered_while_it_began(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await asked(opened)
        await opened.bus.receive([new_row("/new"), new_row("two")])
        new = await claim_of(opened)
        await opened.bus.answer("q1", "test:1", "yes")
        await opened.bus.finish(new.ref, [NewLine(LineKind.RESET)])
        after = await claim_of(opened)
        assert [row.message.text for row in after.rows if row.message] == ["two"]


async def test_a_turn_that_has_not_seen_its_answer_yet_is_not_interrupted(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await asked(opened)
        await opened.bus.receive([new_row("yes"), new_row("and more")])
        resumed = await claim_of(opened)
        assert await opened.bus.interrupt("test:1") is None
        [answer] = await opened.bus.answers(resumed.ref)
        await opened.bus.record(resumed.ref, [message_line("tool", "yes", tool_call_id="c2")], consumed=[answer.id])
        assert await opened.bus.interrupt("test:1") == resumed.ref.turn
