"""Frames that wait: everything in order, and of a growing text the latest state only."""

import anyio

from nanobee.messages import Address, LivePart, OutboundPart, PartKind
from nanobee.remote.backlog import Backlog
from nanobee.remote.frames import Frame, NotReceived
from nanobee.remote.parts import Live, Send

ADDRESS = Address("terminal", "main")


def live(text: str) -> Live:
    return Live(LivePart(ADDRESS, "t1"), text)


def send(number: int) -> Send:
    return Send(OutboundPart(number, ADDRESS, "text", PartKind.ANSWER))


async def take(backlog: Backlog, count: int) -> list[Frame]:
    with anyio.fail_after(5):
        return [await backlog.get() for _ in range(count)]


async def test_frames_come_in_their_order() -> None:
    backlog = Backlog()
    frames: list[Frame] = [send(1), NotReceived(1, "x"), send(2)]
    for frame in frames:
        backlog.put(frame)
    assert await take(backlog, 3) == frames


async def test_only_the_latest_state_of_a_growing_text_is_given_out() -> None:
    backlog = Backlog()
    for number in range(1_000):
        backlog.put(live(str(number)))
    assert await take(backlog, 1) == [live("999")]


async def test_a_part_ends_the_text_that_grew_before_it() -> None:
    backlog = Backlog()
    backlog.put(live("so far"))
    backlog.put(send(1))
    backlog.put(live("the next"))
    assert await take(backlog, 2) == [send(1), live("the next")]


async def test_an_answer_to_the_client_does_not_end_it() -> None:
    backlog = Backlog()
    backlog.put(live("so far"))
    backlog.put(NotReceived(1, "x"))
    assert await take(backlog, 2) == [NotReceived(1, "x"), live("so far")]


async def test_who_waits_is_woken_and_a_part_does_not_wait_for_the_pace_of_a_text() -> None:
    backlog = Backlog()
    taken: list[Frame] = []
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:

            async def take_three() -> None:
                taken.extend([await backlog.get() for _ in range(3)])

            tasks.start_soon(take_three)
            await anyio.wait_all_tasks_blocked()
            backlog.put(live("one"))
            await anyio.wait_all_tasks_blocked()
            backlog.put(live("two"))
            backlog.put(send(1))
            backlog.put(live("three"))
    assert taken == [live("one"), send(1), live("three")]


async def test_what_waits_can_be_taken_back() -> None:
    backlog = Backlog()
    backlog.put(send(1))
    backlog.put(live("so far"))
    assert backlog.withdraw() == [send(1)]
    backlog.put(send(2))
    assert await take(backlog, 1) == [send(2)]
