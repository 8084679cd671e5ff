"""Live: what an answer under way looks like now, one slot an address, never queued."""

from collections.abc import Callable, Collection, Sequence
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
    """Latest-value slots by address. Lives on the event loop."""

    def __init__(self, streaming: Collection[str], wake: Callable[[Address], None]) -> None:
        self._streaming = streaming
        self._wake = wake
        self._slots: dict[Address, LiveText] = {}

    def publish(self, part: LivePart, fragments: Sequence[str]) -> None:
        """Replace what the address shows, and wake its delivery; nothing where its channel doesn't stream."""
        if part.address.channel not in self._streaming:
            return
        self._slots[part.address] = LiveText(part, fragments)
        self._wake(part.address)

    def has(self, address: Address) -> bool:
        """Whether something is to be shown."""
        return address in self._slots

    def take(self, address: Address) -> LiveText | None:
        """The newest state, once."""
        return self._slots.pop(address, None)

    def close(self, address: Address) -> None:
        """Forget what was not yet shown: the final text comes."""
        self._slots.pop(address, None)
