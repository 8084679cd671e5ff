"""Live: what an answer under way looks like now, one slot an address, never queued."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nanobee.messages import Address, LivePart


@dataclass(frozen=True, slots=True)
class LiveText:
    """The latest state of one growing message."""

    part: LivePart
    fragments: Sequence[str]
    """Joined only when somebody looks: a long answer has thousands of them."""

    @property
    def text(self) -> str:
        """The whole text so far."""
        return "".join(self.fragments)


class LiveSlots:
    """Latest-value slots by address. Lives on the event loop.

    A delivery is woken once a frame, not for each fragment; an answer that is complete within
    its first frame wakes nobody.
    """

    def __init__(self, frame_seconds: Mapping[str, float], wake: Callable[[Address], None]) -> None:
        self._frame_seconds = frame_seconds
        """By the channel's name; a channel that is not in it doesn't stream."""
        self._wake = wake
        self._slots: dict[Address, LiveText] = {}
        self._timers: dict[Address, asyncio.TimerHandle] = {}

    def publish(self, part: LivePart, fragments: Sequence[str]) -> None:
        """Replace what the address shows; nothing where its channel doesn't stream."""
        seconds = self._frame_seconds.get(part.address.channel)
        if seconds is None:
            return
        self._slots[part.address] = LiveText(part, fragments)
        if part.address not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[part.address] = loop.call_later(seconds, self._end_frame, part.address)

    def _end_frame(self, address: Address) -> None:
        del self._timers[address]
        if address in self._slots:
            self._wake(address)

    def has(self, address: Address) -> bool:
        """Whether a frame is to be shown now."""
        return address in self._slots and address not in self._timers

    def take(self, address: Address) -> LiveText | None:
        """The newest state, once."""
        return self._slots.pop(address, None)

    def close(self, address: Address) -> None:
        """Forget what was not yet shown: the final text comes."""
        self._slots.pop(address, None)
        timer = self._timers.pop(address, None)
        if timer is not None:
            timer.cancel()
