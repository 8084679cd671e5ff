"""Script: what people say in the chats of a round, and what they wait for before they say it. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from random import Random

from nanobee.testing.chaos.marks import FREE, choice, said
from nanobee.testing.chaos.modes import Mode

MESSAGES_PER_CHAT = 8
STREAMED_PER_CHAT = 4
"""A streamed answer takes its time, so these chats are more, and shorter."""
MAX_GAP_SECONDS = 0.03
GAP_SHARE = 0.3
"""Of the messages that come after a gap; the others come with the one before."""


class Wait(Enum):
    """What a person waits for."""

    NOTHING = "nothing"
    KILL = "kill"
    """The gateway was killed in this round."""
    UP = "up"
    """The gateway was killed, and is up again."""
    QUESTION = "question"
    """A question of a message's turn is in the chat."""
    ASKED = "asked"
    """The model was asked about a message."""


@dataclass(frozen=True, slots=True)
class Step:
    """One message of a person."""

    mark: int
    text: str
    """`{id}` stands for the id of the question that it answers."""
    wait: Wait = Wait.NOTHING
    of: int = 0
    """The message that is waited for."""
    wanted: str = FREE
    """Which question of that message is meant."""
    after_kill: bool = False
    """It also waits for a kill."""
    quotes: bool = False
    """It quotes the question."""
    gap_seconds: float = 0.0

    @property
    def is_control(self) -> bool:
        """It overtakes, and a notice replies to it."""
        return self.text.startswith("/")


Scene = list[Step]
_MakeScene = Callable[[Iterator[int], str], Scene]


@dataclass(frozen=True, slots=True)
class ChatScript:
    """What one person says in one chat, a step after the other; after a command, when it has its reply."""

    chat_id: int
    steps: tuple[Step, ...]

    @property
    def file(self) -> str:
        """The name under which this chat's tools work."""
        return file_of(self.chat_id)


def file_of(chat_id: int) -> str:
    """The file of a chat, without its ending."""
    return f"c{chat_id}"


def build_scripts(mode: Mode, messages: int, first_mark: int, first_chat: int, random: Random) -> list[ChatScript]:
    """The scripts of a round, of `messages` messages together."""
    per_chat = STREAMED_PER_CHAT if mode is Mode.STREAMED else MESSAGES_PER_CHAT
    chats = max(1, -(-messages // per_chat))
    marks = count(first_mark)
    scripts = []
    for number in range(chats):
        size = messages // chats + (number < messages % chats)
        chat_id = first_chat + number
        scripts.append(ChatScript(chat_id, tuple(_build_steps(mode, size, marks, chat_id, random))))
    return scripts


def _build_steps(mode: Mode, size: int, marks: Iterator[int], chat_id: int, random: Random) -> Iterator[Step]:
    """About half of the scenes come before the kill, the others after it; answers come after one."""
    scenes: list[Scene] = []
    left = size
    while left:
        scene = _scene(mode, left, marks, chat_id, random)
        scenes.append(scene)
        left -= len(scene)
    early = max(1, len(scenes) // 2)
    second_half = Wait.KILL if random.random() < 0.5 else Wait.UP
    for number, scene in enumerate(scenes):
        for place, step in enumerate(scene):
            if number == early and place == 0:
                step = replace(step, wait=second_half) if step.wait is Wait.NOTHING else step
            elif number < early and step.wait is Wait.QUESTION:
                step = replace(step, after_kill=True)
            gap = random.uniform(0, MAX_GAP_SECONDS) if random.random() < GAP_SHARE else 0.0
            yield replace(step, gap_seconds=gap)


def _scene(mode: Mode, left: int, marks: Iterator[int], chat_id: int, random: Random) -> Scene:
    match mode:
        case Mode.SUSPENDED:
            fitting = [scene for size, scene in _QUESTIONS if size <= left]
            return random.choice(fitting)(marks, file_of(chat_id)) if fitting else _one(marks, "plain")
        case Mode.STOPPED:
            return _stopped(marks) if left >= _STOPPED_SIZE else _one(marks, "plain")
        case Mode.MULTI_PART:
            return _one(marks, "long", str(random.randint(2, 3)))
        case Mode.STREAMED:
            return _one(marks, "stream" if left % 2 == 0 else "plain")
        case Mode.TOOLS | Mode.STEERED:
            return _one(marks, mode.value, file_of(chat_id))
        case Mode.PLAIN:
            return _one(marks, "plain")


def _one(marks: Iterator[int], *words: str) -> Scene:
    mark = next(marks)
    return [Step(mark, said(mark, *words))]


def _free(marks: Iterator[int], file: str) -> Scene:
    """Any next message answers."""
    asking, answering = next(marks), next(marks)
    return [
        Step(asking, said(asking, "ask", FREE)),
        Step(answering, said(answering, "blue"), Wait.QUESTION, asking),
    ]


def _quoted(marks: Iterator[int], file: str) -> Scene:
    """The answer quotes the question."""
    asking, answering = next(marks), next(marks)
    return [
        Step(asking, said(asking, "ask", FREE)),
        Step(answering, said(answering, "red"), Wait.QUESTION, asking, quotes=True),
    ]


def _chosen(marks: Iterator[int], file: str) -> Scene:
    """The chat goes on talking before it answers with a choice."""
    asking, talking, answering = next(marks), next(marks), next(marks)
    wanted = choice(answering)
    return [
        Step(asking, said(asking, "ask", wanted)),
        Step(talking, said(talking, "plain"), Wait.QUESTION, asking, wanted),
        Step(answering, wanted, Wait.QUESTION, asking, wanted),
    ]


def _commanded(marks: Iterator[int], file: str) -> Scene:
    """`/answer` answers."""
    asking, answering = next(marks), next(marks)
    wanted = choice(answering)
    return [
        Step(asking, said(asking, "ask", wanted)),
        Step(answering, f"/answer {{id}} {wanted}", Wait.QUESTION, asking, wanted),
    ]


def _two(marks: Iterator[int], file: str) -> Scene:
    """Two questions of one step, answered in turn."""
    asking, first, second = next(marks), next(marks), next(marks)
    words = [choice(first), choice(second)]
    return [
        Step(asking, said(asking, "ask", *words)),
        Step(first, words[0], Wait.QUESTION, asking, words[0], quotes=True),
        Step(second, words[1], Wait.QUESTION, asking, words[1], quotes=True),
    ]


_QUESTIONS: tuple[tuple[int, _MakeScene], ...] = ((2, _free), (2, _quoted), (3, _chosen), (2, _commanded), (3, _two))
_STOPPED_SIZE = 5


def _stopped(marks: Iterator[int]) -> Scene:
    running, second, third, stop, resume = (next(marks) for _ in range(_STOPPED_SIZE))
    return [
        Step(running, said(running, "slow")),
        Step(second, said(second, "plain")),
        Step(third, said(third, "plain")),
        Step(stop, "/stop", Wait.ASKED, running),
        Step(resume, "/resume"),
    ]
