"""Suspensions on a real bus: a question outlives restarts and is answered once."""

from datetime import UTC, datetime

from nanobee.bus.bus import Claim, InboxRow, NewRow, NewSend
from nanobee.bus.lines import LineKind, NewLine
from nanobee.bus.suspension import NewSuspension
from nanobee.bus.suspension_table import match_choice
from nanobee.channel import Arrival, lane_of
from nanobee.chat import ToolCall
from nanobee.messages import Address, InboundMessage, OutboundMessage, PartKind
from tests.bus.conftest import OpenBus, Opened, new_row, new_send

CHAT = Address("test", "1")


async def ask(opened: Opened, *questions: NewSuspension) -> Claim:
    await opened.bus.receive([new_row("do it")])
    claim = await opened.bus.claim("test:1")
    assert claim is not None
    sends = [
        NewSend(OutboundMessage(CHAT, each.question), PartKind.QUESTION, f"ask-{each.id}", (each.question,))
        for each in questions
    ]
    await opened.bus.suspend(claim.ref, [], sends, questions)
    for _ in questions:
        part = (await opened.bus.outgoing(CHAT)).part
        assert part is not None
        await opened.bus.sent(part, [f"platform-{part.text}"])
    return claim


def question(suspension_id: str, *choices: str) -> NewSuspension:
    return NewSuspension(
        suspension_id, ToolCall(f"call-{suspension_id}", "ask_user", "{}"), f"Q{suspension_id}", choices
    )


def quoting(text: str, reply_to: str, quoted_text: str | None = None) -> NewRow:
    message = InboundMessage(CHAT, "7", text, datetime.now(UTC), reply_to=reply_to, quoted_text=quoted_text)
    return NewRow(Arrival(text, "test:1", "7", lane_of(text), {}, message=message), f"test::{text}")


def texts(rows: tuple[InboxRow, ...]) -> list[str]:
    return [row.message.text for row in rows if row.message]


async def test_the_next_message_answers_a_free_question_and_resumes_its_turn_after_a_restart(
    open_state: OpenBus,
) -> None:
    async with open_state() as opened:
        asked = await ask(opened, question("a1"))
        assert await opened.bus.claim("test:1") is None
    async with open_state() as opened:
        await opened.bus.receive([new_row("blue")])
        claim = await opened.bus.claim("test:1")
        assert claim is not None
        assert claim.is_resumed
        assert claim.ref.turn == asked.ref.turn
        assert texts(claim.rows) == ["do it", "blue"]
        [answer] = await opened.bus.answers(claim.ref)
        assert (answer.id, answer.answer, answer.call_id) == ("a1", "blue", "call-a1")
        await opened.bus.record(claim.ref, [], consumed=["a1"])
        assert await opened.bus.answers(claim.ref) == ()
        await opened.bus.finish(claim.ref, [])
        assert await opened.bus.claim("test:1") is None


async def test_the_session_can_go_on_talking_while_a_choice_waits(open_state: OpenBus) -> None:
    async with open_state() as opened:
        asked = await ask(opened, question("a1", "yes", "no"))
        await opened.bus.receive([new_row("what is the weather?")])
        other = await opened.bus.claim("test:1")
        assert other is not None
        assert other.ref.turn != asked.ref.turn
        await opened.bus.finish(other.ref, [])
        await opened.bus.receive([new_row("YES ")])
        claim = await opened.bus.claim("test:1")
        assert claim is not None
        assert claim.ref.turn == asked.ref.turn
        assert [each.answer for each in await opened.bus.answers(claim.ref)] == ["yes"]


async def test_several_questions_of_a_step_must_all_be_answered_and_a_quote_tells_which(open_state: OpenBus) -> None:
    async with open_state() as opened:
        asked = await ask(opened, question("a1"), question("b2"))
        await opened.bus.receive([new_row("a plain message")])
        other = await opened.bus.claim("test:1")
        assert other is not None
        assert not other.is_resumed
        await opened.bus.finish(other.ref, [])
        await opened.bus.receive([quoting("second", "platform-Qb2")])
        assert await opened.bus.claim("test:1") is None
        await opened.bus.receive([quoting("first", "platform-Qa1")])
        claim = await opened.bus.claim("test:1")
        assert claim is not None
        assert claim.ref.turn == asked.ref.turn
        assert [(each.id, each.answer) for each in await opened.bus.answers(claim.ref)] == [
            ("a1", "first"),
            ("b2", "second"),
        ]
        assert texts(claim.rows) == ["do it", "second", "first"]


