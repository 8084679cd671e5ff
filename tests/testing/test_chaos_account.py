"""The account of chaos notices every broken promise: doctored logs, each with one falsehood in it."""

from dataclasses import replace

import pytest

from nanobee.agent.phrases import BUSY_KEPT
from nanobee.testing.chaos import marks
from nanobee.testing.chaos.account import Account, FaultKind
from nanobee.testing.chaos.audit import build_account
from nanobee.testing.chaos.errors import ChaosError
from nanobee.testing.chaos.falsify import Falsehood, falsify
from nanobee.testing.chaos.log import BusRow, Delivered, Kill, OutRow, RoundLog, Said
from nanobee.testing.chaos.modes import Mode
from nanobee.testing.chaos.plan import KillKind

CHAT = 5000


def said(mark: int, text: str = "", chat: int = CHAT) -> Said:
    return Said(mark, chat, text or marks.said(mark, "plain"), 100 + mark, 700 + mark, is_accepted=True)


def told(message_id: int, text: str, life: int = 1, reply_to: int | None = None, chat: int = CHAT) -> Delivered:
    return Delivered(chat, message_id, text, reply_to, life)


def answered(*numbers: int, mode: Mode = Mode.PLAIN) -> RoundLog:
    """A round in which each message got its own answer, all of them in one chat."""
    return RoundLog(
        1,
        mode,
        said=tuple(said(mark) for mark in numbers),
        delivered=tuple(told(200 + mark, marks.answer(mark, [mark])) for mark in numbers),
        rows={100 + mark: BusRow("done") for mark in numbers},
        sends=tuple(OutRow(CHAT, marks.answer(mark, [mark]), "answer", "sent") for mark in numbers),
    )


def killed(*sending: str, life: int = 1, chat: int = CHAT) -> Kill:
    return Kill(life, KillKind.MOMENT, "call 3", 0.5, frozenset((chat, text) for text in sending))


def delivering(log: RoundLog, *delivered: Delivered) -> RoundLog:
    """The log with these messages of the bot in its chats, and their rows in the outbox."""
    texts = dict.fromkeys((each.chat, each.text) for each in delivered)
    sends = tuple(OutRow(chat, text, "answer", "sent") for chat, text in texts)
    return replace(log, delivered=delivered, sends=sends)


def kinds(account: Account) -> list[FaultKind]:
    return [fault.kind for fault in account.faults]


def test_a_round_in_which_everything_is_answered_is_sound() -> None:
    account = build_account(answered(1, 2, 3))
    assert (account.received, account.answered, account.faults, account.duplicates) == (3, 3, [], [])
    assert account.answered_share == 1.0


@pytest.mark.parametrize(
    ("falsehood", "kind"),
    [
        (Falsehood.LOSS, FaultKind.LOST),
        (Falsehood.DISORDER, FaultKind.DISORDER),
        (Falsehood.DOUBLE, FaultKind.DOUBLE),
        (Falsehood.EFFECT, FaultKind.EFFECT_TWICE),
        (Falsehood.TOOL, FaultKind.TOOL_TWICE),
    ],
)
def test_each_falsehood_is_noticed_and_named(falsehood: Falsehood, kind: FaultKind) -> None:
    account = build_account(falsify(answered(1, 2, 3), falsehood))
    assert kinds(account) == [kind]


def test_a_log_in_which_there_is_nothing_to_falsify_is_refused() -> None:
    with pytest.raises(ChaosError, match="no two answers"):
        falsify(answered(1), Falsehood.DISORDER)
    with pytest.raises(ChaosError, match="no answer"):
        falsify(RoundLog(1, Mode.PLAIN, said=(said(1),)), Falsehood.LOSS)


# Lost


def test_an_accepted_message_without_an_answer_is_lost_whatever_the_bus_says() -> None:
    log = answered(1, 2)
    account = build_account(delivering(log, *log.delivered[:1]))
    assert kinds(account) == [FaultKind.LOST]
    assert "is done" in account.faults[0].what
    assert (account.received, account.answered) == (2, 1)


def test_a_message_of_which_the_bus_has_no_row_is_lost_if_it_was_acknowledged() -> None:
    log = answered(1)
    account = build_account(replace(log, delivered=(), rows={}))
    assert kinds(account) == [FaultKind.LOST]
    assert "not in the bus" in account.faults[0].what


def test_a_message_that_was_never_taken_from_the_platform_is_a_fault_of_its_own() -> None:
    log = answered(1)
    account = build_account(replace(log, said=(*log.said, replace(said(2), is_accepted=False)), unsaid=(3,)))
    assert kinds(account) == [FaultKind.NOT_ACCEPTED, FaultKind.NOT_ACCEPTED]
    assert account.received == 1


