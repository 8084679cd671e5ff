"""The kinds of provider that a configuration can name, and what makes a Model of each."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from nanobee.config import OpenAISettings, ProviderSettings, Settings
from nanobee.errors import ConfigError, ConfigProblem
from nanobee.phrases import Language, Phrase
from nanobee.providers.catalog import find_service_at, read_host
from nanobee.providers.local import TINY_CONTEXT_TOKENS, LocalProvider, LocalSettings
from nanobee.providers.model import Model
from nanobee.providers.model_file import SMOLLM2, find_model

TINY_FILE_BYTES = 400 * 1024 * 1024
"""A model in a smaller file gets a short prompt and no tools: it cannot follow more."""
INSTALL_COMMAND = 'pip install "nanobee-gateway[local]"'
GET_COMMAND = "nanobee models get"

CONFIGURED_NOTE = Phrase("{label} answers.", "由 {label} 回答。")
TOY_NOTE = Phrase(
    "The toy model {label} answers; it knows little and makes things up. "
    "For a better one, export OPENAI_API_KEY (or another service's key) or start Ollama.",
    "由玩具模型 {label} 回答；它所知甚少，常会编造。"
    "想要更好的模型，请设置 OPENAI_API_KEY（或其他服务的密钥），或启动 Ollama。",
)

_AnySettings = TypeVar("_AnySettings", bound=ProviderSettings)


def create_configured(settings: Settings, environ: Mapping[str, str], name: str, model_name: str, source: str) -> Model:
    """The Model of one entry of `providers`.

    Raises:
        ConfigError: its keys are wrong, or what it needs is not on this machine.
    """
    kind = settings.providers[name].kind
    if kind == "openai":
        return _create_openai(settings, name, model_name, source)
    if kind == "local":
        local_settings = validate(LocalSettings, settings, name, source)
        return create_local(name, local_settings, settings.language, environ, source=source, path=f"providers.{name}")
    raise config_error(source, f"providers.{name}.kind", "is not a kind of provider; there are openai and local")


def validate(kind: type[_AnySettings], settings: Settings, name: str, source: str) -> _AnySettings:
    """One entry of `providers` as its own settings.

    Raises:
        ConfigError: one problem for each wrong key. No value is quoted, it may be a secret.
    """
    try:
        return kind.model_validate(dict(settings.providers[name].mapping()))
    except ValidationError as error:
        problems = [
            ConfigProblem(
                source, ".".join(["providers", name, *map(str, fault["loc"])]), _explain(fault["type"], fault["msg"])
            )
            for fault in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        raise ConfigError(problems) from None


def _explain(fault: str, message: str) -> str:
    """Pydantic's own sentence where it is built from the type alone."""
    if fault == "missing":
        return "this key is missing"
    if fault == "extra_forbidden":
        return "there is no such key"
    if message.startswith("Input should be"):
        return message.replace("Input should", "the value should", 1)
    return "the value is not valid"


def _create_openai(settings: Settings, name: str, model_name: str, source: str) -> Model:
    openai_settings = validate(OpenAISettings, settings, name, source)
    check_base_url(openai_settings.base_url, source, f"providers.{name}.base_url")
    service = find_service_at(openai_settings.base_url)
    label = f"{name}/{model_name}"
    return create_openai(
        name,
        openai_settings,
        model_name,
        context_tokens=settings.agent.context_tokens,
        takes_forced_call=service is None or service.takes_forced_call,
        note=CONFIGURED_NOTE.say(settings.language, label=label),
    )


def create_openai(
    name: str,
    settings: OpenAISettings,
    model_name: str,
    *,
    context_tokens: int,
    takes_tools: bool = True,
    takes_forced_call: bool = True,
    note: str,
) -> Model:
    """A Model behind an OpenAI-compatible address."""
    # Imported here: the HTTP library behind it costs more than all the rest of a start.
    from nanobee.providers.openai import OpenAIProvider

    return Model(
        provider=OpenAIProvider(name, settings),
        label=f"{name}/{model_name}",
        name=model_name,
        context_tokens=context_tokens,
        takes_tools=takes_tools,
        takes_forced_call=takes_forced_call,
        note=note,
    )


def create_local(
    name: str,
    settings: LocalSettings,
    language: Language,
    environ: Mapping[str, str],
    *,
    source: str,
    path: str,
) -> Model:
    """A Model that runs beside the gateway, from the user's file or from the one that we bring.

    Raises:
        ConfigError: the file or the package that runs it is not here.
    """
    if not has_llama():
        raise config_error(source, path, f"the embedded model needs a package: {INSTALL_COMMAND}")
    if settings.model_path is not None:
        file = _find_own_file(settings.model_path)
        if file is None:
            raise config_error(source, f"{path}.model_path", "there is no such file")
        return _create_own(name, settings, language, file)
    file = find_model(environ)
    if file is None:
        raise config_error(source, path, f"the embedded model has not been fetched: {GET_COMMAND}")
    return _create_toy(name, settings, language, file)


def _find_own_file(path: str) -> Path | None:
    try:
        file = Path(path).expanduser().absolute()
        return file if file.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


def _create_own(name: str, settings: LocalSettings, language: Language, file: Path) -> Model:
    is_tiny = file.stat().st_size < TINY_FILE_BYTES
    label = f"{name}/{file.stem}"
    return Model(
        provider=LocalProvider(name, settings, file, is_tiny=is_tiny),
        label=label,
        name=file.stem,
        context_tokens=settings.context_tokens,
        takes_tools=not is_tiny,
        takes_forced_call=False,
        is_tiny=is_tiny,
        note=CONFIGURED_NOTE.say(language, label=label),
    )


def _create_toy(name: str, settings: LocalSettings, language: Language, file: Path) -> Model:
    context_tokens = min(settings.context_tokens, TINY_CONTEXT_TOKENS)
    label = f"{name}/{SMOLLM2.name}"
    return Model(
        provider=LocalProvider(
            name, settings.model_copy(update={"context_tokens": context_tokens}), file, is_tiny=True
        ),
        label=label,
        name=SMOLLM2.name,
        context_tokens=context_tokens,
        takes_tools=False,
        takes_forced_call=False,
        is_tiny=True,
        note=TOY_NOTE.say(language, label=label),
    )


def has_llama() -> bool:
    """Whether the package that runs model files is installed; it is not loaded here."""
    return importlib.util.find_spec("xllamacpp") is not None


def check_base_url(base_url: str, source: str, path: str = "") -> None:
    """Refuse what is no address.

    Raises:
        ConfigError: it has no host, or is not for HTTP.
    """
    if not base_url.startswith(("http://", "https://")) or not read_host(base_url):
        raise config_error(source, path, "the address does not start with http:// or https:// and a host")


def config_error(source: str, path: str, reason: str) -> ConfigError:
    """One problem as an error."""
    return ConfigError([ConfigProblem(source, path, reason)])
