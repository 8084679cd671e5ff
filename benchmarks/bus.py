"""How many messages a second go through the bus, and how many operations share one fsync.

    python -m benchmarks.bus [--seconds 3]

Each producer has its own chat and does for each message what a gateway does: receive, claim,
finish with an answer, outgoing, sent. Operations and commits are counted at the writer. The
second table adds 5 ms to each commit, as a slow disk does, and compares with one operation
for each commit. Exit code 1 when a limit is missed.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from nanobee.agent.notices import ChatNotices
from nanobee.bus import writer
from nanobee.bus.bus import NewRow, NewSend
from nanobee.bus.sqlite import SqliteBus, open_bus
from nanobee.channel import Arrival, Lane
from nanobee.messages import Address, InboundMessage, OutboundMessage, PartKind
from nanobee.sessions.files import SessionFiles
from nanobee.sessions.session import message_line

PRODUCERS = (1, 10, 100)
MIN_PER_COMMIT = 20.0
"""Operations for each commit, with 100 producers."""
SLOW_SECONDS = 0.005
MIN_GAIN = 10.0
"""Of shared commits over one operation for each commit, on the slow disk."""


@dataclass
class Count:
    """What the writer did."""

    operations: int = 0
    commits: int = 0
    messages: int = 0


@contextmanager
def counted(count: Count, slow_seconds: float, max_batch: int) -> Iterator[None]:
    """Count the writer's work, and slow its commits down."""
    commit, batch = writer.Writer._commit, writer.MAX_BATCH

    def counting(self: writer.Writer, jobs: list[Any]) -> None:
        if jobs:
            count.operations += len(jobs)
            count.commits += 1
            time.sleep(slow_seconds)
        commit(self, jobs)

    writer.Writer._commit, writer.MAX_BATCH = counting, max_batch  # type: ignore[method-assign]
    try:
        yield
    finally:
        writer.Writer._commit, writer.MAX_BATCH = commit, batch  # type: ignore[method-assign]


async def produce(bus: SqliteBus, chat: int, count: Count) -> None:
    """One chat's messages, each to its end, until cancelled."""
    address = Address("bench", str(chat))
    number = 0
    while True:
        number += 1
        message = InboundMessage(address, "1", f"question {number}", datetime.now(UTC))
        arrival = Arrival(f"{chat}-{number}", address.session_key, "1", Lane.USER, {}, message=message)
        await bus.receive([NewRow(arrival, arrival.event_key)])
        claim = await bus.claim(address.session_key)
        assert claim is not None
        send = NewSend(OutboundMessage(address, "an answer"), PartKind.ANSWER, "final", ("an answer",))
        await bus.finish(claim.ref, [message_line("assistant", "an answer")], [send])
        part = (await bus.outgoing(address)).part
        assert part is not None
        await bus.sent(part, ["1"])
        count.messages += 1


async def measure(producers: int, seconds: float, slow_seconds: float = 0.0, max_batch: int = 512) -> Count:
    """Let so many chats go on for a while."""
    count = Count()
    notices = ChatNotices("en", lambda address, text: (text,))
    with tempfile.TemporaryDirectory() as folder, counted(count, slow_seconds, max_batch):
        async with open_bus(Path(folder), SessionFiles(Path(folder)), notices) as bus:
            with anyio.move_on_after(seconds):
                async with anyio.create_task_group() as tasks:
                    for chat in range(producers):
                        tasks.start_soon(produce, bus, chat, count)
            return Count(count.operations, count.commits, count.messages)


async def main(seconds: float) -> bool:
    print("producers   messages a second   operations a commit")
    per_commit = 0.0
    for producers in PRODUCERS:
        count = await measure(producers, seconds)
        per_commit = count.operations / count.commits
        print(f"{producers:9}   {count.messages / seconds:17.0f}   {per_commit:19.1f}")
    shared = await measure(PRODUCERS[-1], seconds, SLOW_SECONDS)
    alone = await measure(PRODUCERS[-1], seconds, SLOW_SECONDS, max_batch=1)
    # In operations: so slow, with so many chats, not one message may come to its end in the time.
    gain = shared.operations / max(alone.operations, 1)
    print(f"with {SLOW_SECONDS * 1000:.0f} ms more a commit, {PRODUCERS[-1]} producers, operations a second:")
    print(f"  shared commits {shared.operations / seconds:.0f}, one for each {alone.operations / seconds:.0f}")
    print(f"operations a commit with {PRODUCERS[-1]} producers: {per_commit:.1f} (at least {MIN_PER_COMMIT:.0f})")
    print(f"gain of shared commits on the slow disk: {gain:.1f} (at least {MIN_GAIN:.0f})")
    return per_commit >= MIN_PER_COMMIT and gain >= MIN_GAIN


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    sys.exit(0 if anyio.run(main, parser.parse_args().seconds) else 1)
