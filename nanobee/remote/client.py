"""Client: a process beside the holder that talks through its socket."""

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import anyio

from nanobee.channel import AnyChannel, Arrival, Receipt
from nanobee.errors import BusError, NanobeeError, StateError
from nanobee.messages import Address
from nanobee.phrases import Language, Phrase
from nanobee.remote.backlog import Backlog
from nanobee.remote.frames import (
    VERSION,
    Frame,
    Hello,
    Leave,
    NotReceived,
    Receive,
    Received,
    Refusal,
    Refused,
    Said,
    Welcome,
)
from nanobee.remote.parts import Failed, Live, Send, Shown
from nanobee.remote.showing import show_frames
from nanobee.remote.socket_path import find_socket
from nanobee.remote.sockets import connect
from nanobee.remote.wire import Wire, WireError

logger = logging.getLogger(__name__)

GOES_THROUGH = Phrase("{model} answers, in the gateway (process {pid}).", "由网关（进程 {pid}）中的 {model} 回答。")
ENDED = Phrase(
    "The gateway (process {pid}) has ended. What it accepted is kept and goes on at its next start.",
    "网关（进程 {pid}）已结束。已接受的消息会保留，下次启动时继续处理。",
)
NO_WORD = Phrase(
    "The gateway did not say whether it has stored the message.",
    "网关没有说明是否已保存这条消息。",
)
OTHER_VERSION = Phrase(
    "Process {pid} runs another version of nanobee: restart it.", "进程 {pid} 运行的是另一版本的 nanobee：请重启它。"
)
TOO_MANY = Phrase("Process {pid} serves too many terminals already.", "进程 {pid} 已在服务过多的终端。")
NOT_HERE = Phrase(
    "Process {pid} runs a channel of its own under the name of this terminal. Stop it first.",
    "进程 {pid} 以此终端的名称运行着自己的渠道。请先停止它。",
)
NO_ANSWER = Phrase(
    "The state folder {state} is in use by process {pid}, which does not answer. Stop it first.",
    "状态文件夹 {state} 正被进程 {pid} 使用，但它没有应答。请先停止它。",
)
OWN_MODEL = Phrase(
    "Process {pid} holds the state folder and answers with {model}: leave --model out, or stop it first.",
    "进程 {pid} 占用状态文件夹并用 {model} 回答：请去掉 --model，或先停止它。",
)

ANSWER_SECONDS = 5.0
"""How long the holder may take to answer a hello."""
POLL_SECONDS = 0.05
"""Between two looks for a socket that is about to be opened: a folder tells of no new file."""
RECEIVE_SECONDS = 60.0
"""How long the holder may take to store a message, and the kernel to take a frame."""
LEAVE_SECONDS = 5.0
"""How long the holder may take to close the connection after a client has left."""
_REFUSALS = {
    Refusal.VERSION: OTHER_VERSION,
    Refusal.FULL: TOO_MANY,
    Refusal.SESSION: NOT_HERE,
}


