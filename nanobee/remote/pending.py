"""Pending: a part that was given to the clients of a session, until one of them has shown it."""

import anyio

from nanobee.errors import DeliveryError, NotSentError, RefusedError, UnknownOutcomeError
from nanobee.messages import OutboundPart
from nanobee.remote.parts import Failed, Outcome, Shown

_ERRORS = {Outcome.NOT_SENT: NotSentError, Outcome.UNKNOWN: UnknownOutcomeError, Outcome.REFUSED: RefusedError}


class Pending:
    """What became of one part at so many clients. The first that shows it is enough."""

    def __init__(self, clients: int) -> None:
        self._left = clients
        self._platform_ids: tuple[str, ...] | None = None
        self._errors: list[DeliveryError] = []
        self._decided = anyio.Event()

    def settle(self, told: Shown | Failed) -> None:
        """Take one client's word."""
        if isinstance(told, Failed):
            self._errors.append(_ERRORS[told.outcome](told.reason))
            self._left -= 1
        elif self._platform_ids is None:
            self._platform_ids = told.platform_ids
        if self._left == 0 or self._platform_ids is not None:
            self._decided.set()

    async def wait(self) -> tuple[str, ...]:
        """The ids that the first client gave it.

        Raises:
            DeliveryError: no client has shown it; unknown, where one of them may have.
        """
        await self._decided.wait()
        if self._platform_ids is not None:
            return self._platform_ids
        # What may stand on one screen outweighs what surely stands on no other one.
        raise min(self._errors, key=lambda error: list(_RANK).index(type(error)))


_RANK = (UnknownOutcomeError, NotSentError, RefusedError)


class Posted:
    """The parts that one client was given and has not yet told of."""

    def __init__(self) -> None:
        self._pending: dict[int, Pending] = {}
        self._emptied = anyio.Event()

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, part: OutboundPart, pending: Pending) -> None:
        """The client is given the part."""
        self._pending[part.id] = pending

    def settle(self, told: Shown | Failed) -> None:
        """The client has told; a second word on the same part changes nothing."""
        pending = self._pending.pop(told.part_id, None)
        if pending is not None:
            pending.settle(told)
        if not self._pending:
            self._emptied.set()

    def fail(self, outcome: Outcome, reason: str) -> None:
        """The client tells of nothing more."""
        for part_id in list(self._pending):
            self.settle(Failed(part_id, outcome, reason))

    async def wait_empty(self) -> None:
        """Return once everything was told of."""
        while self._pending:
            self._emptied = anyio.Event()
            await self._emptied.wait()
