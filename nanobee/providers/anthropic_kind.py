"""The kind `anthropic`: any server that speaks the Anthropic Messages API."""

from collections.abc import Sequence

from nanobee.config import AnthropicSettings
from nanobee.providers.anthropic_models import find_traits
from nanobee.providers.catalog import find_service_at
from nanobee.providers.kind import ProviderEntry, ProviderKind
from nanobee.providers.model import Model


class AnthropicKind(ProviderKind[AnthropicSettings]):
    """Makes Models behind the Messages API."""

    settings_type = AnthropicSettings

    def create_model(self, entry: ProviderEntry[AnthropicSettings], model_name: str) -> Model:
        """The Model of that name."""
        return create_anthropic(
            entry.name,
            entry.settings,
            model_name,
            context_tokens=entry.config.agent.context_tokens,
            note=entry.note(model_name),
        )

    async def list_usual_models(self, entry: ProviderEntry[AnthropicSettings]) -> Sequence[str]:
        """The service's usual model, at its own address."""
        service = find_service_at(entry.settings.base_url)
        return (service.model,) if service is not None and service.kind == "anthropic" else ()


def create_anthropic(
    name: str, settings: AnthropicSettings, model_name: str, *, context_tokens: int, note: str
) -> Model:
    """A Model behind the Messages API."""
    # Imported here: the HTTP library behind it costs more than all the rest of a start.
    from nanobee.providers.anthropic import AnthropicProvider

    traits = find_traits(model_name)
    return Model(
        provider=AnthropicProvider(name, settings),
        label=f"{name}/{model_name}",
        name=model_name,
        context_tokens=context_tokens,
        takes_forced_call=traits.takes_forced_call,
        takes_images=traits.takes_images,
        note=note,
    )
