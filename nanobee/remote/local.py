"""LocalClient: the terminal of the holder's own process, as one client among others."""

import anyio

from nanobee.channel import AnyChannel, Inbox
from nanobee.errors import NanobeeError
from nanobee.messages import Address, LivePart, OutboundPart
from nanobee.remote.backlog import Backlog
from nanobee.remote.channel import RemoteChannel
from nanobee.remote.parts import Failed, Live, Outcome, Send, Shown
from nanobee.remote.pending import Pending, Posted
from nanobee.remote.showing import show_frames

LEAVE_SECONDS = 2.0
"""How long a terminal that was left may take to finish what it is showing."""


class LocalClient:
    """Shows what is posted through a channel of this process."""

    def __init__(self, channel: AnyChannel) -> None:
        self._channel = channel
        self._backlog = Backlog()
        self._posted = Posted()

    def post(self, part: OutboundPart, pending: Pending) -> None:
        """Have the part shown, after those posted before."""
        self._posted.add(part, pending)
        self._backlog.put(Send(part))

    def grow(self, part: LivePart, text: str) -> None:
        """Have the latest state of a growing text shown."""
        self._backlog.put(Live(part, text))

    async def show(self, remote: RemoteChannel, address: Address, inbox: Inbox) -> NanobeeError | None:
        """Run the channel until it is left; its failure is given back, to be raised outside of all task groups."""
        failure: NanobeeError | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._show_posted)
            with remote.attached(address, self):
                try:
                    await self._channel.run(inbox)
                except NanobeeError as error:
                    failure = error
            with anyio.move_on_after(LEAVE_SECONDS):
                await self._posted.wait_empty()
            tasks.cancel_scope.cancel()
        return failure

    async def _show_posted(self) -> None:
        async def tell(told: Shown | Failed) -> None:
            self._posted.settle(told)

        try:
            await show_frames(self._channel, self._backlog, tell)
        finally:
            self._posted.fail(Outcome.UNKNOWN, "the terminal was left while it showed this")
