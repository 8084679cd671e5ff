"""A gateway that is killed while it remembers: `python -m tests.memory.mortal_gateway ROOT CHATS TURNS SEED`.

It goes on where the last one died, and ends by itself once every message is answered and remembered.
"""

import json
import random
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.lowlevel

from nanobee.chat import Completion, CompletionRequest, FinishReason, ToolCall
from nanobee.config import Settings
from nanobee.config_memory import MemorySettings
from nanobee.gateway import Gateway, open_gateway, run_channel
from nanobee.providers.model import Model
from nanobee.providers.provider import OnDelta, ignore_delta
from nanobee.testing.memory_channel import MemoryChannel

POLL_SECONDS = 0.02
WINDOW = 10
"""Messages of one chat that wait at once."""


@dataclass
class ForgetfulModel:
    """Answers each message; as the memory's writer it is good, lossy, empty or silent, as the dice fall."""

    dice: random.Random

    async def complete(self, request: CompletionRequest, on_delta: OnDelta = ignore_delta) -> Completion:
        await anyio.lowlevel.checkpoint()
        text = request.messages[-1].content
        if "<conversation>" not in str(request.messages):
            return Completion("ok " + text[-12:], model="m")
        kind = self.dice.randrange(8)
        if kind == 0:
            return Completion("I will not.", model="m")
        memory = re.search(r"<memory_file>\n(.*?)\n</memory_file>", str(request.messages[1].content), re.DOTALL)
        old = [] if memory is None or memory[1] == "(empty)" else memory[1].split("\n")
        said = re.findall(r"user: (chat \d+ message \d+)", str(request.messages[1].content))
        facts = [*old, *(f"- Told: {each}" for each in said[:2])]
        update = {1: "", 2: "- lost\n", 3: "\n".join(facts[len(facts) // 3 :])}.get(kind, "\n".join(facts))
        saved = {"history_entry": f"Talked: {', '.join(said)}", "memory_update": update, "daily_note": said[0]}
        call = ToolCall("c", "save_memory", json.dumps(saved))
        return Completion("", (call,), FinishReason.TOOL_CALLS, model="m")

    async def aclose(self) -> None:
        pass


def settings_of(root: Path, chats: int) -> Settings:
    """The settings that every start has; all chats are the owner's."""
    return Settings(
        workspace=root / "workspace",
        state=root / "state",
        owner=tuple(f"memory:{chat}" for chat in range(chats)),
        memory=MemorySettings(consolidate_after_tokens=150, max_calls_per_day=10**6, recall=False),
    )


async def main(root: Path, chats: int, turns: int, seed: int) -> None:
    """Run until all is done."""
    channel = MemoryChannel()
    model = Model(ForgetfulModel(random.Random(seed)), "main/m", "m", 64_000)
    async with open_gateway(settings_of(root, chats), {"memory": channel}, model) as gateway:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_channel, gateway, channel)
            async with anyio.create_task_group() as people:
                for chat in range(chats):
                    people.start_soon(_talk, gateway, channel, str(chat), turns // chats)
            await gateway.agent.memory.consolidator.wait_idle()
            await gateway.wind_down(0)
            tasks.cancel_scope.cancel()


async def _talk(gateway: Gateway, channel: MemoryChannel, chat: str, turns: int) -> None:
    for number in range(turns):
        text = f"chat {chat} message {number} " + "and some words more to fill the part " * (number % 4)
        await channel.say(text, chat_id=chat, sender=chat, event_key=f"{chat}-{number}")
        if number % WINDOW == WINDOW - 1 or number == turns - 1:
            await _all_answered(gateway, chat)
        if number % 97 == 96:
            await channel.say("/new", chat_id=chat, sender=chat, event_key=f"{chat}-{number}-new")
    await _all_answered(gateway, chat)


async def _all_answered(gateway: Gateway, chat: str) -> None:
    while True:
        waiting = await gateway.bus.waiting(f"memory:{chat}")
        if not waiting.is_running and not waiting.queued:
            return
        await anyio.sleep(POLL_SECONDS)


if __name__ == "__main__":
    root, chats, turns, seed = sys.argv[1:]
    anyio.run(main, Path(root), int(chats), int(turns), int(seed))
