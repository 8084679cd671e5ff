"""What of a reply is still to be printed, after what was seen growing."""

from nanobee.messages import Address, LivePart, OutboundPart, PartKind
from nanobee_terminal.teller import Teller

ADDRESS = Address("terminal", "main")


def frame(turn: str = "t1", part: int = 0) -> LivePart:
    return LivePart(ADDRESS, turn, part)


def reply(text: str, kind: PartKind = PartKind.ANSWER, turn: str | None = "t1") -> OutboundPart:
    return OutboundPart(1, ADDRESS, text, kind, turn=turn)


def test_a_reply_that_was_not_seen_growing_is_told_whole() -> None:
    assert Teller().tell(reply("one\n\ntwo\x1b")) == ["one\n\ntwo␛"]


def test_a_reply_that_was_seen_growing_is_told_once() -> None:
    teller = Teller()
    assert teller.grow(frame(), "one\n\nt") == []
    assert teller.take_finished() == ["one"]
    assert teller.tell(reply("one\n\ntwo")) == ["two"]
    assert not teller.follows("t1")


def test_a_reply_of_another_turn_leaves_the_growing_one_alone() -> None:
    teller = Teller()
    teller.grow(frame(), "half")
    assert teller.tell(reply("aside", turn=None)) == ["aside"]
    assert teller.open_text == "half"


def test_a_message_of_the_tool_comes_after_the_words_before_it() -> None:
    teller = Teller()
    teller.grow(frame(), "I tell them.")
    assert teller.tell(reply("told", PartKind.MESSAGE)) == ["I tell them.", "told"]
    assert teller.follows("t1")
    assert teller.tell(reply("done")) == ["done"]


def test_a_notice_ends_the_turn_and_keeps_what_was_written() -> None:
    teller = Teller()
    teller.grow(frame(), "half an ans")
    assert teller.tell(reply("the model failed", PartKind.NOTICE)) == ["half an ans", "the model failed"]
    assert not teller.follows("t1")


def test_a_turn_that_asked_goes_on_after_its_answer() -> None:
    teller = Teller()
    teller.grow(frame(), "I must ask.")
    assert teller.tell(reply("May I?", PartKind.QUESTION)) == ["I must ask.", "May I?"]
    assert teller.growth is None
    teller.grow(frame(part=1), "So I")
    assert teller.tell(reply("So I may.")) == ["So I may."]


def test_frames_that_come_after_the_end_are_not_shown() -> None:
    teller = Teller()
    teller.grow(frame(), "half")
    assert teller.end() == ["half"]
    teller.grow(frame(), "half an answer")
    assert teller.growth is None
    assert teller.end() == []


def test_a_turn_that_follows_another_without_an_end_keeps_both() -> None:
    teller = Teller()
    teller.grow(frame("t1"), "half")
    assert teller.grow(frame("t2"), "new") == ["half"]
    assert teller.open_text == "new"
