"""What every channel must hold to, as pytest classes that a channel's tests inherit.

    class TestMyChannel(ChannelContract):
        package = "my_channel"
        sdks = ("my_sdk",)

        @asynccontextmanager
        async def open_harness(self) -> AsyncIterator[ChannelHarness]:
            async with MyFakePlatform() as platform:
                yield MyHarness(platform)

`ChannelContract` is the whole. A channel without a platform that repeats events takes
`ReceivingContract` and `SendingContract` without `AcknowledgingContract` and `FaultContract`.
The tests are plain `async def`, for anyio's pytest plugin in its automatic mode.
"""

import json
import logging
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import StrEnum
from typing import Any, ClassVar

import anyio
import pytest

from nanobee.channel import Channel, ChannelState, Inbox, Lane
from nanobee.errors import DeliveryError, NotSentError, RefusedError, UnknownOutcomeError
from nanobee.messages import Address, InboundMessage, LivePart, OutboundPart, PartKind
from nanobee.testing.recording_inbox import RecordingInbox

STOP_SECONDS = 2.0
"""How long a cancelled `run` may take to end."""
LONG_TEXTS = (
    "word " * 5_000,
    "a paragraph of some words\n\n" * 800,
    "x" * 20_000,
    "汉字。" * 5_000,
    "\U0001f600" * 9_000,
    "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 2_000,
    "a\U0001f600" * 4_500,
    "line\n" * 6_000 + "end",
    "def f():\n    return 1\n\n" * 900,
)


class SendFault(StrEnum):
    """How the next send goes wrong at the platform."""

    UNREACHABLE = "unreachable"
    """Nothing takes the connection."""
    LIMITED = "limited"
    """Too many messages; the platform says to wait for `ChannelHarness.limit_seconds`."""
    CUT_BEFORE = "cut_before"
    """The connection ends before the message stands in the chat, and the sender cannot know."""
    CUT_AFTER = "cut_after"
    """The connection ends after the message stands in the chat, and the sender cannot know."""
    REFUSED = "refused"
    """The platform will never take it."""


class ChannelHarness(ABC):
    """A channel under test with its platform, as the platform's side sees it."""

    limit_seconds: float = 7.0
    secrets: Sequence[str] = ()
    """What stands in the settings and must never stand in an error or a log line."""

    @property
    @abstractmethod
    def channel(self) -> Channel[Any]:
        """The channel, not yet running."""

    @property
    @abstractmethod
    def address(self) -> Address:
        """The chat where people talk and the channel sends, with a thread where the platform has them."""

    @abstractmethod
    async def say(self, text: str, *, sender: str = "1001") -> None:
        """Somebody says something in the chat; return without waiting for the channel."""

    @abstractmethod
    async def visible(self) -> Sequence[str]:
        """The texts that the channel put into the chat, in their order."""

    def restart(self) -> None:
        """Make a new channel object, as a new process would; the platform stays as it is."""
        raise NotImplementedError

    def acknowledged(self) -> int:
        """How many events the platform will not deliver again."""
        raise NotImplementedError

    async def wait_acknowledged(self, count: int) -> None:
        """Wait until so many events are acknowledged."""
        raise NotImplementedError

    async def fail_send(self, fault: SendFault) -> None:
        """Let the next send go wrong."""
        raise NotImplementedError


class _Contract(ABC):
    package: ClassVar[str]
    """The channel's import package."""
    sdks: ClassVar[tuple[str, ...]] = ()
    """Modules that importing the package must not import."""

    @abstractmethod
    def open_harness(self) -> AbstractAsyncContextManager[ChannelHarness]:
        """A fresh platform and a channel on it."""


@asynccontextmanager
async def running(channel: Channel[Any], inbox: Inbox) -> AsyncIterator[None]:
    """Run a channel for the length of a block, then cancel it and wait for its end.

    What the block raises comes out as it is, what the channel raises in an exception group.
    """
    failure: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(channel.run, inbox)
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


def part_of(address: Address, text: str, *, row: int = 1, reply_to: str | None = None) -> OutboundPart:
    """An answer of one part, as the delivery hands it to a channel."""
    return OutboundPart(
        id=row, address=address, text=text, kind=PartKind.ANSWER, reply_to=reply_to, idempotency_key=f"key-{row}"
    )


async def message_of(channel: Channel[Any], inbox: RecordingInbox, index: int = 0) -> InboundMessage:
    """A stored arrival as the complete message, resolved where it is not complete yet."""
    arrival = inbox.stored[index]
    return arrival.message if arrival.message is not None else await channel.resolve(arrival.raw)


