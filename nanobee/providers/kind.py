"""ProviderKind: what a package implements to bring one more kind of model provider.

Derive one class from `ProviderKind` and name it in the package's entry points; the entry's name is
the `kind` that people write in their configuration:

    [project.entry-points."nanobee.providers"]
    acme = "nanobee_acme:AcmeKind"

The built-in kinds are found in the same way. A class is created without arguments; keep its module
light, and import what asks the server only in `create_model`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from nanobee.config import ProviderSettings, Settings
from nanobee.config_origin import KeyPath
from nanobee.errors import ConfigError
from nanobee.phrases import Phrase
from nanobee.providers.model import Model

SettingsT = TypeVar("SettingsT", bound=ProviderSettings)

ANSWERS = Phrase("{label} answers.", "由 {label} 回答。")


@dataclass(frozen=True, slots=True)
class ProviderEntry(Generic[SettingsT]):
    """One provider: its section of the configuration, validated, and what stands around it."""

    name: str
    """The provider's own name, in `name/model`."""
    settings: SettingsT
    config: Settings
    """The whole configuration."""
    environ: Mapping[str, str]
    path: KeyPath
    """Where the section stands; the key that asked for it where there is none."""

    def label(self, model_name: str) -> str:
        """`name/model`, as people read it."""
        return f"{self.name}/{model_name}"

    def note(self, model_name: str) -> str:
        """The line on start for a model that somebody has named."""
        return ANSWERS.say(self.config.language, label=self.label(model_name))

    def refuse(self, phrase: Phrase, *keys: str, **fields: object) -> ConfigError:
        """A problem with the section, or with the value at `keys` in it, as an error with its file and line."""
        reason = phrase.say(self.config.language, **fields)
        return ConfigError([self.config.origin.problem((*self.path, *keys), reason)])


class ProviderKind(ABC, Generic[SettingsT]):
    """Makes Models of one kind of provider."""

    settings_type: ClassVar[type[ProviderSettings]]
    """Validates the section; its docstrings and limits are what people are told."""

    @abstractmethod
    def create_model(self, entry: ProviderEntry[SettingsT], model_name: str) -> Model:
        """The Model of that name. Opens no connection.

        Raises:
            ConfigError: what the entry needs is not on this machine; see `ProviderEntry.refuse`.
        """

    async def list_usual_models(self, entry: ProviderEntry[SettingsT]) -> Sequence[str]:
        """Which models to think of when nobody names one; a single one is taken, several are shown."""
        return ()
