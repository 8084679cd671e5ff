"""Models: which model answers a conversation, which one stands in for it, and what each is asked with."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from nanobee.config import AgentSettings, ModelSettings
from nanobee.errors import ConfigError
from nanobee.providers.model import Model
from nanobee.providers.provider import Provider

logger = logging.getLogger(__name__)

CreateModel = Callable[[str], Awaitable[Model]]
"""Makes the Model that `provider/model` names; raises ConfigError where there is none."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A model with the settings of its preset."""

    name: str
    """What people call it: the preset's name, or `provider/model`."""
    model: Model
    settings: ModelSettings | None = None

    @property
    def provider_name(self) -> str:
        """The configured provider, which a breaker watches."""
        return self.model.label.partition("/")[0]

    @property
    def context_tokens(self) -> int:
        """The window, as far as it is used."""
        own = self.settings.context_tokens if self.settings else None
        return self.model.context_tokens if own is None else min(own, self.model.context_tokens)

    @property
    def takes_images(self) -> bool:
        """Whether it is shown pictures."""
        own = self.settings.vision if self.settings else None
        return self.model.takes_images if own is None else own


class Models:
    """Finds models by preset or label, each made once. Lives on the event loop."""

    def __init__(
        self, default: Model, settings: AgentSettings, presets: dict[str, ModelSettings], create: CreateModel
    ) -> None:
        self._settings = settings
        self._presets = presets
        self._create = create
        self._models = {default.label: default}
        preset = settings.model if settings.model in presets else None
        self.default = Choice(preset or default.label, default, presets.get(preset) if preset else None)

    @property
    def preset_names(self) -> Sequence[str]:
        """The configured presets, in their order."""
        return tuple(self._presets)

    async def find(self, name: str) -> Choice:
        """The model that a person names: a preset, or `provider/model`.

        Raises:
            ConfigError: there is none of that name.
        """
        if name == self.default.name:
            return self.default
        preset = self._presets.get(name)
        return Choice(name, await self._load(preset.model if preset else name), preset)

    async def chain(self, name: str | None) -> tuple[Choice, ...]:
        """The model of a conversation, then those that stand in for it."""
        choices = [await self._find_or_default(name)]
        for fallback in self._settings.fallbacks:
            try:
                choice = await self.find(fallback)
            except ConfigError as error:
                logger.error("agent.fallbacks: %s", error)
                continue
            if choice.model.label not in {each.model.label for each in choices}:
                choices.append(choice)
        return tuple(choices)

    async def _find_or_default(self, name: str | None) -> Choice:
        if name is None:
            return self.default
        try:
            return await self.find(name)
        except ConfigError as error:
            # It was chosen when the configuration still had it.
            logger.warning("%s; %s answers", error, self.default.name)
            return self.default

    async def _load(self, label: str) -> Model:
        model = self._models.get(label)
        if model is None:
            model = await self._create(label)
            model = replace(model, provider=self._shared_provider(model))
            self._models[label] = model
        return model

    def _shared_provider(self, model: Model) -> Provider:
        """One provider a name, so that its limit of calls holds over all its models."""
        name = model.label.partition("/")[0]
        for known in self._models.values():
            if known.label.partition("/")[0] == name and type(known.provider) is type(model.provider):
                return known.provider
        return model.provider

    async def aclose(self) -> None:
        """Close every provider that was made."""
        for provider in {id(model.provider): model.provider for model in self._models.values()}.values():
            await provider.aclose()