class ReceivingContract(_Contract):
    """What comes in."""

    async def test_what_is_said_arrives_as_it_was_said(self) -> None:
        async with self.open_harness() as harness:
            inbox = RecordingInbox()
            async with running(harness.channel, inbox):
                await harness.say("hello there")
                await inbox.wait_stored()
                message = await message_of(harness.channel, inbox)
            arrival = inbox.stored[0]
            assert message.text == "hello there"
            assert message.address == harness.address
            assert arrival.session_key == harness.address.session_key
            assert arrival.session_key.startswith(f"{harness.channel.name}:")
            assert arrival.sender_id == message.sender_id != ""
            assert arrival.source_id == message.source_id
            assert message.received_at.tzinfo is not None

    async def test_an_arrival_can_be_stored_as_json(self) -> None:
        async with self.open_harness() as harness:
            inbox = RecordingInbox()
            async with running(harness.channel, inbox):
                await harness.say("half a \U0001f600 and 汉字")
                await inbox.wait_stored()
            assert json.loads(json.dumps(inbox.stored[0].raw)) == inbox.stored[0].raw

    async def test_messages_arrive_in_order_under_keys_of_their_own(self) -> None:
        async with self.open_harness() as harness:
            inbox = RecordingInbox()
            async with running(harness.channel, inbox):
                for number in range(5):
                    await harness.say(f"message {number}")
                await inbox.wait_stored(5)
                texts = [(await message_of(harness.channel, inbox, index)).text for index in range(5)]
            assert texts == [f"message {number}" for number in range(5)]
            assert len({arrival.event_key for arrival in inbox.stored}) == 5

    async def test_a_control_command_takes_lane_0_and_other_text_lane_1(self) -> None:
        async with self.open_harness() as harness:
            inbox = RecordingInbox()
            async with running(harness.channel, inbox):
                for text in ("/stop", "/new", "what does /stop do?"):
                    await harness.say(text)
                await inbox.wait_stored(3)
            assert [arrival.lane for arrival in inbox.stored] == [Lane.CONTROL, Lane.USER, Lane.USER]

    async def test_a_cancelled_channel_ends_at_once_and_can_run_again(self) -> None:
        async with self.open_harness() as harness:
            for round_ in (1, 2):
                inbox = RecordingInbox()
                async with running(harness.channel, inbox):
                    await harness.say(f"round {round_}")
                    await inbox.wait_stored()
                    started_at = anyio.current_time()
                assert anyio.current_time() - started_at < STOP_SECONDS

    async def test_a_channel_that_hears_its_platform_says_so(self) -> None:
        async with self.open_harness() as harness:
            assert harness.channel.status().state in (ChannelState.STARTING, ChannelState.UP)
            inbox = RecordingInbox()
            async with running(harness.channel, inbox):
                await harness.say("are you there?")
                await inbox.wait_stored()
                assert harness.channel.status().state is ChannelState.UP

    def test_importing_the_package_imports_no_sdk(self) -> None:
        code = f"import sys, {self.package}; print([name for name in {self.sdks!r} if name in sys.modules])"
        shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        assert shown.stdout.strip() == "[]"


class AcknowledgingContract(_Contract):
    """What the platform may forget, and when."""

    async def test_an_event_is_not_acknowledged_before_it_is_stored(self) -> None:
        async with self.open_harness() as harness:
            inbox = RecordingInbox()
            inbox.hold()
            async with running(harness.channel, inbox):
                await harness.say("keep me")
                await inbox.wait_stored()
                await anyio.wait_all_tasks_blocked()
                assert harness.acknowledged() == 0
                inbox.heal()
                await harness.wait_acknowledged(1)

    async def test_a_store_that_fails_loses_nothing_and_keeps_the_order(self) -> None:
        async with self.open_harness() as harness:
            inbox = RecordingInbox()
            inbox.break_down()
            async with running(harness.channel, inbox):
                for number in range(3):
                    await harness.say(f"message {number}")
                await inbox.wait_calls(2)
                assert harness.acknowledged() == 0
                assert inbox.stored == []
                inbox.heal()
                await inbox.wait_stored(3)
                await harness.wait_acknowledged(3)
                texts = [(await message_of(harness.channel, inbox, index)).text for index in range(3)]
            assert texts == ["message 0", "message 1", "message 2"]

    async def test_an_event_that_comes_again_after_a_crash_has_the_same_key(self) -> None:
        async with self.open_harness() as harness:
            inbox = RecordingInbox()
            inbox.hold()
            async with running(harness.channel, inbox):
                await harness.say("once")
                await inbox.wait_stored()
            harness.restart()
            second = RecordingInbox()
            async with running(harness.channel, second):
                await second.wait_stored()
                await harness.wait_acknowledged(1)
            assert [arrival.event_key for arrival in second.stored] == [arrival.event_key for arrival in inbox.stored]

    async def test_a_strangers_event_is_acknowledged_and_not_answered(self) -> None:
        async with self.open_harness() as harness:
            inbox = RecordingInbox(allow_from=("1001",))
            async with running(harness.channel, inbox):
                await harness.say("let me in", sender="666")
                await harness.wait_acknowledged(1)
                await harness.say("it is me", sender="1001")
                await harness.wait_acknowledged(2)
            assert [arrival.sender_id for arrival in inbox.refused] == ["666"]
            assert [arrival.sender_id for arrival in inbox.stored] == ["1001"]
            assert list(await harness.visible()) == []


