"""Plugins: channels that installed packages offer by entry point, found without importing them."""

import logging
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from nanobee.channel import Channel
from nanobee.config import PluginSettings
from nanobee.config_source import validate_section
from nanobee.errors import ConfigError, PluginError
from nanobee.phrases import Language, Phrase

GROUP = "nanobee.channels"

UNKNOWN = Phrase(
    "no installed package offers this kind; installed are: {kinds}", "没有已安装的包提供这种类型；已安装：{kinds}"
)
UNKNOWN_CLOSE = Phrase(
    "no installed package offers this kind; did you mean {close}?", "没有已安装的包提供这种类型；是否想写 {close}？"
)

logger = logging.getLogger(__name__)


@cache
def _offers() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Entry points by kind. One offer found twice (an editable install beside a wheel) counts once."""
    offers: dict[str, dict[str, EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        offers.setdefault(entry.name, {}).setdefault(entry.value, entry)
    return {kind: tuple(offers[kind].values()) for kind in sorted(offers)}


def find_channels() -> tuple[str, ...]:
    """The kinds of channel that are installed, sorted. Imports none of them."""
    return tuple(_offers())


def load_channel(kind: str) -> type[Channel[Any]]:
    """Import the channel of this kind.

    Raises:
        PluginError: nothing installed offers it, two packages do, or its package cannot be imported.
    """
    offers = _offers().get(kind, ())
    if not offers:
        raise PluginError(_unknown(kind, "en"))
    if len(offers) > 1:
        packages = ", ".join(sorted(entry.value for entry in offers))
        raise PluginError(f"more than one package offers the channel {kind}: {packages}; uninstall all but one")
    channel_type = _load(offers[0])
    if not (isinstance(channel_type, type) and issubclass(channel_type, Channel)):
        raise PluginError(f"the channel {kind} ({offers[0].value}) is no subclass of nanobee.channel.Channel")
    return channel_type


def create_channel(name: str, section: PluginSettings) -> Channel[Any]:
    """The channel instance that a section of the configuration describes. No I/O.

    Raises:
        ConfigError: the kind is unknown, or a key of the section is wrong.
        PluginError: the kind is known, but its package cannot be imported.
    """
    if section.kind not in _offers():
        reason = _unknown(section.kind, section.origin.language)
        raise ConfigError([section.origin.problem(("kind",), reason)])
    channel_type = load_channel(section.kind)
    settings = validate_section(channel_type.settings_type, section, f"channels.{name}")
    return channel_type(name, settings)


def _unknown(kind: str, language: Language) -> str:
    close = get_close_matches(kind, find_channels(), n=1)
    if close:
        return UNKNOWN_CLOSE.say(language, close=close[0])
    return UNKNOWN.say(language, kinds=", ".join(find_channels()) or "–")


def _load(entry: EntryPoint) -> object:
    try:
        return entry.load()
    except ModuleNotFoundError as error:
        package = entry.module.partition(".")[0]
        missing = error.name or package
        if missing.partition(".")[0] != package:
            raise PluginError(_missing(entry, missing)) from error
        raise PluginError(f"the channel {entry.name} ({entry.value}) is broken: its module is missing") from error
    except Exception as error:  # a plugin's module may fail in any way, and must break itself only
        logger.exception("channel %s (%s) cannot be imported", entry.name, entry.value)
        raise PluginError(f"the channel {entry.name} ({entry.value}) is broken: {type(error).__name__}") from error


def _missing(entry: EntryPoint, module: str) -> str:
    what = f"the channel {entry.name} needs the package {module!r}, which is not installed"
    extras = entry.dist.metadata.get_all("Provides-Extra") or [] if entry.dist is not None else []
    if entry.dist is not None and entry.name in extras:
        return f'{what}: pip install "{entry.dist.name}[{entry.name}]"'
    return what
