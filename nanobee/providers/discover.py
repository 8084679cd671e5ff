"""Which model answers: the configured one, else one behind a key, on this machine, or the embedded one."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit

from pydantic import SecretStr

from nanobee.config import BAD_KEY, NO_ADDRESS, AnthropicSettings, OpenAISettings, Settings, is_http_address
from nanobee.errors import ConfigError, ConfigProblem, ProviderError
from nanobee.phrases import Phrase
from nanobee.providers.anthropic_kind import create_anthropic
from nanobee.providers.catalog import (
    EMBEDDED_NAME,
    HOSTED_SERVICES,
    LOCAL_SERVERS,
    HostedService,
    LocalServer,
    find_service,
    find_service_at,
    read_host,
    read_variable,
)
from nanobee.providers.kind import ProviderEntry
from nanobee.providers.kinds import create_configured, list_usual_models
from nanobee.providers.local import LocalProvider, LocalSettings
from nanobee.providers.local_kind import GET_COMMAND, INSTALL_COMMAND, LocalKind, has_llama
from nanobee.providers.model import Model
from nanobee.providers.model_file import find_model
from nanobee.providers.openai_kind import create_openai, list_chat_models
from nanobee.providers.probe import Found, describe_model, find_local_server

MAX_SHOWN_MODELS = 5
"""Of a server's list, in an error."""

KEY_NOTE = Phrase(
    "{label} answers, with the key in {variable}; {model_variable} names another model.",
    "由 {label} 回答（密钥来自 {variable}）；可用 {model_variable} 换别的模型。",
)
URL_NOTE = Phrase(
    "{label} answers, at the address in {variable}; {model_variable} names another model.",
    "由 {label} 回答（地址来自 {variable}）；可用 {model_variable} 换别的模型。",
)
SERVER_NOTE = Phrase(
    "{label} answers, served by {title}; agent.model names another one.",
    "由 {label} 回答（由 {title} 提供）；可用 agent.model 换别的模型。",
)
NO_MODEL = Phrase(
    "no model was found: export an API key ({variables}, …), or start Ollama, or use the embedded toy: {commands}",
    "没有找到模型：请设置 API 密钥（{variables} 等），或启动 Ollama，或使用内置的玩具模型：{commands}",
)
MODEL_FORM = Phrase('is not of the form "provider/model"', '不是 "provider/model" 的形式')
UNKNOWN_PROVIDER = Phrase(
    "names a provider that is not in providers ({known})", "指定的提供方不在 providers 中（{known}）"
)
NO_KEY = Phrase(
    "needs the key in {variable}, or an entry {name} in providers",
    "需要 {variable} 中的密钥，或 providers 中的 {name} 一节",
)
SEVERAL_PROVIDERS = Phrase(
    "is not set, and there are several providers ({names}): name one as provider/model",
    "未设置，而 providers 有多个（{names}）：请写作 provider/model",
)
WHICH_MODEL = Phrase("is not set: name the model as {name}/MODEL", "未设置：请写作 {name}/模型名")
WHICH_OF = Phrase(
    "is not set: name the model as {name}/MODEL; it serves {served}", "未设置：请写作 {name}/模型名；可用的有 {served}"
)
NOTHING = Phrase("there are none", "空")


async def choose_model(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    servers: Sequence[LocalServer] | None = None,
    start: bool = True,
) -> Model:
    """The model that answers, with a line for people in its `note`.

    `agent.model` decides where it is set: an entry of `providers`, or a name from the catalog
    (`openai/…` with its key in the environment, `ollama/…`, `local/…`). With providers and no
    `agent.model`, the one provider is asked what it serves. Without both, the first of: a key in
    the environment, a server on this machine, the embedded model.

    Args:
        settings: the whole configuration.
        environ: where keys and addresses are looked for.
        servers: what to look for on this machine; None takes the catalog's.
        start: whether an embedded model begins to load at once.

    Raises:
        ConfigError: there is none, or what is configured cannot be used. It quotes no value.
    """
    search = _Search(settings, environ, find_servers(environ) if servers is None else servers)
    if settings.agent.model is not None:
        model = await search.create_named(settings.agent.model)
    elif settings.providers:
        model = await search.create_only()
    else:
        model = await search.create_found()
    if start and isinstance(model.provider, LocalProvider):
        with suppress(ProviderError):  # the first call tries again, and tells
            await model.provider.start()
    return model


def find_servers(environ: Mapping[str, str]) -> tuple[LocalServer, ...]:
    """The catalog's servers, with Ollama where its own variables put it."""
    return tuple(_place_ollama(server, environ) if server.is_ollama else server for server in LOCAL_SERVERS)


def _place_ollama(server: LocalServer, environ: Mapping[str, str]) -> LocalServer:
    tokens = read_variable(environ, "OLLAMA_CONTEXT_LENGTH")
    if tokens.isascii() and tokens.isdigit() and int(tokens) > 0:
        server = replace(server, default_context_tokens=int(tokens))
    address = read_variable(environ, "OLLAMA_HOST")
    if not address or address.startswith("https:"):
        return server
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        host, port = parts.hostname or server.host, parts.port or server.port
    except ValueError:
        return server
    # Where it listens on every address, it is reached on this machine's own.
    return replace(server, host=server.host if host in ("0.0.0.0", "::") else host, port=port)


