"""Beside: a chat through the process that holds the state folder, or as that process where there is none."""

from functools import partial
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from nanobee.channel import AnyChannel
    from nanobee.config import Settings
    from nanobee.messages import Address

CONNECT_SECONDS = 5.0
"""How long a holder may take to open its socket: it may have begun a moment ago."""


def chat(settings: "Settings", address: "Address", *, names_model: bool) -> None:
    """Show the session `address` in this terminal until it is left.

    `names_model`: the command line asks for a model, which a running holder cannot change to.

    Raises:
        HeldError: another process holds the state folder, and does not answer.
        NanobeeError: what the chat failed of.
    """
    import anyio

    anyio.run(partial(_chat, settings, address, names_model=names_model))


async def _chat(settings: "Settings", address: "Address", *, names_model: bool) -> None:
    from nanobee.errors import HeldError
    from nanobee.remote.socket_path import find_socket

    if find_socket(settings.state) is not None:  # without one, the client's modules need not be loaded
        if await _chat_through_holder(settings, address, 0, names_model=names_model):
            return
    try:
        await _chat_as_holder(settings, address)
    except HeldError as error:
        if not await _chat_through_holder(settings, address, CONNECT_SECONDS, names_model=names_model):
            from nanobee.remote.client import NO_ANSWER

            text = NO_ANSWER.say(settings.language, state=settings.state, pid=error.pid or "?")
            raise HeldError(text, error.pid) from None


async def _chat_as_holder(settings: "Settings", address: "Address") -> None:
    from nanobee.gateway import run_gateway
    from nanobee.logs import recent_errors

    announce = partial(typer.echo, err=True)
    await run_gateway(settings, foreground=address, announce=announce, recent_errors=recent_errors)


async def _chat_through_holder(
    settings: "Settings", address: "Address", wait_seconds: float, *, names_model: bool
) -> bool:
    """Chat over the holder's socket; False where no holder answers."""
    from nanobee.errors import StateError
    from nanobee.remote.client import GOES_THROUGH, OWN_MODEL, open_link

    async with open_link(settings.state, address, settings.language, wait_seconds) as link:
        if link is None:
            return False
        if names_model:
            raise StateError(OWN_MODEL.say(settings.language, pid=link.pid, model=link.model))
        typer.echo(GOES_THROUGH.say(settings.language, pid=link.pid, model=link.model), err=True)
        await link.show(_create_channel(settings, address.channel))
        return True


def _create_channel(settings: "Settings", name: str) -> "AnyChannel":
    from nanobee.config_source import validate_section
    from nanobee.plugins import load_channel

    section = settings.channels[name]
    channel_type = load_channel(section.kind, settings.language)
    own = validate_section(channel_type.settings_type, section, f"channels.{name}")
    channel: AnyChannel = channel_type(name, own)
    return channel
