"""The contract finds the channels that break it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest

from nanobee.channel import Arrival, Inbox, Lane
from nanobee.errors import DeliveryError, NotSentError, UnknownOutcomeError
from nanobee.messages import Address, OutboundPart
from nanobee.testing.channel_contract import ChannelContract, ChannelHarness, SendFault
from nanobee.testing.memory_channel import MemoryChannel


class Harness(ChannelHarness):
    secrets = ("CANARY",)

    def __init__(self, channel: MemoryChannel) -> None:
        self._channel = channel

    @property
    def channel(self) -> MemoryChannel:
        return self._channel

    @property
    def address(self) -> Address:
        return Address("memory", "1")

    async def say(self, text: str, *, sender: str = "1001") -> None:
        self._channel.post(text, sender=sender)

    async def visible(self) -> Sequence[str]:
        return [part.text for part in self._channel.sent]

    def restart(self) -> None:
        """The platform's side lives in the same object."""

    def acknowledged(self) -> int:
        return len(self._channel.receipts)

    async def wait_acknowledged(self, count: int) -> None:
        await self._channel.wait_receipts(count)

    async def fail_send(self, fault: SendFault) -> None:
        self._channel.fail("1", error_of(fault))


def error_of(fault: SendFault) -> DeliveryError:
    if fault is SendFault.CUT_BEFORE:
        return UnknownOutcomeError("cut at /botCANARY/")
    return NotSentError("cut") if fault is SendFault.CUT_AFTER else NotSentError("too many")


class TooEarly(MemoryChannel):
    """Acknowledges before it hands in."""

    async def _hand_in(self, inbox: Inbox, arrivals: Sequence[Arrival]) -> None:
        held = list(self._waiting)
        self._waiting.clear()
        self.receipts.update({arrival.event_key: None for arrival in held})  # type: ignore[misc]
        await inbox.receive(*held)


class Forgetful(MemoryChannel):
    """Counts its events anew each time that it hands them in."""

    async def _hand_in(self, inbox: Inbox, arrivals: Sequence[Arrival]) -> None:
        await super()._hand_in(inbox, [replace(each, event_key=f"{id(inbox)}") for each in arrivals])


class OneLane(MemoryChannel):
    async def _hand_in(self, inbox: Inbox, arrivals: Sequence[Arrival]) -> None:
        await super()._hand_in(inbox, [replace(each, lane=Lane.USER) for each in arrivals])


class Cutting(MemoryChannel):
    """Loses what does not fit."""

    def split(self, text: str) -> Sequence[str]:
        return [text[: self.settings.max_chars]]


class Doubling(MemoryChannel):
    async def send(self, part: OutboundPart) -> tuple[str, ...]:
        await super().send(part)
        return await super().send(part)


class Sluggish(MemoryChannel):
    """Takes its time to end."""

    async def run(self, inbox: Inbox) -> None:
        try:
            await super().run(inbox)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(2.1)


class Contract(ChannelContract):
    package = "nanobee.testing.memory_channel"
    sdks = ("anyio",)

    def __init__(self, kind: type[MemoryChannel]) -> None:
        self._kind = kind

    @asynccontextmanager
    async def open_harness(self) -> AsyncIterator[ChannelHarness]:
        yield Harness(self._kind(wait_seconds=0.2))


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (TooEarly, "test_an_event_is_not_acknowledged_before_it_is_stored"),
        (Forgetful, "test_an_event_that_comes_again_after_a_crash_has_the_same_key"),
        (OneLane, "test_a_control_command_takes_lane_0_and_other_text_lane_1"),
        (Cutting, "test_a_long_text_arrives_whole_and_in_order"),
        (Cutting, "test_split_is_pure_and_never_empty"),
        (Doubling, "test_a_part_is_sent_once_and_has_an_id"),
        (Sluggish, "test_a_cancelled_channel_ends_at_once_and_can_run_again"),
    ],
)
async def test_a_channel_that_breaks_the_contract_is_found(kind: type[MemoryChannel], test: str) -> None:
    with pytest.raises(AssertionError):
        await getattr(Contract(kind), test)()


@pytest.mark.parametrize("fault", [SendFault.CUT_BEFORE, SendFault.LIMITED])
async def test_a_fault_that_is_told_wrongly_is_found(fault: SendFault, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(AssertionError):
        await Contract(MemoryChannel).test_a_failed_send_says_whether_it_may_have_arrived(fault, caplog)


@pytest.mark.parametrize("fault", [SendFault.CUT_AFTER, SendFault.REFUSED])
async def test_a_fault_of_the_wrong_kind_is_found(fault: SendFault, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(NotSentError):
        await Contract(MemoryChannel).test_a_failed_send_says_whether_it_may_have_arrived(fault, caplog)


def test_a_package_that_imports_its_sdk_is_found() -> None:
    with pytest.raises(AssertionError):
        Contract(MemoryChannel).test_importing_the_package_imports_no_sdk()