class SendingContract(_Contract):
    """What goes out."""

    async def test_a_part_is_sent_once_and_has_an_id(self) -> None:
        async with self.open_harness() as harness:
            async with running(harness.channel, RecordingInbox()):
                ids = await harness.channel.send(part_of(harness.address, "an answer"))
            assert list(await harness.visible()) == ["an answer"]
            assert all(isinstance(platform_id, str) and platform_id for platform_id in ids)

    async def test_a_long_text_arrives_whole_and_in_order(self) -> None:
        async with self.open_harness() as harness:
            async with running(harness.channel, RecordingInbox()):
                for row, text in enumerate(LONG_TEXTS):
                    for part in harness.channel.split(text):
                        await harness.channel.send(part_of(harness.address, part, row=row))
            shown = "".join(await harness.visible())
            assert _without_space(shown) == _without_space("".join(LONG_TEXTS))

    async def test_split_is_pure_and_never_empty(self) -> None:
        async with self.open_harness() as harness:
            for text in ("", " ", "\n\n", "one line", *LONG_TEXTS):
                parts = harness.channel.split(text)
                assert len(parts) >= 1
                assert list(parts) == list(harness.channel.split(text))
                assert _without_space("".join(parts)) == _without_space(text)

    async def test_a_stream_that_cannot_be_shown_costs_nothing(self) -> None:
        async with self.open_harness() as harness:
            async with running(harness.channel, RecordingInbox()):
                await harness.channel.stream(LivePart(harness.address, "t1"), "an ans")
                await harness.channel.send(part_of(harness.address, "an answer"))
            assert "an answer" in list(await harness.visible())[-1]


_EXPECTED: dict[SendFault, tuple[type[DeliveryError], bool]] = {
    SendFault.UNREACHABLE: (NotSentError, False),
    SendFault.LIMITED: (NotSentError, False),
    SendFault.CUT_BEFORE: (UnknownOutcomeError, False),
    SendFault.CUT_AFTER: (UnknownOutcomeError, True),
    SendFault.REFUSED: (RefusedError, False),
}
"""The error of each fault, and whether the message stands in the chat all the same."""


class FaultContract(_Contract):
    """What a send that fails must say."""

    @pytest.mark.parametrize("fault", list(SendFault))
    async def test_a_failed_send_says_whether_it_may_have_arrived(
        self, fault: SendFault, caplog: pytest.LogCaptureFixture
    ) -> None:
        expected, is_visible = _EXPECTED[fault]
        async with self.open_harness() as harness:
            with caplog.at_level(logging.DEBUG):
                async with running(harness.channel, RecordingInbox()):
                    await harness.fail_send(fault)
                    with pytest.raises(expected) as caught:
                        await harness.channel.send(part_of(harness.address, "an answer"))
            assert list(await harness.visible()) == (["an answer"] if is_visible else [])
            if fault is SendFault.LIMITED:
                assert isinstance(caught.value, NotSentError)
                assert caught.value.retry_after_seconds == harness.limit_seconds
            assert str(caught.value)
            assert "\n" not in str(caught.value)
            for secret in harness.secrets:
                assert secret not in str(caught.value)
                assert secret not in caplog.text


class ChannelContract(ReceivingContract, AcknowledgingContract, SendingContract, FaultContract):
    """The whole contract."""


def _without_space(text: str) -> str:
    return "".join(text.split())