def test_a_missing_part_makes_an_answer_no_answer() -> None:
    log = answered(1)
    parts = marks.answer(1, [1], ["x", "y", "z"]).split("\n\n")
    whole = tuple(told(200 + at, part) for at, part in enumerate(parts))
    assert build_account(delivering(log, *whole)).faults == []
    assert kinds(build_account(delivering(log, *whole[:2]))) == [FaultKind.LOST]
    assert kinds(build_account(delivering(log, whole[0], whole[2]))) == [FaultKind.LOST, FaultKind.DISORDER]


def test_a_parked_message_counts_only_with_a_reason() -> None:
    log = replace(answered(1), delivered=())
    account = build_account(replace(log, rows={101: BusRow("parked", "stopped")}))
    assert ([parked.reason for parked in account.parked], account.faults) == (["stopped"], [])
    assert account.answered_share == 0.0
    assert kinds(build_account(replace(log, rows={101: BusRow("parked")}))) == [FaultKind.LOST]


def test_a_notice_of_failure_is_no_answer_and_a_notice_that_others_wait_is_no_end() -> None:
    log = answered(1)
    failure = told(300, "The model gave no answer: it is down.", reply_to=101)
    account = build_account(replace(log, delivered=(failure,)))
    assert (account.answered, len(account.told), account.faults) == (0, 1, [])
    busy = told(300, BUSY_KEPT.say("en", count=3), reply_to=101)
    assert kinds(build_account(replace(log, delivered=(busy,)))) == [FaultKind.LOST]


def test_a_command_needs_a_reply_and_a_stopped_message_the_reply_to_its_stop() -> None:
    stop = Said(2, CHAT, "/stop", 102, 702, is_accepted=True)
    log = RoundLog(
        1,
        Mode.STOPPED,
        said=(said(1), stop),
        delivered=(told(300, "Stopped.", reply_to=102),),
        rows={101: BusRow("stopped"), 102: BusRow("done")},
    )
    account = build_account(log)
    assert (account.received, account.answered, account.stopped, account.faults) == (2, 2, 1, [])
    assert kinds(build_account(replace(log, delivered=()))) == [FaultKind.LOST, FaultKind.LOST]


def test_a_row_that_never_ended_and_a_send_that_was_given_up_are_faults() -> None:
    log = answered(1)
    assert kinds(build_account(replace(log, rows={101: BusRow("running")}))) == [FaultKind.STUCK]
    dead = OutRow(CHAT, "text", "notice", "dead", "blocked")
    account = build_account(replace(log, sends=(*log.sends, dead)))
    assert kinds(account) == [FaultKind.STUCK]
    assert "dead (blocked)" in account.faults[0].what


# Order


def test_answers_in_the_wrong_order_are_noticed_in_their_own_chat_only() -> None:
    log = answered(1, 2)
    swapped = (told(200, marks.answer(2, [2])), told(201, marks.answer(1, [1])))
    assert kinds(build_account(delivering(log, *swapped))) == [FaultKind.DISORDER]
    other = (told(200, marks.answer(2, [2]), chat=CHAT + 1), told(201, marks.answer(1, [1])))
    assert build_account(delivering(log, *other)).faults == []


def test_a_copy_that_comes_after_a_later_answer_is_out_of_order() -> None:
    log = answered(1, 2)
    first = log.delivered[0]
    late = replace(first, message_id=300, life=2)
    account = build_account(replace(log, delivered=(*log.delivered, late), kills=(killed(first.text),)))
    assert kinds(account) == [FaultKind.DISORDER]
    assert len(account.duplicates) == 1


def test_one_answer_may_cover_several_messages_and_a_question_holds_the_place_of_its_message() -> None:
    log = answered(1, 2, 3, 4)
    [asking] = marks.questions(9, 1, ["free"])
    delivered = (
        told(201, f"{asking}\n(#ab3d: your next message is the answer)"),
        told(202, marks.answer(10, [2, 3])),
        told(203, marks.answer(11, [1, 4])),
    )
    assert build_account(delivering(log, *delivered)).faults == []
    early = (delivered[1], delivered[0], delivered[2])
    assert kinds(build_account(delivering(log, *early))) == [FaultKind.DISORDER]


# Twice


def test_a_copy_is_explained_by_the_kill_that_its_send_was_under_way_at() -> None:
    log = answered(1)
    first = log.delivered[0]
    copy = replace(first, message_id=300, life=2)
    account = build_account(replace(log, delivered=(first, copy), kills=(killed(first.text),)))
    assert (account.faults, account.under_way) == ([], 1)
    assert [duplicate.kill for duplicate in account.duplicates] == ["life 1, call 3"]


@pytest.mark.parametrize(
    "kill",
    [killed("another text"), killed(chat=CHAT + 1), killed(marks.answer(1, [1]), life=2)],
    ids=["another send", "another chat", "a later life"],
)
def test_a_kill_explains_no_copy_of_another_send(kill: Kill) -> None:
    log = answered(1)
    first = log.delivered[0]
    copy = replace(first, message_id=300, life=2)
    assert kinds(build_account(replace(log, delivered=(first, copy), kills=(kill,)))) == [FaultKind.DOUBLE]


