"""The kinds of provider that are installed, and what makes a Model of an entry of `providers`."""

from collections.abc import Mapping, Sequence
from typing import Any

from nanobee.config import Settings
from nanobee.config_source import validate_section
from nanobee.errors import ConfigError, PluginError
from nanobee.phrases import Phrase
from nanobee.plugins import PluginGroup
from nanobee.providers.kind import ProviderEntry, ProviderKind
from nanobee.providers.model import Model

PROVIDERS: PluginGroup[ProviderKind[Any]] = PluginGroup(
    "nanobee.providers", ProviderKind, Phrase("model provider", "模型提供方")
)


def create_configured(settings: Settings, environ: Mapping[str, str], name: str, model_name: str) -> Model:
    """The Model of one entry of `providers`.

    Raises:
        ConfigError: its keys are wrong, its kind is not installed, or what it needs is not on this machine.
    """
    kind, entry = _load(settings, environ, name)
    return kind.create_model(entry, model_name)


async def list_usual_models(settings: Settings, environ: Mapping[str, str], name: str) -> Sequence[str]:
    """Which models of one entry of `providers` to think of when nobody names one.

    Raises:
        ConfigError: its keys are wrong, or its kind is not installed.
    """
    kind, entry = _load(settings, environ, name)
    return await kind.list_usual_models(entry)


def _load(settings: Settings, environ: Mapping[str, str], name: str) -> tuple[ProviderKind[Any], ProviderEntry[Any]]:
    section = settings.providers[name]
    try:
        kind = PROVIDERS.load(section.kind, settings.language)()
    except PluginError as error:
        raise ConfigError([settings.origin.problem(("providers", name, "kind"), str(error))]) from error
    own = validate_section(kind.settings_type, section, f"providers.{name}")
    return kind, ProviderEntry(name, own, settings, environ, ("providers", name))
