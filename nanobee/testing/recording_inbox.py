"""RecordingInbox: an inbox in memory for tests of channels, whose store can fail or take its time."""

from collections.abc import Sequence

import anyio

from nanobee.channel import EVERYBODY, Arrival, Receipt, admits
from nanobee.errors import BusError
from nanobee.testing.watch import Watch


class RecordingInbox:
    """Keeps what arrives in `stored`, once for each event key, as the real one does on disk."""

    def __init__(self, allow_from: Sequence[str] = (EVERYBODY,)) -> None:
        self.allow_from = allow_from
        self.stored: list[Arrival] = []
        self.refused: list[Arrival] = []
        self.calls = 0
        """How often something was handed in, failed calls included."""
        self._is_broken = False
        self._gate: anyio.Event | None = None
        self._watch = Watch()

    @property
    def texts(self) -> list[str]:
        """What was said, in the order of storing."""
        return [arrival.message.text for arrival in self.stored if arrival.message is not None]

    async def receive(self, *arrivals: Arrival) -> list[Receipt]:
        """Store the arrivals, unless the inbox is broken or held.

        Raises:
            BusError: it is broken; nothing was stored.
        """
        self.calls += 1
        self._watch.notify()
        if self._is_broken:
            raise BusError("the disk is full")
        receipts = [self._store(arrival) for arrival in arrivals]
        self._watch.notify()
        if self._gate is not None:
            await self._gate.wait()
        return receipts

    def break_down(self) -> None:
        """Every call fails until `heal`."""
        self._is_broken = True

    def hold(self) -> None:
        """Calls store and do not return until `heal`: the moment between the commit and the acknowledgement."""
        self._gate = anyio.Event()

    def heal(self) -> None:
        """Work again."""
        self._is_broken = False
        if self._gate is not None:
            self._gate.set()
            self._gate = None

    async def wait_stored(self, count: int = 1) -> list[Arrival]:
        """Wait until so many arrivals are stored, and return all."""
        await self._watch.until(lambda: len(self.stored) >= count)
        return self.stored

    async def wait_refused(self, count: int = 1) -> list[Arrival]:
        """Wait until so many arrivals of strangers were refused, and return all."""
        await self._watch.until(lambda: len(self.refused) >= count)
        return self.refused

    async def wait_calls(self, count: int) -> None:
        """Wait until something was handed in so often."""
        await self._watch.until(lambda: self.calls >= count)

    def _store(self, arrival: Arrival) -> Receipt:
        if not admits(self.allow_from, arrival.sender_id):
            self.refused.append(arrival)
            return Receipt.REFUSED
        if any(arrival.event_key == known.event_key for known in self.stored):
            return Receipt.DUPLICATE
        self.stored.append(arrival)
        return Receipt.STORED