def test_a_kill_explains_one_copy_and_no_second_one() -> None:
    log = answered(1)
    first = log.delivered[0]
    copies = tuple(replace(first, message_id=300 + life, life=life) for life in (2, 3))
    account = build_account(replace(log, delivered=(first, *copies), kills=(killed(first.text),)))
    assert kinds(account) == [FaultKind.DOUBLE]
    assert len(account.duplicates) == 1


def test_two_completions_for_one_message_are_noticed_though_their_texts_differ() -> None:
    log = answered(1)
    second = told(300, marks.answer(8, [1]))
    account = build_account(delivering(log, *log.delivered, second))
    assert FaultKind.ANSWERED_TWICE in kinds(account)


def test_an_answer_to_nothing_new_is_a_turn_that_ran_twice() -> None:
    log = answered(1)
    account = build_account(delivering(log, *log.delivered, told(300, marks.answer(8, []))))
    assert kinds(account) == [FaultKind.ANSWERED_TWICE]


def test_a_note_of_each_completion_is_an_effect_twice_and_none_is_an_effect_lost() -> None:
    log = replace(answered(1, mode=Mode.TOOLS), edits={1: 1})
    noted = told(150, marks.note(7, 1))
    assert build_account(replace(log, delivered=(noted, *log.delivered))).faults == []
    again = told(151, marks.note(8, 1))
    assert kinds(build_account(replace(log, delivered=(noted, again, *log.delivered)))) == [FaultKind.EFFECT_TWICE]
    assert kinds(build_account(log)) == [FaultKind.EFFECT_LOST]


def test_an_edit_that_is_missing_or_made_twice_is_noticed() -> None:
    log = answered(1, 2, mode=Mode.STEERED)
    assert build_account(replace(log, edits={1: 1, 2: 1})).faults == []
    assert kinds(build_account(replace(log, edits={1: 2}))) == [FaultKind.TOOL_TWICE, FaultKind.TOOL_LOST]


def test_half_an_answer_is_explained_by_a_kill_before_the_bus_knew_of_it() -> None:
    log = answered(1)
    half = told(150, "#6 covers m1z, part 1 of 1. word wo")
    delivered = (half, replace(log.delivered[0], life=2))
    unknown = killed()
    account = build_account(replace(log, delivered=delivered, kills=(unknown,)))
    assert (account.faults, [duplicate.is_fragment for duplicate in account.duplicates]) == ([], [True])
    known = replace(unknown, streams=frozenset({(CHAT, 150)}))
    assert kinds(build_account(replace(log, delivered=delivered, kills=(known,)))) == [FaultKind.FRAGMENT]
    assert kinds(build_account(replace(log, delivered=delivered))) == [FaultKind.FRAGMENT]


def test_a_frame_that_showed_the_whole_text_is_no_second_answer() -> None:
    log = answered(1)
    frame = told(150, marks.answer(6, [1]))
    delivered = (frame, replace(log.delivered[0], life=2))
    account = build_account(replace(log, delivered=delivered, kills=(killed(),)))
    assert (account.faults, [duplicate.is_fragment for duplicate in account.duplicates]) == ([], [True])
    assert kinds(build_account(replace(log, delivered=delivered))) == [FaultKind.FRAGMENT]


def test_a_command_that_had_its_effect_must_not_be_told_that_it_had_none() -> None:
    texts = {1: "/stop", 2: "/resume", 3: "/answer 4472 a3"}
    said = tuple(Said(mark, CHAT, text, 100 + mark, 700 + mark, is_accepted=True) for mark, text in texts.items())
    log = RoundLog(1, Mode.STOPPED, said=said)
    good = ("Stopped. 2 waiting message(s) are kept aside; /resume runs them.", "2 message(s) go on.", "Noted.")
    bad = (good[0], "Nothing is kept aside here.", "#4472 is no longer valid.")
    for texts_of, faults in ((good, []), (bad, [FaultKind.WRONG_REPLY] * 2)):
        replies = [told(200 + at, text, reply_to=100 + at) for at, text in enumerate(texts_of, 1)]
        assert kinds(build_account(delivering(log, *replies))) == faults


def test_the_same_words_in_reply_to_two_commands_are_no_copy() -> None:
    stops = [Said(mark, CHAT, "/stop", 100 + mark, 700 + mark, is_accepted=True) for mark in (1, 2)]
    replies = (told(200, "Nothing was running.", reply_to=101), told(201, "Nothing was running.", reply_to=102))
    log = RoundLog(1, Mode.STOPPED, said=tuple(stops), delivered=replies)
    assert build_account(log).faults == []
    again = replace(replies[0], message_id=300)
    assert kinds(build_account(replace(log, delivered=(*replies, again)))) == [FaultKind.DOUBLE]


def test_a_request_with_an_illegal_history_is_a_fault() -> None:
    account = build_account(replace(answered(1), illegal=("R2: message 4 answers no open call",)))
    assert kinds(account) == [FaultKind.ILLEGAL]