class Link:
    """A connection to the holder. Implements `nanobee.channel.Inbox` for the channel that is shown over it."""

    def __init__(self, wire: Wire, welcome: Welcome, language: Language) -> None:
        self.pid = welcome.pid
        self.model = welcome.model
        self._wire = wire
        self._language: Language = language
        self._backlog = Backlog()
        self._numbers = count(1)
        self._answers: dict[int, Received | NotReceived] = {}
        self._answered = anyio.Event()
        self._lost = anyio.Event()

    async def receive(self, *arrivals: Arrival) -> list[Receipt]:
        """Hand arrivals to the holder; return once they are on its disk.

        Raises:
            BusError: nothing was stored, or the holder ended and did not say whether it was.
        """
        number = next(self._numbers)
        await self._send(Receive(number, tuple(Said.from_arrival(arrival) for arrival in arrivals)))
        with anyio.move_on_after(RECEIVE_SECONDS):
            while number not in self._answers and not self._lost.is_set():
                await self._answered.wait()
        answer = self._answers.pop(number, None)
        if answer is None:
            raise BusError(NO_WORD.say(self._language))
        if isinstance(answer, NotReceived):
            raise BusError(answer.reason)
        return list(answer.receipts)

    async def show(self, channel: AnyChannel) -> None:
        """Run a channel of this process on the holder's bus, until it is left.

        Raises:
            StateError: the holder has ended.
            NanobeeError: the channel's own.
        """
        failure: NanobeeError | None = None
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as running:
                tasks.start_soon(self._hear, running)
                tasks.start_soon(show_frames, channel, self._backlog, self._tell)
                try:
                    await channel.run(self)
                except NanobeeError as error:
                    failure = error
            await self._leave()
            tasks.cancel_scope.cancel()
        if running.cancelled_caught:
            raise StateError(ENDED.say(self._language, pid=self.pid))
        if failure is not None:
            raise failure

    async def _hear(self, running: anyio.CancelScope) -> None:
        """Take what the holder says until it is gone; then end what runs."""
        try:
            while True:
                frame = await self._wire.receive()
                if isinstance(frame, Send | Live):
                    self._backlog.put(frame)
                elif isinstance(frame, Received | NotReceived):
                    self._answers[frame.number] = frame
                    self._tell_waiting()
        except WireError as error:
            logger.info("process %d: %s", self.pid, error)
        self._lost.set()
        self._tell_waiting()
        running.cancel()

    def _tell_waiting(self) -> None:
        answered, self._answered = self._answered, anyio.Event()
        answered.set()

    async def _tell(self, told: Shown | Failed) -> None:
        with suppress(BusError):  # the holder is gone; it will take this part's outcome for unknown
            await self._send(told)

    async def _leave(self) -> None:
        """Take leave, so that the holder knows of each part whether it was shown."""
        with suppress(BusError):
            await self._send(Leave())
            with anyio.move_on_after(LEAVE_SECONDS):
                await self._lost.wait()

    async def _send(self, frame: Frame) -> None:
        """Send to the holder.

        Raises:
            BusError: it is gone.
        """
        try:
            with anyio.fail_after(RECEIVE_SECONDS):
                await self._wire.send(frame)
        except (WireError, TimeoutError) as error:
            raise BusError(ENDED.say(self._language, pid=self.pid)) from error


@asynccontextmanager
async def open_link(
    state: Path, address: Address, language: Language, wait_seconds: float = 0.0
) -> AsyncIterator[Link | None]:
    """A connection for a channel that shows `address`; None where no holder has answered in `wait_seconds`.

    Raises:
        StateError: the holder does not take us.
    """
    wire = await _connect(state)
    with anyio.move_on_after(wait_seconds):
        while wire is None:
            await anyio.sleep(POLL_SECONDS)
            wire = await _connect(state)
    if wire is None:
        yield None
        return
    try:
        answer = await _greet(wire, Hello(VERSION, address.session_key))
        if isinstance(answer, Refused):
            raise StateError(_REFUSALS[answer.refusal].say(language, pid=answer.pid))
        yield None if answer is None else Link(wire, answer, language)
    finally:
        await wire.aclose()


async def wake_holder(state: Path, session_key: str) -> bool:
    """Have the holder look at a session's rows again; False where no holder answers."""
    wire = await _connect(state)
    if wire is None:
        return False
    try:
        return isinstance(await _greet(wire, Hello(VERSION, session_key, wakes=True)), Welcome)
    finally:
        await wire.aclose()


async def _connect(state: Path) -> Wire | None:
    path = None if sys.platform == "win32" else find_socket(state)
    if path is None:
        return None
    try:
        with anyio.fail_after(ANSWER_SECONDS):
            return Wire(await connect(path))
    except (OSError, TimeoutError):
        return None  # what a killed holder left


async def _greet(wire: Wire, hello: Hello) -> Welcome | Refused | None:
    try:
        with anyio.fail_after(ANSWER_SECONDS):
            await wire.send(hello)
            answer = await wire.receive()
    except (WireError, TimeoutError):
        return None
    return answer if isinstance(answer, Welcome | Refused) else None
