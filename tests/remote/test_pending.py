"""What becomes of a part that several terminals were given."""

import anyio
import pytest

from nanobee.errors import DeliveryError, NotSentError, RefusedError, UnknownOutcomeError
from nanobee.messages import Address, OutboundPart, PartKind
from nanobee.remote.parts import Failed, Outcome, Shown
from nanobee.remote.pending import Pending, Posted

PART = OutboundPart(1, Address("terminal", "main"), "text", PartKind.ANSWER)


async def test_the_first_that_shows_it_is_enough() -> None:
    pending = Pending(3)
    pending.settle(Failed(1, Outcome.NOT_SENT, "closed"))
    pending.settle(Shown(1, ("a",)))
    pending.settle(Shown(1, ("b",)))
    with anyio.fail_after(5):
        assert await pending.wait() == ("a",)


@pytest.mark.parametrize(
    ("outcomes", "kind"),
    [
        ([Outcome.NOT_SENT], NotSentError),
        ([Outcome.NOT_SENT, Outcome.UNKNOWN], UnknownOutcomeError),
        ([Outcome.UNKNOWN, Outcome.REFUSED], UnknownOutcomeError),
        ([Outcome.REFUSED, Outcome.NOT_SENT], NotSentError),
        ([Outcome.REFUSED, Outcome.REFUSED], RefusedError),
    ],
)
async def test_where_none_shows_it_the_most_careful_word_counts(
    outcomes: list[Outcome], kind: type[DeliveryError]
) -> None:
    pending = Pending(len(outcomes))
    for outcome in outcomes:
        pending.settle(Failed(1, outcome, f"it is {outcome}"))
    with anyio.fail_after(5), pytest.raises(kind, match="it is"):
        await pending.wait()


async def test_nothing_is_decided_while_a_terminal_may_still_show_it() -> None:
    pending = Pending(2)
    pending.settle(Failed(1, Outcome.NOT_SENT, "closed"))
    with anyio.move_on_after(0.01) as scope:
        await pending.wait()
    assert scope.cancelled_caught


async def test_a_terminal_that_is_gone_fails_all_that_it_was_given_once() -> None:
    posted, first, second = Posted(), Pending(1), Pending(1)
    posted.add(PART, first)
    posted.settle(Shown(PART.id, ("a",)))
    posted.settle(Failed(PART.id, Outcome.UNKNOWN, "too late"))
    posted.add(PART, second)
    posted.fail(Outcome.UNKNOWN, "gone")
    with anyio.fail_after(5):
        assert await first.wait() == ("a",)
        with pytest.raises(UnknownOutcomeError):
            await second.wait()
        await posted.wait_empty()
    assert len(posted) == 0
