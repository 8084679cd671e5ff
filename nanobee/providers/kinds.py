"""The kinds of provider that a configuration can name, and what makes a Model of each."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from nanobee.config import OpenAISettings, Settings
from nanobee.config_origin import KeyPath
from nanobee.config_source import validate_section
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
UNKNOWN_KIND = Phrase(
    'is no kind of provider; there are "openai" and "local"', '没有这种提供方；可用 "openai" 和 "local"'
)
NO_ADDRESS = Phrase(
    "is no address: http:// or https://, and a host are needed", "不是地址：需要 http:// 或 https:// 加主机名"
)
NO_PACKAGE = Phrase("the embedded model needs a package: {command}", "内置模型需要一个软件包：{command}")
NO_MODEL_FILE = Phrase("the embedded model has not been fetched: {command}", "内置模型还没有下载：{command}")
NO_OWN_FILE = Phrase("there is no such file", "没有这个文件")


def create_configured(settings: Settings, environ: Mapping[str, str], name: str, model_name: str) -> Model:
    """The Model of one entry of `providers`; a `local` one has its model already, whatever it is called.

    Raises:
        ConfigError: its keys are wrong, or what it needs is not on this machine.
    """
    section = settings.providers[name]
    if section.kind == "openai":
        return _create_openai(settings, name, model_name)
    if section.kind == "local":
        local_settings = validate_section(LocalSettings, section, f"providers.{name}")
        return create_local(settings, environ, name, local_settings, ("providers", name))
    raise refuse(settings, ("providers", name, "kind"), UNKNOWN_KIND)


def validate_openai(settings: Settings, name: str) -> OpenAISettings:
    """The settings of one entry of the kind `openai`.

    Raises:
        ConfigError: its keys are wrong.
    """
    openai_settings = validate_section(OpenAISettings, settings.providers[name], f"providers.{name}")
    if not is_address(openai_settings.base_url):
        raise refuse(settings, ("providers", name, "base_url"), NO_ADDRESS)
    return openai_settings


def _create_openai(settings: Settings, name: str, model_name: str) -> Model:
    openai_settings = validate_openai(settings, name)
    service = find_service_at(openai_settings.base_url)
    return create_openai(
        name,
        openai_settings,
        model_name,
        context_tokens=settings.agent.context_tokens,
        takes_forced_call=service is None or service.takes_forced_call,
        note=CONFIGURED_NOTE.say(settings.language, label=f"{name}/{model_name}"),
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
    settings: Settings, environ: Mapping[str, str], name: str, local_settings: LocalSettings, path: KeyPath
) -> Model:
    """A Model that runs beside the gateway, from the user's file or from the one that we bring.

    Raises:
        ConfigError: the file or the package that runs it is not here; `path` is what asked for it.
    """
    if not has_llama():
        raise refuse(settings, path, NO_PACKAGE, command=INSTALL_COMMAND)
    if local_settings.model_path is not None:
        file = _find_own_file(local_settings.model_path)
        if file is None:
            raise refuse(settings, (*path, "model_path"), NO_OWN_FILE)
        return _create_own(name, local_settings, settings.language, file)
    file = find_model(environ)
    if file is None:
        raise refuse(settings, path, NO_MODEL_FILE, command=GET_COMMAND)
    return _create_toy(name, local_settings, settings.language, file)


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
    fitted = settings.model_copy(update={"context_tokens": context_tokens})
    label = f"{name}/{SMOLLM2.name}"
    return Model(
        provider=LocalProvider(name, fitted, file, is_tiny=True),
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


def is_address(base_url: str) -> bool:
    """Whether requests can be sent there."""
    return base_url.startswith(("http://", "https://")) and bool(read_host(base_url))


def refuse(settings: Settings, path: KeyPath, phrase: Phrase, **fields: object) -> ConfigError:
    """A problem with the value at `path`, as an error."""
    return ConfigError([settings.origin.problem(path, phrase.say(settings.language, **fields))])


def refuse_variable(settings: Settings, name: str, phrase: Phrase) -> ConfigError:
    """A problem with an environment variable, as an error."""
    return ConfigError([ConfigProblem(name, "", phrase.say(settings.language))])
