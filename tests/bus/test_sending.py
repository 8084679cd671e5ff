"""What was sent is not sent again, also where its row could not be written."""

from pathlib import Path

import pytest

from nanobee.bus.bus import Outgoing
from nanobee.messages import Address
from tests.bus.conftest import new_row, new_send
from tests.bus.mortal_bus import MortalBus

CHAT = Address("test", "1")


@pytest.fixture
def mortal(tmp_path: Path) -> MortalBus:
    """A bus with an answer of two parts, the first of which is being sent."""
    made = MortalBus(tmp_path)
    made.run(made.bus.receive, [new_row("hi")])
    claim = made.run(made.bus.claim, "test:1")
    assert claim is not None
    made.run(made.bus.finish, claim.ref, [], [new_send("ab", texts=("a", "b"))])
    return made


def outgoing(mortal: MortalBus) -> tuple[str | None, bool]:
    found: Outgoing = mortal.run(mortal.bus.outgoing, CHAT)
    return None if found.part is None else found.part.text, found.may_have_arrived


@pytest.mark.parametrize("holds_back", [False, True])
def test_a_sent_part_whose_commit_failed_is_followed_by_the_next_one(mortal: MortalBus, holds_back: bool) -> None:
    try:
        part = mortal.run(mortal.bus.outgoing, CHAT).part
        assert part is not None
        mortal.fail_commit(lambda: mortal.bus.sent(part, ["m1"]))
        if holds_back:
            mortal.run(mortal.bus.hold_back, CHAT)
        assert outgoing(mortal) == ("b", False)
        mortal.settle()
        assert mortal.reader.execute("select state from outbox order by id").fetchall() == [("sent",), ("sending",)]
    finally:
        mortal.close()
