"""What a turn costs beside its model: tool steps, and the length of the conversation before it.

    python -m benchmarks.turn [--turns N]

A whole gateway in this process on a real bus and real session files, between a memory channel
and a scripted provider that answers at once; the figures are CPU milliseconds of this process
a turn, so they hold no network and no wait. Exit code 1 when a ratio is missed.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio

from nanobee.bus.lines import Line
from nanobee.chat import Completion, CompletionRequest, ToolCall, ToolChoice
from nanobee.config import Settings
from nanobee.config_memory import MemorySettings
from nanobee.gateway import open_gateway, run_channel
from nanobee.providers.model import Model
from nanobee.providers.openai_wire import build_body, encode_body, find_dialect
from nanobee.providers.provider import OnDelta, ignore_delta
from nanobee.sessions.files import SessionFiles
from nanobee.testing.memory_channel import MemoryChannel

LENGTHS = (10, 1_000, 50_000)
STEPS = (0, 1, 10)
NEVER = 1_000_000_000
MAX_RATIO = 1.2
"""Of the longest conversation's median turn to that of a conversation that fills the window."""


class Instant:
    """Builds the request as the OpenAI provider does, and answers at once: N tool steps, then a text."""

    def __init__(self) -> None:
        self.steps = 0
        self.request_bytes = 0

    async def complete(self, request: CompletionRequest, on_delta: OnDelta = ignore_delta) -> Completion:
        self.request_bytes = len(encode_body(build_body(request, find_dialect("bench"), stream=True)))
        if request.tool_choice is ToolChoice.FORCED:
            return Completion("", (ToolCall("c", request.tools[0].name, '{"summary": "They compared options."}'),))
        done = 0
        for message in reversed(request.messages):
            if message.role == "user":
                break
            done += message.role == "tool"
        if done < self.steps:
            return Completion("", (ToolCall("c", "list_dir", "{}"),))
        return Completion("The answer is that option 3 is cheaper, and has a direct train.")

    async def aclose(self) -> None: ...


def write_history(state: Path, key: str, count: int) -> None:
    """`count` past messages of about 30 tokens each."""
    path = SessionFiles(state).path(key)
    at = datetime.now(UTC) - timedelta(days=30)
    with path.open("w", encoding="utf-8") as file:
        for seq in range(1, count + 1):
            role = "user" if seq % 2 else "assistant"
            text = f"Item {seq}: could you compare option {seq % 7} with option {seq % 5} for the trip, and the cost?"
            line = Line(seq, at + timedelta(seconds=seq), f"t{seq // 2}", "message", {"role": role, "content": text})
            file.write(line.to_json() + "\n")
        # Memory has it all: what it does in the background is measured with the memory.
        file.write(Line(count + 1, at, None, "consolidated", {"through": count}).to_json() + "\n")


@asynccontextmanager
async def gateway(root: Path, provider: Instant) -> AsyncIterator[MemoryChannel]:
    channel = MemoryChannel()
    memory = MemorySettings(consolidate_after_tokens=NEVER)  # that is background work, and measured with the memory
    settings = Settings(workspace=root / "workspace", state=root / "state", memory=memory)
    model = Model(provider, "bench/instant", "instant")
    async with open_gateway(settings, {"memory": channel}, model) as running, anyio.create_task_group() as tasks:
        tasks.start_soon(run_channel, running, channel)
        yield channel
        tasks.cancel_scope.cancel()


async def measure(root: Path, chat: str, turns: int, provider: Instant) -> tuple[float, float, int]:
    """CPU ms of the first turn and the median of the later ones; bytes of the last request."""
    costs = []
    async with gateway(root, provider) as channel:
        for number in range(turns + 1):
            before = time.process_time()
            await channel.say(f"question {number}", chat_id=chat, event_key=f"{chat}-{number}")
            await channel.wait_sent(number + 1, chat_id=chat)
            costs.append((time.process_time() - before) * 1000)
    return costs[0], statistics.median(costs[1:]), provider.request_bytes


async def main(turns: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        root, provider = Path(folder), Instant()
        await measure(root, "warm-up", 20, provider)
        print("tool steps   CPU ms a turn")
        for steps in STEPS:
            provider.steps = steps
            _, median, _ = await measure(root, f"steps-{steps}", turns, provider)
            print(f"{steps:10}   {median:13.2f}")
        provider.steps = 0
        print("past messages   first turn ms   later turns ms   request kB")
        medians = {}
        for length in LENGTHS:
            write_history(root / "state", f"memory:past-{length}", length)
            first, medians[length], size = await measure(root, f"past-{length}", turns, provider)
            print(f"{length:13}   {first:13.2f}   {medians[length]:14.2f}   {size / 1000:10.1f}")
        short, full, long = (medians[length] for length in LENGTHS)
        ratio = long / full
        print(f"{LENGTHS[2]:,} to {LENGTHS[1]:,} past messages: {ratio:.2f} (at most {MAX_RATIO})")
        print(f"{LENGTHS[1]:,} to {LENGTHS[0]:,} past messages: {full / short:.2f} (its window holds {LENGTHS[1]:,})")
        return ratio <= MAX_RATIO


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=40)
    sys.exit(0 if anyio.run(main, parser.parse_args().turns) else 1)
