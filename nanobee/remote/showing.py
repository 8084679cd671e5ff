"""Showing: a terminal takes what it has to show out of a backlog, in order."""

import logging
from collections.abc import Awaitable, Callable

from nanobee.channel import AnyChannel
from nanobee.errors import ChannelError, RefusedError, UnknownOutcomeError
from nanobee.messages import OutboundPart
from nanobee.remote.backlog import Backlog
from nanobee.remote.parts import Failed, Live, Outcome, Send, Shown

logger = logging.getLogger(__name__)

Tell = Callable[[Shown | Failed], Awaitable[None]]


async def show_frames(channel: AnyChannel, backlog: Backlog, tell: Tell) -> None:
    """Show parts and growing texts through the channel until cancelled, and tell what became of each part."""
    while True:
        frame = await backlog.get()
        if isinstance(frame, Live):
            await _grow(channel, frame)
        elif isinstance(frame, Send):
            await tell(await _show(channel, frame.part))


async def _show(channel: AnyChannel, part: OutboundPart) -> Shown | Failed:
    try:
        return Shown(part.id, await channel.send(part))
    except UnknownOutcomeError as error:
        return Failed(part.id, Outcome.UNKNOWN, str(error))
    except RefusedError as error:
        return Failed(part.id, Outcome.REFUSED, str(error))
    except ChannelError as error:
        return Failed(part.id, Outcome.NOT_SENT, str(error))
    except Exception as error:
        # A part that the terminal cannot show must not end the showing of all others.
        logger.exception("channel %s failed on part %d", channel.name, part.id)
        return Failed(part.id, Outcome.REFUSED, f"the channel failed: {type(error).__name__}")


async def _grow(channel: AnyChannel, frame: Live) -> None:
    try:
        await channel.stream(frame.part, frame.text)
    except Exception:
        # A growing text is best effort; the final one still comes.
        logger.exception("channel %s failed to show a growing text", channel.name)