class _Search:
    """One search: what there is to look at."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], servers: Sequence[LocalServer]) -> None:
        self._settings = settings
        self._environ = environ
        self._servers = servers

    async def create_named(self, label: str) -> Model:
        """The Model that `agent.model` names."""
        name, slash, model_name = label.partition("/")
        if not name.strip() or not slash or not model_name.strip():
            raise self._refuse_model(MODEL_FORM)
        if name in self._settings.providers:
            return create_configured(self._settings, self._environ, name, model_name)
        service = find_service(name)
        if service is not None:
            model = await self._create_hosted(service, model_name)
            if model is None:
                raise self._refuse_model(NO_KEY, variable=service.key_variables[0], name=name)
            return model
        for server in self._servers:
            if server.name == name:
                return self._create_served(Found(server, await describe_model(server, model_name)))
        if name == EMBEDDED_NAME:
            return self._create_embedded()
        known = ", ".join(self._settings.providers) or NOTHING.say(self._settings.language)
        raise self._refuse_model(UNKNOWN_PROVIDER, known=known)

    async def create_only(self) -> Model:
        """The Model of the one provider, when `agent.model` does not say which."""
        names = list(self._settings.providers)
        if len(names) > 1:
            raise self._refuse_model(SEVERAL_PROVIDERS, names=", ".join(names))
        model_name = await self._find_only_model(names[0])
        return create_configured(self._settings, self._environ, names[0], model_name)

    async def _find_only_model(self, name: str) -> str:
        """The one model that comes to mind; never a guess among several."""
        found = await list_usual_models(self._settings, self._environ, name)
        if len(found) == 1:
            return found[0]
        if not found:
            raise self._refuse_model(WHICH_MODEL, name=name)
        raise self._refuse_model(WHICH_OF, name=name, served=", ".join(found[:MAX_SHOWN_MODELS]))

    def _refuse_model(self, phrase: Phrase, **fields: object) -> ConfigError:
        reason = phrase.say(self._settings.language, **fields)
        return ConfigError([self._settings.origin.problem(("agent", "model"), reason)])

    def _refuse_variable(self, name: str, phrase: Phrase) -> ConfigError:
        return ConfigError([ConfigProblem(name, "", phrase.say(self._settings.language))])

    async def create_found(self) -> Model:
        """The first Model that is there without any configuration."""
        for service in HOSTED_SERVICES:
            model = await self._create_hosted(service)
            if model is not None:
                return model
        found = await find_local_server(self._servers)
        if found is not None:
            return self._create_served(found)
        if has_llama() and find_model(self._environ) is not None:
            return self._create_embedded()
        variables = ", ".join(service.key_variables[0] for service in HOSTED_SERVICES[:3])
        commands = GET_COMMAND if has_llama() else f"{INSTALL_COMMAND} && {GET_COMMAND}"
        raise self._refuse_model(NO_MODEL, variables=variables, commands=commands)

    async def _create_hosted(self, service: HostedService, model_name: str | None = None) -> Model | None:
        """The Model of a service, None where the environment has no key for it."""
        found_key = service.find_key(self._environ)
        variable, base_url = service.find_base_url(self._environ) or ("", service.base_url)
        is_relay = read_host(base_url) != read_host(service.base_url)
        if found_key is None and not (service.is_generic and is_relay):
            return None
        if variable and not is_http_address(base_url):
            raise self._refuse_variable(variable, NO_ADDRESS)
        key = None if found_key is None else SecretStr(found_key[1])
        if found_key is not None and not (found_key[1].isascii() and found_key[1].isprintable()):
            raise self._refuse_variable(found_key[0], BAD_KEY)
        name = model_name or read_variable(self._environ, service.model_variable)
        if not name:
            name = await _find_relayed_model(service, base_url, key) if is_relay else service.model
        note = (KEY_NOTE if found_key is not None else URL_NOTE).say(
            self._settings.language,
            label=f"{service.name}/{name}",
            variable=variable if found_key is None else found_key[0],
            model_variable=service.model_variable,
        )
        context_tokens = self._settings.agent.context_tokens
        if service.kind == "anthropic":
            settings = AnthropicSettings(kind="anthropic", base_url=base_url, api_key=key)
            return create_anthropic(service.name, settings, name, context_tokens=context_tokens, note=note)
        return create_openai(
            service.name,
            OpenAISettings(kind="openai", base_url=base_url.rstrip("/"), api_key=key),
            name,
            context_tokens=context_tokens,
            note=note,
        )

    def _create_served(self, found: Found) -> Model:
        server, served = found.server, found.model
        agent = self._settings.agent
        context_tokens = agent.context_tokens
        if "context_tokens" not in agent.model_fields_set:
            context_tokens = min(context_tokens, served.context_tokens or server.default_context_tokens)
        note = SERVER_NOTE.say(
            self._settings.language,
            label=f"{server.name}/{served.name}",
            title=f"{server.title} ({server.host}:{server.port})",
        )
        return create_openai(
            server.name,
            OpenAISettings(kind="openai", base_url=server.base_url, dialect=server.name),
            served.name,
            context_tokens=context_tokens,
            takes_tools=served.takes_tools is not False,
            note=note,
        )

    def _create_embedded(self) -> Model:
        own = LocalSettings(kind="local")
        entry = ProviderEntry(EMBEDDED_NAME, own, self._settings, self._environ, ("agent", "model"))
        return LocalKind().create_model(entry, "")


async def _find_relayed_model(service: HostedService, base_url: str, key: SecretStr | None) -> str:
    """The model to ask for at an address that is not the service's own."""
    actual = find_service_at(base_url)
    if actual is not None:
        return actual.model
    if service.kind != "openai":
        return service.model
    listed = await list_chat_models(base_url, None if key is None else key.get_secret_value())
    names = [model.name for model in listed]
    return service.model if service.model in names or not names else names[0]
