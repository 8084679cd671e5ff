"""Interrupts: signals that ask the terminal to stop or to leave, with the handlers put back after."""

import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager

import anyio
from anyio.abc import TaskStatus


async def hear_interrupts(
    heard: Callable[[signal.Signals], Awaitable[None]], *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Call `heard` for each SIGINT until cancelled, and for SIGTERM and SIGHUP where nobody else handles them.

    Outside the main thread, and on Windows, signals stay as they are.
    """
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        task_status.started()
        return
    numbers = [signal.SIGINT]
    # A gateway that ends itself on these cancels us; the default would kill the process and leave
    # the terminal in raw mode.
    numbers += [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    with _restored_handlers(numbers), anyio.open_signal_receiver(*numbers) as signals:
        task_status.started()
        async for number in signals:
            await heard(number)


@contextmanager
def _restored_handlers(numbers: Iterable[signal.Signals]) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
