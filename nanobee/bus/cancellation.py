"""Cancellation: telling our own from one that leaked out of somebody else's code.

A library that raises CancelledError without being cancelled must not end a task of ours: the task
would be gone without a word, and whatever it served with it.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class LeakedCancellationError(Exception):
    """Somebody else's code cancelled itself."""


async def contain(call: Awaitable[T]) -> T:
    """Await `call`; where it is cancelled although the current task is not, raise an ordinary error.

    Raises:
        LeakedCancellationError: a cancellation leaked out of `call`.
    """
    try:
        return await call
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise LeakedCancellationError("it cancelled itself") from None
