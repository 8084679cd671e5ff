"""Plugins: channels that installed packages offer by entry point, found without importing them."""

import logging
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from nanobee.channel import Channel
from nanobee.errors import PluginError
from nanobee.phrases import Language, Phrase

GROUP = "nanobee.channels"

UNKNOWN = Phrase(
    "no installed package offers this kind of channel; there are: {kinds}",
    "没有已安装的包提供这种渠道；可用的有：{kinds}",
)
UNKNOWN_CLOSE = Phrase(
    "no installed package offers this kind of channel; did you mean {close}?",
    "没有已安装的包提供这种渠道；是否想写 {close}？",
)
TWICE = Phrase(
    "more than one package offers the channel {kind} ({packages}); uninstall all but one",
    "多个包提供渠道 {kind}（{packages}）；请只保留一个",
)
NO_CHANNEL = Phrase(
    "the channel {kind} ({where}) is no subclass of nanobee.channel.Channel",
    "渠道 {kind}（{where}）不是 nanobee.channel.Channel 的子类",
)
BROKEN = Phrase("the channel {kind} ({where}) is broken: {fault}", "渠道 {kind}（{where}）已损坏：{fault}")
NEEDS = Phrase("the channel {kind} needs the package {package}{hint}", "渠道 {kind} 需要包 {package}{hint}")

logger = logging.getLogger(__name__)


def _offers() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Entry points by kind. One offer found twice (an editable install beside a wheel) counts once."""
    offers: dict[str, dict[str, EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        offers.setdefault(entry.name, {}).setdefault(entry.value, entry)
    return {kind: tuple(offers[kind].values()) for kind in sorted(offers)}


def find_channels() -> tuple[str, ...]:
    """The kinds of channel that are installed, sorted. Imports none of them."""
    return tuple(_offers())


def load_channel(kind: str, language: Language = "en") -> type[Channel[Any]]:
    """Import the channel of this kind; `language` is that of the errors.

    Raises:
        PluginError: nothing installed offers it, two packages do, or its package cannot be imported.
    """
    offers = _offers().get(kind, ())
    if not offers:
        raise PluginError(_unknown(kind, language))
    if len(offers) > 1:
        packages = ", ".join(sorted(entry.value for entry in offers))
        raise PluginError(TWICE.say(language, kind=kind, packages=packages))
    channel_type = _load(offers[0], language)
    if not (isinstance(channel_type, type) and issubclass(channel_type, Channel)):
        raise PluginError(NO_CHANNEL.say(language, kind=kind, where=offers[0].value))
    return channel_type


def _unknown(kind: str, language: Language) -> str:
    """Does not quote the kind: it may be a value in the wrong place."""
    close = get_close_matches(kind, find_channels(), n=1)
    if close:
        return UNKNOWN_CLOSE.say(language, close=close[0])
    return UNKNOWN.say(language, kinds=", ".join(find_channels()) or "–")


def _load(entry: EntryPoint, language: Language) -> object:
    try:
        return entry.load()
    except Exception as error:  # a plugin's module may fail in any way, and must break itself only
        if isinstance(error, ModuleNotFoundError) and _is_foreign(error, entry):
            raise PluginError(_missing(entry, str(error.name), language)) from error
        logger.exception("channel %s (%s) cannot be imported", entry.name, entry.value)
        fault = type(error).__name__
        raise PluginError(BROKEN.say(language, kind=entry.name, where=entry.value, fault=fault)) from error


def _is_foreign(error: ModuleNotFoundError, entry: EntryPoint) -> bool:
    """Whether what is missing is another package than the plugin's own."""
    package = entry.module.partition(".")[0]
    return error.name is not None and error.name.partition(".")[0] not in (package, "nanobee")


def _missing(entry: EntryPoint, module: str, language: Language) -> str:
    hint = ""
    if entry.dist is not None and entry.name in (entry.dist.metadata.get_all("Provides-Extra") or []):
        hint = f': pip install "{entry.dist.name}[{entry.name}]"'
    return NEEDS.say(language, kind=entry.name, package=module, hint=hint)