async def test_an_answer_counts_once_and_in_its_own_session_only(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await ask(opened, question("a1", "yes", "no"))
        assert (await opened.bus.answer("a1", "test:2", "yes")).suspension is None
        assert not (await opened.bus.answer("a1", "test:1", "perhaps")).is_valid
        done = await opened.bus.answer("a1", "test:1", "2")
        assert done.suspension is not None
        assert done.open_questions == 0
        assert (await opened.bus.answer("a1", "test:1", "yes")).suspension is None
        claim = await opened.bus.claim("test:1")
        assert claim is not None
        assert [each.answer for each in await opened.bus.answers(claim.ref)] == ["no"]


async def test_new_and_stop_void_open_questions(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await ask(opened, question("a1"))
        await opened.bus.receive([new_row("/new")])
        command = await opened.bus.claim("test:1")
        assert command is not None
        await opened.bus.finish(command.ref, [NewLine(LineKind.RESET)])
        assert (await opened.bus.answer("a1", "test:1", "late")).suspension is None
        await opened.bus.receive([new_row("again"), new_row("/stop")])
        claim = await opened.bus.claim("test:1")
        assert claim is not None
        await opened.bus.suspend(claim.ref, [], [], [question("b2")])
        row = await opened.bus.claim_control()
        assert row is not None
        stopped = await opened.bus.stop(row, "test:1", lambda stopped: new_send("stopped", "reply"))
        assert (stopped.turn, stopped.cancelled_questions) == (None, 1)
        assert (await opened.bus.answer("b2", "test:1", "late")).suspension is None
        assert (await opened.bus.waiting("test:1")).questions == ()


def test_a_choice_is_named_by_its_word_or_number_and_nothing_else() -> None:
    choices = ("Blue", "Red 2")
    assert [match_choice(choices, text) for text in ("blue", " 2 ", "red 2", "3", "", "blu")] == [
        "Blue",
        "Red 2",
        "Red 2",
        None,
        None,
        None,
    ]
    assert match_choice((), " any text ") == "any text"
    assert match_choice((), "  ") is None


async def test_quoting_a_copy_whose_platform_id_is_unknown_answers_the_question_that_it_names(
    open_state: OpenBus,
) -> None:
    async with open_state() as opened:
        asked = await ask(opened, question("a1", "yes", "no"), question("b2", "yes", "no"))
        await opened.bus.receive([quoting("no", "copy-of-Qb2", "Qb2\n(#b2: reply with a choice)")])
        assert await opened.bus.claim("test:1") is None
        await opened.bus.receive([quoting("yes", "copy-of-Qa1", "Qa1\n(#a1: reply with a choice)")])
        claim = await opened.bus.claim("test:1")
        assert claim is not None
        assert claim.ref.turn == asked.ref.turn
        assert [(each.id, each.answer) for each in await opened.bus.answers(claim.ref)] == [("a1", "yes"), ("b2", "no")]


async def test_the_same_answer_again_is_noted_again_and_does_nothing_and_another_one_is_too_late(
    open_state: OpenBus,
) -> None:
    async with open_state() as opened:
        await ask(opened, question("a1", "yes", "no"))
        first = await opened.bus.answer("a1", "test:1", "yes")
    async with open_state() as opened:
        again = await opened.bus.answer("a1", "test:1", " YES")
        assert (again.suspension is not None, again.is_valid, again.open_questions) == (True, True, 0)
        assert first.open_questions == 0
        assert (await opened.bus.answer("a1", "test:1", "no")).suspension is None
        claim = await opened.bus.claim("test:1")
        assert claim is not None
        assert [each.answer for each in await opened.bus.answers(claim.ref)] == ["yes"]


async def test_what_was_said_before_the_question_is_no_answer_to_it(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row("do it"), new_row("what is the weather?")])
        asked = await opened.bus.claim("test:1")
        assert asked is not None
        await opened.bus.suspend(asked.ref, [], [], [question("a1")])
        other = await opened.bus.claim("test:1")
        assert other is not None
        assert texts(other.rows) == ["what is the weather?"]
        await opened.bus.finish(other.ref, [])
        await opened.bus.receive([new_row("blue")])
        answered = await opened.bus.claim("test:1")
        assert answered is not None
        assert answered.ref.turn == asked.ref.turn


async def test_a_quoting_answer_that_comes_while_another_turn_runs_is_not_steered_into_it(open_state: OpenBus) -> None:
    async with open_state() as opened:
        asked = await ask(opened, question("a1", "red", "blue"))
        await opened.bus.receive([new_row("unrelated")])
        running = await opened.bus.claim("test:1")
        assert running is not None
        await opened.bus.receive([quoting("blue", "platform-Qa1"), new_row("more")])
        rows, _ = await opened.bus.steer(running.ref)
        assert texts(rows) == ["more"]
        await opened.bus.finish(running.ref, [])
        resumed = await opened.bus.claim("test:1")
        assert resumed is not None
        assert resumed.ref.turn == asked.ref.turn


async def test_undo_voids_open_questions(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await ask(opened, question("a1", "yes", "no"))
        await opened.bus.receive([new_row("/undo")])
        command = await opened.bus.claim("test:1")
        assert command is not None
        await opened.bus.finish(command.ref, [NewLine(LineKind.UNDONE, {"from": 1, "through": 9})])
        assert (await opened.bus.answer("a1", "test:1", "yes")).suspension is None
