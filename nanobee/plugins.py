"""Plugins: what installed packages offer by entry point, found without importing them."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from nanobee.channel import Channel
from nanobee.errors import PluginError
from nanobee.phrases import Language, Phrase

PluginT = TypeVar("PluginT")

UNKNOWN = Phrase(
    "no installed package offers this kind of {noun}; there are: {kinds}",
    "没有已安装的包提供这种{noun}；可用的有：{kinds}",
)
UNKNOWN_CLOSE = Phrase(
    "no installed package offers this kind of {noun}; did you mean {close}?",
    "没有已安装的包提供这种{noun}；是否想写 {close}？",
)
TWICE = Phrase(
    "more than one package offers the {noun} {kind} ({packages}); uninstall all but one",
    "多个包提供{noun} {kind}（{packages}）；请只保留一个",
)
NO_SUBCLASS = Phrase(
    "the {noun} {kind} ({where}) is no subclass of {base}",
    "{noun} {kind}（{where}）不是 {base} 的子类",
)
BROKEN = Phrase("the {noun} {kind} ({where}) is broken: {fault}", "{noun} {kind}（{where}）已损坏：{fault}")
NEEDS = Phrase("the {noun} {kind} needs the package {package}{hint}", "{noun} {kind} 需要包 {package}{hint}")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PluginGroup(Generic[PluginT]):
    """All plugins of one sort."""

    name: str
    """The group of entry points; an entry's name is a `kind` in the configuration."""
    base: type[Any]
    """What each of them derives from."""
    noun: Phrase
    """What people call one."""

    def kinds(self) -> tuple[str, ...]:
        """The kinds that are installed, sorted. Imports none of them."""
        return tuple(self._offers())

    def load(self, kind: str, language: Language = "en") -> type[PluginT]:
        """Import the plugin of this kind; `language` is that of the errors.

        Raises:
            PluginError: nothing installed offers it, two packages do, or its package cannot be imported.
        """
        offers = self._offers().get(kind, ())
        if not offers:
            raise PluginError(self._unknown(kind, language))
        if len(offers) > 1:
            packages = ", ".join(sorted(entry.value for entry in offers))
            raise PluginError(self._say(TWICE, language, kind=kind, packages=packages))
        found = self._import(offers[0], language)
        if not (isinstance(found, type) and issubclass(found, self.base)):
            base = f"{self.base.__module__}.{self.base.__qualname__}"
            raise PluginError(self._say(NO_SUBCLASS, language, kind=kind, where=offers[0].value, base=base))
        return found

    def _offers(self) -> Mapping[str, tuple[EntryPoint, ...]]:
        """Entry points by kind. One offer found twice (an editable install beside a wheel) counts once."""
        offers: dict[str, dict[str, EntryPoint]] = {}
        for entry in entry_points(group=self.name):
            offers.setdefault(entry.name, {}).setdefault(entry.value, entry)
        return {kind: tuple(offers[kind].values()) for kind in sorted(offers)}

    def _unknown(self, kind: str, language: Language) -> str:
        """Does not quote the kind: it may be a value in the wrong place."""
        close = get_close_matches(kind, self.kinds(), n=1)
        if close:
            return self._say(UNKNOWN_CLOSE, language, close=close[0])
        return self._say(UNKNOWN, language, kinds=", ".join(self.kinds()) or "–")

    def _import(self, entry: EntryPoint, language: Language) -> object:
        try:
            return entry.load()
        except Exception as error:  # a plugin's module may fail in any way, and must break itself only
            if isinstance(error, ModuleNotFoundError) and _is_foreign(error, entry):
                hint = _find_extra(entry)
                raise PluginError(self._say(NEEDS, language, kind=entry.name, package=error.name, hint=hint)) from error
            logger.exception("%s %s (%s) cannot be imported", self.noun.en, entry.name, entry.value)
            fault = type(error).__name__
            text = self._say(BROKEN, language, kind=entry.name, where=entry.value, fault=fault)
            raise PluginError(text) from error

    def _say(self, phrase: Phrase, language: Language, **fields: object) -> str:
        return phrase.say(language, noun=self.noun.say(language), **fields)


CHANNELS: PluginGroup[Channel[Any]] = PluginGroup("nanobee.channels", Channel, Phrase("channel", "渠道"))


def find_channels() -> tuple[str, ...]:
    """The kinds of channel that are installed, sorted. Imports none of them."""
    return CHANNELS.kinds()


def load_channel(kind: str, language: Language = "en") -> type[Channel[Any]]:
    """Import the channel of this kind.

    Raises:
        PluginError: see `PluginGroup.load`.
    """
    return CHANNELS.load(kind, language)


def _is_foreign(error: ModuleNotFoundError, entry: EntryPoint) -> bool:
    """Whether what is missing is another package than the plugin's own."""
    package = entry.module.partition(".")[0]
    return error.name is not None and error.name.partition(".")[0] not in (package, "nanobee")


def _find_extra(entry: EntryPoint) -> str:
    """The command that brings what is missing, where the plugin's package has an extra of the kind's name."""
    if entry.dist is not None and entry.name in (entry.dist.metadata.get_all("Provides-Extra") or []):
        return f': pip install "{entry.dist.name}[{entry.name}]"'
    return ""
