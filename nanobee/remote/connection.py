"""Connection: the holder's end of a client's socket."""

import logging

import anyio

from nanobee.channel import Inbox, Receipt
from nanobee.errors import BusError
from nanobee.messages import Address, LivePart, OutboundPart
from nanobee.remote.backlog import Backlog
from nanobee.remote.channel import RemoteChannel
from nanobee.remote.frames import Frame, Leave, NotReceived, Receive, Received
from nanobee.remote.parts import Failed, Live, Outcome, Send, Shown
from nanobee.remote.pending import Pending, Posted
from nanobee.remote.wire import Wire, WireError

logger = logging.getLogger(__name__)

MAX_POSTED = 64
"""Parts that a client may leave unshown while others show them; then its connection is ended."""
LEAVE_SECONDS = 5.0
"""How long a client that leaves may take to tell of the parts that it was given."""
GONE = "the terminal ended before it said that it had shown this"
NOT_WRITTEN = "the terminal ended before it was given this"


class Connection:
    """One client that shows a session. Implements `nanobee.remote.channel.Client`."""

    def __init__(self, wire: Wire, address: Address, inbox: Inbox) -> None:
        self._wire = wire
        self._address = address
        self._inbox = inbox
        self._backlog = Backlog()
        self._posted = Posted()
        self._scope = anyio.CancelScope()

    def post(self, part: OutboundPart, pending: Pending) -> None:
        """Have the part shown, after those posted before."""
        if len(self._posted) >= MAX_POSTED:
            logger.warning("%s: a terminal shows nothing any more; its connection is ended", self._address.session_key)
            self._scope.cancel()
        self._posted.add(part, pending)
        self._backlog.put(Send(part))

    def grow(self, part: LivePart, text: str) -> None:
        """Have the latest state of a growing text shown."""
        self._backlog.put(Live(part, text))

    async def serve(self, channel: RemoteChannel) -> None:
        """Take and give until the client leaves or is gone."""
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._write)
                    with channel.attached(self._address, self):
                        await self._read()
                    self._withdraw()
                    with anyio.move_on_after(LEAVE_SECONDS):
                        await self._hear_rest()
                    tasks.cancel_scope.cancel()
        finally:
            self._withdraw()
            self._posted.fail(Outcome.UNKNOWN, GONE)

    async def _write(self) -> None:
        while True:
            frame = await self._backlog.get()
            try:
                await self._wire.send(frame)
            except WireError:
                self._scope.cancel()
                return

    async def _read(self) -> None:
        """Until the client says that it leaves, or is gone."""
        try:
            while not isinstance(frame := await self._wire.receive(), Leave):
                await self._take(frame)
        except WireError as error:
            logger.info("%s: a terminal is gone: %s", self._address.session_key, error)
            self._scope.cancel()

    async def _hear_rest(self) -> None:
        """Until the client has told of every part that it was given."""
        try:
            while len(self._posted):
                await self._take(await self._wire.receive())
        except WireError as error:
            logger.info("%s: a terminal is gone: %s", self._address.session_key, error)

    async def _take(self, frame: Frame) -> None:
        if isinstance(frame, Shown | Failed):
            self._posted.settle(frame)
        elif isinstance(frame, Receive):
            await self._receive(frame)

    async def _receive(self, frame: Receive) -> None:
        answer: Received | NotReceived
        arrivals = [said.to_arrival() for said in frame.said]
        if any(arrival.session_key != self._address.session_key for arrival in arrivals):
            answer = NotReceived(frame.number, "a client speaks in its own conversation only")
        else:
            try:
                receipts: list[Receipt] = await self._inbox.receive(*arrivals)
                answer = Received(frame.number, tuple(receipts))
            except BusError as error:
                answer = NotReceived(frame.number, str(error))
        self._backlog.put(answer)

    def _withdraw(self) -> None:
        """Take back the parts that were not begun to be written."""
        for frame in self._backlog.withdraw():
            if isinstance(frame, Send):
                self._posted.settle(Failed(frame.part.id, Outcome.NOT_SENT, NOT_WRITTEN))
