"""The kind `openai`: any server that speaks the OpenAI chat-completions API."""

from collections.abc import Sequence

from nanobee.config import OpenAISettings
from nanobee.phrases import Phrase
from nanobee.providers.catalog import find_service_at
from nanobee.providers.dialect import dialect_names, find_dialect
from nanobee.providers.kind import ProviderEntry, ProviderKind
from nanobee.providers.model import Model
from nanobee.providers.probe import ProbeError, ServedModel, list_models, rank_models

UNKNOWN_DIALECT = Phrase("is no dialect that is known; there are {names}", "没有这种方言；可用的有 {names}")


class OpenAIKind(ProviderKind[OpenAISettings]):
    """Makes Models behind an OpenAI-compatible address."""

    settings_type = OpenAISettings

    def create_model(self, entry: ProviderEntry[OpenAISettings], model_name: str) -> Model:
        """The Model of that name."""
        dialect = entry.settings.dialect
        if dialect is not None and dialect not in dialect_names():
            raise entry.refuse(UNKNOWN_DIALECT, "dialect", names=", ".join(dialect_names()))
        return create_openai(
            entry.name,
            entry.settings,
            model_name,
            context_tokens=entry.config.agent.context_tokens,
            note=entry.note(model_name),
        )

    async def list_usual_models(self, entry: ProviderEntry[OpenAISettings]) -> Sequence[str]:
        """A known service's usual model, else what the server serves."""
        settings = entry.settings
        service = find_service_at(settings.base_url)
        if service is not None:
            return (service.model,)
        key = settings.api_key.get_secret_value() if settings.api_key is not None else None
        return [model.name for model in await list_chat_models(settings.base_url, key)]


def create_openai(
    name: str,
    settings: OpenAISettings,
    model_name: str,
    *,
    context_tokens: int,
    takes_tools: bool = True,
    note: str,
) -> Model:
    """A Model behind an OpenAI-compatible address."""
    # Imported here: the HTTP library behind it costs more than all the rest of a start.
    from nanobee.providers.openai import OpenAIProvider

    netloc = settings.base_url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    return Model(
        provider=OpenAIProvider(name, settings),
        label=f"{name}/{model_name}",
        name=model_name,
        context_tokens=context_tokens,
        takes_tools=takes_tools,
        takes_forced_call=find_dialect(netloc, model_name, settings.dialect).takes_forced_call,
        note=note,
    )


async def list_chat_models(base_url: str, key: str | None) -> Sequence[ServedModel]:
    """The chat models that a server lists; none where it lists nothing."""
    try:
        return rank_models(await list_models(base_url, api_key=key))
    except ProbeError:
        return ()
