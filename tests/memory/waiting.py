"""Waiting for what happens in the background, where nothing tells of it."""

from collections.abc import Callable

import anyio

PAUSE_SECONDS = 0.01


async def wait_for(is_so: Callable[[], bool]) -> None:
    """Return once `is_so`; the test's own limit bounds it."""
    while not is_so():
        await anyio.sleep(PAUSE_SECONDS)
