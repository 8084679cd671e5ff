"""Runs a TerminalChannel in a process of its own, with an inbox whose answers depend on the text.

Usage: driver.py SETTINGS_JSON LOG. Each arrival is a JSON line in LOG.
"""

import json
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from nanobee.channel import Arrival, Receipt, command_of
from nanobee.errors import BusError, NanobeeError
from nanobee.messages import Address, LivePart, OutboundPart, PartKind
from nanobee_terminal import TerminalChannel, TerminalSettings

LONG = "\n\n".join(
    [
        "# A long answer",
        *(f"Paragraph {number} says something **bold** about line {number}." for number in range(1, 61)),
        "```python\n" + "\n".join(f"line_{number} = {number}" for number in range(1, 41)) + "\n```",
        "The end of it.",
    ]
)
HOSTILE = "before \x1b[31mred\x1b[0m \x1b]0;owned\x07 \x9b2J \x1b[2J after &#27;[31m"


class ScriptedInbox:
    """Stores arrivals in a file and answers them through the channel, a turn at a time."""

    def __init__(self, channel: TerminalChannel, log: Path, tasks: TaskGroup) -> None:
        self.channel = channel
        self.ending = anyio.CancelScope()
        self._log = log
        self._tasks = tasks
        self._turns = anyio.Lock()
        self._running = anyio.CancelScope()
        self.gate = anyio.Event()
        self.is_deaf = False
        self.asked: Arrival | None = None
        self._ids = count(1)

    async def receive(self, *arrivals: Arrival) -> list[Receipt]:
        return [await self._receive(arrival) for arrival in arrivals]

    async def _receive(self, arrival: Arrival) -> Receipt:
        assert arrival.message is not None
        text = arrival.message.text
        if text == "full":
            raise BusError("the disk is full")
        with self._log.open("a", encoding="utf-8") as log:
            line = {"key": arrival.event_key, "session": arrival.session_key, "sender": arrival.sender_id}
            log.write(json.dumps(line | {"lane": arrival.lane, "text": text}) + "\n")
        if text == "refuse":
            return Receipt.REFUSED
        self._tasks.start_soon(self._answer, arrival, text)
        return Receipt.STORED

    async def _answer(self, arrival: Arrival, text: str) -> None:
        if text == "/stop" and self.is_deaf:
            sys.stderr.write("deaf to /stop\n")
        elif text == "/stop":
            self._running.cancel()
            await self.send(arrival, PartKind.NOTICE, "Stopped.")
        elif text == "/status":
            await self.send(arrival, PartKind.NOTICE, "All is well.")
        elif text == "/resume":
            self.gate.set()
            await self.send(arrival, PartKind.NOTICE, "Opening.")
        elif text == "quit now":
            self.ending.cancel()
        else:
            async with self._turns:
                with anyio.CancelScope() as self._running:
                    await SCRIPTS.get(text, echo)(self, arrival)

    async def send(self, arrival: Arrival | None, kind: PartKind, text: str) -> None:
        turn = None if arrival is None or command_of(_text_of(arrival)) else arrival.event_key
        reply_to = arrival.source_id if arrival is not None and kind is not PartKind.MESSAGE else None
        address = Address("terminal", "main")
        await self.channel.send(OutboundPart(next(self._ids), address, text, kind, turn=turn, reply_to=reply_to))

    async def stream(self, arrival: Arrival, text: str, activity: str | None = None, part: int = 0) -> None:
        address = Address("terminal", "main")
        live = LivePart(address, arrival.event_key, part, reply_to=arrival.source_id, activity=activity)
        await self.channel.stream(live, text)


def _text_of(arrival: Arrival) -> str:
    return arrival.message.text if arrival.message is not None else ""


async def echo(inbox: ScriptedInbox, arrival: Arrival) -> None:
    await inbox.send(arrival, PartKind.ANSWER, f"You said: {_text_of(arrival)}")


async def hang(inbox: ScriptedInbox, arrival: Arrival) -> None:
    await inbox.stream(arrival, "Half an answer", "read_file notes.md")
    await anyio.sleep_forever()


async def deaf(inbox: ScriptedInbox, arrival: Arrival) -> None:
    inbox.is_deaf = True
    await hang(inbox, arrival)


async def gate(inbox: ScriptedInbox, arrival: Arrival) -> None:
    await inbox.stream(arrival, "I wait behind the gate.")
    await inbox.gate.wait()
    await inbox.send(arrival, PartKind.ANSWER, "I wait behind the gate. The gate is open.")


