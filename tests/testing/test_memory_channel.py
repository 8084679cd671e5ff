"""The memory channel holds to the contract, and its test side does what it says."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest

from nanobee.channel import Receipt
from nanobee.errors import DeliveryError, NotSentError, RefusedError, UnknownOutcomeError
from nanobee.messages import Address, LivePart
from nanobee.testing.channel_contract import ChannelContract, ChannelHarness, SendFault, part_of, running
from nanobee.testing.memory_channel import MemoryChannel, MemorySettings
from nanobee.testing.recording_inbox import RecordingInbox

ERRORS: dict[SendFault, DeliveryError] = {
    SendFault.UNREACHABLE: NotSentError("no network"),
    SendFault.LIMITED: NotSentError("too many", ChannelHarness.limit_seconds),
    SendFault.CUT_BEFORE: UnknownOutcomeError("cut"),
    SendFault.CUT_AFTER: UnknownOutcomeError("cut"),
    SendFault.REFUSED: RefusedError("blocked"),
}


class MemoryHarness(ChannelHarness):
    def __init__(self) -> None:
        self._channel = MemoryChannel()

    @property
    def channel(self) -> MemoryChannel:
        return self._channel

    @property
    def address(self) -> Address:
        return Address("memory", "1", "9")

    async def say(self, text: str, *, sender: str = "1001") -> None:
        self._channel.post(text, sender=sender, thread="9")

    async def visible(self) -> Sequence[str]:
        return [part.text for part in self._channel.sent_to("1")]

    def restart(self) -> None:
        """The platform's side lives in the same object."""

    def acknowledged(self) -> int:
        return len(self._channel.receipts)

    async def wait_acknowledged(self, count: int) -> None:
        await self._channel.wait_receipts(count)

    async def fail_send(self, fault: SendFault) -> None:
        self._channel.fail("1", ERRORS[fault], is_delivered=fault is SendFault.CUT_AFTER)


class TestMemoryChannel(ChannelContract):
    package = "nanobee.testing.memory_channel"
    sdks = ("telegram", "httpx", "aiohttp", "pytest")

    @asynccontextmanager
    async def open_harness(self) -> AsyncIterator[ChannelHarness]:
        yield MemoryHarness()


async def test_say_returns_what_became_of_the_event() -> None:
    channel = MemoryChannel("work", MemorySettings(allow_from=("1",)))
    inbox = RecordingInbox(channel.settings.allow_from)
    async with running(channel, inbox):
        assert await channel.say("hi", chat_id="a:b", event_key="e1") is Receipt.STORED
        assert await channel.say("hi", chat_id="a:b", event_key="e1") is Receipt.DUPLICATE
        assert await channel.say("hi", sender="2") is Receipt.REFUSED
    assert [arrival.session_key for arrival in inbox.stored] == ["work:a%3Ab"]


async def test_a_blocked_chat_hangs_and_others_do_not() -> None:
    channel = MemoryChannel()
    channel.block("1")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(channel.send, part_of(Address("memory", "1"), "slow"))
        await channel.wait_attempts(1, chat_id="1")
        await channel.send(part_of(Address("memory", "2"), "fast"))
        assert [part.text for part in channel.sent] == ["fast"]
        channel.unblock("1")
        await channel.wait_sent(1, chat_id="1")
    assert [part.text for part in channel.sent] == ["fast", "slow"]


async def test_a_fault_meets_as_many_sends_as_it_was_told() -> None:
    channel = MemoryChannel()
    channel.fail("1", NotSentError("no network"), times=2)
    part = part_of(Address("memory", "1"), "hello")
    for _ in range(2):
        with pytest.raises(NotSentError, match="no network"):
            await channel.send(part)
    await channel.send(part)
    assert len(channel.attempts) == 3
    assert channel.sent == [part]


async def test_a_stream_is_kept_frame_by_frame() -> None:
    channel = MemoryChannel()
    part = LivePart(Address("memory", "1"), "t1")
    await channel.stream(part, "an")
    await channel.stream(part, "an answer")
    assert [frame.text for frame in await channel.wait_frames(2)] == ["an", "an answer"]


async def test_waiting_for_what_never_comes_fails() -> None:
    channel = MemoryChannel(wait_seconds=0.01)
    with pytest.raises(TimeoutError):
        await channel.wait_sent(1)
