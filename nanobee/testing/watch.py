"""Watch: how a test waits for what a test double sees, without a clock."""

from collections.abc import Callable

import anyio

WAIT_SECONDS = 10.0
"""How long a condition may take before the test fails."""


class Watch:
    """Wakes those who wait for a condition whenever something happened."""

    def __init__(self, seconds: float = WAIT_SECONDS) -> None:
        self._seconds = seconds
        self._changed = anyio.Event()

    def notify(self) -> None:
        """Something happened."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def next(self) -> None:
        """Wait until something happens, for as long as it takes."""
        await self._changed.wait()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds.

        Raises:
            TimeoutError: it did not in time.
        """
        with anyio.fail_after(self._seconds):
            while not condition():
                await self.next()
