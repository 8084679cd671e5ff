"""Backlog: frames that wait to be written or shown; of a growing text only the latest state."""

import math
from collections import deque
from typing import TYPE_CHECKING

import anyio

from nanobee.remote.parts import Live, Send

if TYPE_CHECKING:
    from nanobee.remote.frames import Frame

LIVE_SECONDS = 0.05
"""The least time between two states of a growing text: each holds the whole of it."""


class Backlog:
    """Frames in order, with one place for the growing text behind them."""

    def __init__(self) -> None:
        self._frames: deque[Frame] = deque()
        self._live: Live | None = None
        self._live_at = 0.0
        """Before this time, on the event loop's clock, no growing text is given out."""
        self._changed = anyio.Event()

    def put(self, frame: "Frame") -> None:
        """Add a frame. A part to be sent ends the text that grew before it."""
        if isinstance(frame, Live):
            self._live = frame
        else:
            if isinstance(frame, Send):
                self._live = None
            self._frames.append(frame)
        self._changed.set()

    def withdraw(self) -> list["Frame"]:
        """Take back everything that waits."""
        waiting, self._frames, self._live = list(self._frames), deque(), None
        return waiting

    async def get(self) -> "Frame":
        """Wait for the next frame and take it."""
        while not self._frames:
            now = anyio.current_time()
            if self._live is not None and now >= self._live_at:
                live, self._live = self._live, None
                self._live_at = now + LIVE_SECONDS
                return live
            self._changed = anyio.Event()
            with anyio.CancelScope(deadline=math.inf if self._live is None else self._live_at):
                await self._changed.wait()
        return self._frames.popleft()
