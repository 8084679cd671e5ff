"""Screen: what a way of using the terminal must do for the channel."""

from typing import Protocol

from nanobee.messages import LivePart, OutboundPart


class Screen(Protocol):
    """The keyboard, a pipe or one message on one side, what is printed on the other."""

    async def run(self) -> None:
        """Read and print until the person leaves or the one message is answered.

        Raises:
            ChannelError: the one message got no answer.
            BusError: the one message could not be stored.
        """
        ...

    async def show(self, part: OutboundPart) -> None:
        """Print one part of a reply, also while `run` is about to start.

        An answer without text ends its turn and prints nothing: the agent has said it by its
        `message` tool.
        """
        ...

    async def grow(self, part: LivePart, text: str) -> None:
        """Take the whole text so far of an answer under way."""
        ...
