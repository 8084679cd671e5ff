"""Back-pressure: nothing is dropped silently, and what is not accepted is said."""

from pathlib import Path

from nanobee.bus.capacity import Limits
from nanobee.bus.sqlite import open_bus
from nanobee.channel import Receipt
from nanobee.messages import Address
from nanobee.sessions.files import SessionFiles
from tests.bus.conftest import OpenBus, PlainNotices, new_row

CHAT = Address("test", "1")


async def test_a_crowded_session_tells_that_a_message_is_kept_and_later_that_one_is_not_accepted(
    open_state: OpenBus,
) -> None:
    async with open_state() as opened:
        receipts = [(await opened.bus.receive([new_row(str(number))]))[0] for number in range(7)]
        assert receipts == [Receipt.STORED] * 5 + [Receipt.FULL] * 2
        part = (await opened.bus.outgoing(CHAT)).part
        assert part is not None
        assert part.text == "kept behind 3"
        await opened.bus.sent(part, [])
        full = (await opened.bus.outgoing(CHAT)).part
        assert full is not None
        assert full.text == "not accepted"
        await opened.bus.sent(full, [])
        # The chat was told a moment ago: one notice for all that is not accepted now.
        assert (await opened.bus.outgoing(CHAT)).part is None
        assert await opened.bus.receive([new_row("hello", "2"), new_row("/status")]) == [Receipt.STORED, Receipt.STORED]


async def test_a_message_that_was_not_accepted_is_not_stored_and_may_come_again(open_state: OpenBus) -> None:
    async with open_state() as opened:
        await opened.bus.receive([new_row(str(number)) for number in range(5)])
        assert await opened.bus.receive([new_row("late")]) == [Receipt.FULL]
        claim = await opened.bus.claim("test:1")
        assert claim is not None
        await opened.bus.finish(claim.ref, [])
        assert await opened.bus.receive([new_row("late")]) == [Receipt.STORED]


async def test_the_total_is_bounded_over_all_sessions_and_frees_itself(tmp_path: Path) -> None:
    limits = Limits(busy_at=3, per_session=100, total=10)
    async with open_bus(tmp_path, SessionFiles(tmp_path), PlainNotices(), limits) as bus:
        rows = [new_row("x", str(chat)) for chat in range(13)]
        assert await bus.receive(rows) == [Receipt.STORED] * 10 + [Receipt.FULL] * 3
        claim = await bus.claim("test:0")
        assert claim is not None
        await bus.finish(claim.ref, [])
        assert await bus.receive([new_row("y", "0")]) == [Receipt.STORED]
        part = (await bus.outgoing(Address("test", "12"))).part
        assert part is not None
        assert part.text == "not accepted"
