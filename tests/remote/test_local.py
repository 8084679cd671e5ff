"""The holder's own terminal, as one client among others."""

import anyio
import pytest

from nanobee.errors import ChannelError, NotSentError, RefusedError, UnknownOutcomeError
from nanobee.messages import Address, LivePart, OutboundPart, PartKind
from nanobee.remote.channel import TERMINAL, RemoteChannel
from nanobee.remote.local import LocalClient
from nanobee.testing.recording_inbox import RecordingInbox
from tests.remote.conftest import LIMIT_SECONDS, Terminal

ADDRESS = Address(TERMINAL, "main")


def part(number: int = 1, address: Address = ADDRESS) -> OutboundPart:
    return OutboundPart(number, address, f"text {number}", PartKind.ANSWER)


async def test_it_is_shown_its_own_session_and_what_it_says_comes_in() -> None:
    remote, terminal, inbox = RemoteChannel(), Terminal(), RecordingInbox()
    with anyio.fail_after(LIMIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(LocalClient(terminal).show, remote, ADDRESS, inbox)
            await terminal.said("hi")
            assert remote.is_reachable(ADDRESS)
            assert await remote.send(part()) == ("m2",)
            await remote.stream(LivePart(ADDRESS, "t1"), "so far")
            [frame] = await terminal.wait_frames()
            terminal.leave()
    assert inbox.texts == ["hi"]
    assert terminal.sent == [part()]
    assert frame.text == "so far"


async def test_other_sessions_are_not_shown_in_it() -> None:
    remote, terminal = RemoteChannel(), Terminal()
    other = Address(TERMINAL, "other")
    with anyio.fail_after(LIMIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(LocalClient(terminal).show, remote, ADDRESS, RecordingInbox())
            await anyio.wait_all_tasks_blocked()
            assert not remote.is_reachable(other)
            await remote.stream(LivePart(other, "t1"), "so far")
            with pytest.raises(NotSentError, match="no terminal shows this conversation"):
                await remote.send(part(address=other))
            terminal.leave()
    assert (terminal.sent, terminal.frames) == ([], [])


async def test_what_waits_is_told_of_when_it_opens_and_it_is_gone_when_it_was_left() -> None:
    remote, terminal = RemoteChannel(), Terminal()
    told: list[Address] = []
    remote.on_reachable = told.append
    with anyio.fail_after(LIMIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(LocalClient(terminal).show, remote, ADDRESS, RecordingInbox())
            await anyio.wait_all_tasks_blocked()
            terminal.leave()
    assert told == [ADDRESS]
    assert not remote.is_reachable(ADDRESS)


@pytest.mark.parametrize("error", [NotSentError("closed"), UnknownOutcomeError("cut"), RefusedError("never")])
async def test_its_own_failures_reach_the_delivery(error: NotSentError | UnknownOutcomeError | RefusedError) -> None:
    remote, terminal = RemoteChannel(), Terminal()
    terminal.fail("main", error)
    with anyio.fail_after(LIMIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(LocalClient(terminal).show, remote, ADDRESS, RecordingInbox())
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(type(error), match=str(error)):
                await remote.send(part())
            assert await remote.send(part(2))
            terminal.leave()


async def test_a_part_that_it_was_showing_when_it_was_cancelled_is_unclear() -> None:
    remote, terminal = RemoteChannel(), Terminal()
    terminal.block("main")
    failures: list[Exception] = []

    async def deliver() -> None:
        try:
            await remote.send(part())
        except UnknownOutcomeError as error:
            failures.append(error)

    with anyio.fail_after(LIMIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as inner:
                    inner.start_soon(LocalClient(terminal).show, remote, ADDRESS, RecordingInbox())
                    await anyio.wait_all_tasks_blocked()
                    tasks.start_soon(deliver)
                    await terminal.wait_attempts()
                    scope.cancel()
    assert [str(error) for error in failures] == ["the terminal was left while it showed this"]


async def test_its_failure_is_given_back() -> None:
    class Failing(Terminal):
        async def run(self, inbox: object) -> None:
            raise ChannelError("no answer")

    with anyio.fail_after(LIMIT_SECONDS):
        failure = await LocalClient(Failing()).show(RemoteChannel(), ADDRESS, RecordingInbox())
    assert isinstance(failure, ChannelError)
    assert str(failure) == "no answer"