async def open_end(inbox: ScriptedInbox, arrival: Arrival) -> None:
    await inbox.stream(arrival, "```python\n" + "\n".join(f"line_{number} = {number}" for number in range(1, 40)))
    await anyio.sleep_forever()


async def fail(inbox: ScriptedInbox, arrival: Arrival) -> None:
    await inbox.send(arrival, PartKind.NOTICE, "The model gave no answer.")


async def ask(inbox: ScriptedInbox, arrival: Arrival) -> None:
    await inbox.stream(arrival, "", "ask_user")
    await inbox.send(arrival, PartKind.QUESTION, "May I?")
    inbox.asked = arrival


async def yes(inbox: ScriptedInbox, arrival: Arrival) -> None:
    assert inbox.asked is not None
    await inbox.send(arrival, PartKind.NOTICE, "Noted.")
    await inbox.stream(inbox.asked, "I may. So I begin", part=1)
    await inbox.gate.wait()
    await inbox.send(inbox.asked, PartKind.ANSWER, "I may. So I begin and end.")


async def long(inbox: ScriptedInbox, arrival: Arrival) -> None:
    for end in range(0, len(LONG), 97):
        await inbox.stream(arrival, LONG[:end])
        await anyio.lowlevel.checkpoint()
    await inbox.send(arrival, PartKind.ANSWER, LONG)


async def steps(inbox: ScriptedInbox, arrival: Arrival) -> None:
    await inbox.stream(arrival, "Let me look at the notes.")
    await inbox.stream(arrival, "Let me look at the notes.", "read_file notes.md")
    await inbox.stream(arrival, "\n\nThe notes say", part=1)
    await inbox.send(arrival, PartKind.ANSWER, "The notes say nothing.")


async def hostile(inbox: ScriptedInbox, arrival: Arrival) -> None:
    await inbox.stream(arrival, HOSTILE, "read \x1b]0;owned\x07 file")
    await inbox.send(None, PartKind.NOTICE, HOSTILE)
    await inbox.send(arrival, PartKind.ANSWER, f"{HOSTILE}\n\n```\n{HOSTILE}\n```")


async def tell(inbox: ScriptedInbox, arrival: Arrival) -> None:
    await inbox.stream(arrival, "", "message")
    await inbox.send(arrival, PartKind.MESSAGE, "Told by the tool.")
    await inbox.stream(arrival, "Told by the tool.", part=1)
    await inbox.send(arrival, PartKind.ANSWER, "")


async def unasked(inbox: ScriptedInbox, arrival: Arrival) -> None:
    await inbox.send(arrival, PartKind.ANSWER, "Later, then.")
    await inbox.send(None, PartKind.ANSWER, "It is later.")


async def early(inbox: ScriptedInbox, arrival: Arrival) -> None:
    await inbox.send(None, PartKind.ANSWER, "An answer of another day.")
    await inbox.send(arrival, PartKind.ANSWER, "Today's answer.")


async def flood(inbox: ScriptedInbox, arrival: Arrival) -> None:
    await inbox.send(arrival, PartKind.ANSWER, "water " * 200_000)


async def broken(inbox: ScriptedInbox, arrival: Arrival) -> None:
    sys.stderr.write("a library warns\n")
    await inbox.send(arrival, PartKind.ANSWER, "Half a pair: \ud83d and bytes \udcff.")


SCRIPTS: dict[str, Callable[[ScriptedInbox, Arrival], Awaitable[None]]] = {
    "ask": ask,
    "broken": broken,
    "deaf": deaf,
    "early": early,
    "fail": fail,
    "flood": flood,
    "gate": gate,
    "hang": hang,
    "hostile": hostile,
    "long": long,
    "open": open_end,
    "steps": steps,
    "tell": tell,
    "unasked": unasked,
    "yes": yes,
}


async def run(settings: TerminalSettings, log: Path) -> int:
    channel = TerminalChannel("terminal", settings)
    code = 3
    async with anyio.create_task_group() as tasks:
        inbox = ScriptedInbox(channel, log, tasks)
        with inbox.ending:
            try:
                await channel.run(inbox)
                code = 0
            except NanobeeError as error:
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
                code = 1
        tasks.cancel_scope.cancel()
    return code


if __name__ == "__main__":
    code = anyio.run(run, TerminalSettings.model_validate_json(sys.argv[1]), Path(sys.argv[2]))
    sys.stderr.write(f"ended with {code}\n")
    sys.exit(code)
