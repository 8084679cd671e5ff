"""People: say what the scripts of a round hold, each chat a task of its own, over all deaths of the gateway."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import anyio

from nanobee.testing.chaos.arena import Arena
from nanobee.testing.chaos.log import Said
from nanobee.testing.chaos.marks import BotText, TextKind, read_bot_text
from nanobee.testing.chaos.script import ChatScript, Step, Wait

WAIT_SECONDS = 40.0
"""How long a person waits before they give up."""


@dataclass(slots=True)
class People:
    """What was said in a round, and by whom it is heard."""

    arena: Arena
    scripts: tuple[ChatScript, ...]
    kills: int = 0
    """Of this round, as far as people know."""
    said: dict[int, Said] = field(default_factory=dict)
    """By mark."""
    talking: int = 0
    """Persons who have not said all."""
    _acknowledged: set[int] = field(default_factory=set)
    _read: int = 0

    @property
    def unsaid(self) -> tuple[int, ...]:
        """Marks that were not said."""
        return tuple(step.mark for script in self.scripts for step in script.steps if step.mark not in self.said)

    def heard(self, rows: Mapping[int, object]) -> tuple[Said, ...]:
        """All that was said; accepted is what the offset has moved past, or what has a row in the bus."""
        self._acknowledge()
        return tuple(
            replace(each, is_accepted=each.update_id in self._acknowledged or each.message_id in rows)
            for each in self.said.values()
        )

    @property
    def is_heard(self) -> bool:
        """Whether all was said, and the offset has moved past it."""
        self._acknowledge()
        return not self.talking and all(each.update_id in self._acknowledged for each in self.said.values())

    def _acknowledge(self) -> None:
        known = self.arena.telegram.updates.acknowledged
        self._acknowledged.update(known[self._read :])
        self._read = len(known)

    async def talk(self) -> None:
        """Say everything, all chats side by side."""
        self._read = len(self.arena.telegram.updates.acknowledged)
        self.talking = len(self.scripts)
        async with anyio.create_task_group() as tasks:
            for script in self.scripts:
                self.arena.telegram.private(script.chat_id)
                tasks.start_soon(self._talk_in, script)

    async def _talk_in(self, script: ChatScript) -> None:
        before: Step | None = None
        for step in script.steps:
            if not await self.arena.until(partial(self._may_say, script, step, before), WAIT_SECONDS):
                break
            if step.gap_seconds:
                await anyio.sleep(step.gap_seconds)
            self._say(script, step)
            before = step
        self.talking -= 1

    def _may_say(self, script: ChatScript, step: Step, before: Step | None) -> bool:
        if step.after_kill and not self.kills:
            return False
        if before is not None and before.is_control and not self._has_reply(script, before):
            return False
        match step.wait:
            case Wait.NOTHING:
                return True
            case Wait.KILL:
                return self.kills > 0
            case Wait.UP:
                return self.kills > 0 and self.arena.is_up
            case Wait.ASKED:
                return step.of in self.arena.brain.asked
            case Wait.QUESTION:
                return self._question(script, step) is not None

    def _has_reply(self, script: ChatScript, command: Step) -> bool:
        message_id = self.said[command.mark].message_id
        return any(each.reply_to == message_id for each in self.arena.delivered(script.chat_id))

    def _question(self, script: ChatScript, step: Step) -> tuple[int, BotText] | None:
        """The message that asks what the step answers."""
        for each in reversed(self.arena.delivered(script.chat_id)):
            text = read_bot_text(each.text)
            if text.kind is TextKind.QUESTION and text.marks == (step.of,) and text.wanted == step.wanted:
                return each.message_id, text
        return None

    def _say(self, script: ChatScript, step: Step) -> None:
        chat = self.arena.telegram.chats[script.chat_id]
        text, quoted = step.text, None
        if step.wait is Wait.QUESTION and (question := self._question(script, step)) is not None:
            text = text.format(id=question[1].question_id)
            quoted = chat.messages[question[0]] if step.quotes else None
        message = chat.says(text, reply_to=quoted)
        update = self.arena.telegram.updates.waiting[-1]
        self.said[step.mark] = Said(
            step.mark, script.chat_id, text, _whole(message, "message_id"), _whole(update, "update_id")
        )


def _whole(value: object, key: str) -> int:
    found = value.get(key) if isinstance(value, Mapping) else None
    assert isinstance(found, int), f"no {key}"
    return found
