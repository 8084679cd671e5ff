"""Greeting: the first words with a client, and what it is given then."""

import logging
import os

import anyio

from nanobee.messages import Address
from nanobee.remote.connection import Connection
from nanobee.remote.frames import VERSION, Hello, Refusal, Refused, Welcome
from nanobee.remote.server import HolderSide
from nanobee.remote.sockets import Streams
from nanobee.remote.wire import Wire, WireError

logger = logging.getLogger(__name__)

HELLO_SECONDS = 5.0
"""How long a client may take to say what it wants, and to take the answer."""


async def serve_client(streams: Streams, holder: HolderSide, *, is_full: bool) -> None:
    """Greet a client and serve it until it leaves; close its connection."""
    wire = Wire(streams)
    address = None
    try:
        with anyio.move_on_after(HELLO_SECONDS):
            address = await _greet(wire, holder, is_full=is_full)
        if address is not None and holder.channel is not None and holder.inbox is not None:
            await Connection(wire, address, holder.inbox).serve(holder.channel)
    except WireError as error:
        logger.info("a client is gone: %s", error)
    finally:
        await wire.aclose()


async def _greet(wire: Wire, holder: HolderSide, *, is_full: bool) -> Address | None:
    """Answer a client's hello; return what it wants to show, None where it shows nothing."""
    hello = await wire.receive()
    if not isinstance(hello, Hello):
        raise WireError("it did not say hello")
    refusal = _refusal(hello, holder, is_full=is_full)
    if refusal is not None:
        await wire.send(Refused(os.getpid(), refusal))
        return None
    if hello.wakes:
        holder.wake(hello.session_key)
    await wire.send(Welcome(os.getpid(), holder.model))
    return None if hello.wakes else Address.from_session_key(hello.session_key)


def _refusal(hello: Hello, holder: HolderSide, *, is_full: bool) -> Refusal | None:
    if hello.version != VERSION:
        return Refusal.VERSION
    if is_full:
        return Refusal.FULL
    try:
        address = Address.from_session_key(hello.session_key)
    except ValueError:
        return Refusal.SESSION
    is_shown = holder.channel is not None and address.channel == holder.channel.name
    return None if hello.wakes or is_shown else Refusal.SESSION
