"""Which model answers: the order, what each way gives, and what is said to people."""

import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from nanobee.chat import ChatMessage, CompletionRequest
from nanobee.config import AgentSettings, PluginSettings, Settings
from nanobee.config_source import load_settings
from nanobee.errors import ConfigError, ConfigProblem
from nanobee.providers.anthropic import AnthropicProvider
from nanobee.providers.catalog import HOSTED_SERVICES, LOCAL_SERVERS, HostedService, LocalServer
from nanobee.providers.discover import choose_model, find_servers
from nanobee.providers.local import LocalProvider
from nanobee.providers.local_kind import TINY_FILE_BYTES
from nanobee.providers.model import Model
from nanobee.providers.model_file import SMOLLM2
from nanobee.providers.openai import OpenAIProvider
from nanobee.testing.anthropic_server import AnthropicServer
from nanobee.testing.model_server import ModelServer

CANARY = "sk-canary-1234567890"
HELLO = (ChatMessage("user", "hello"),)


@asynccontextmanager
async def open_model(
    settings: Settings, environ: Mapping[str, str] | None = None, servers: tuple[LocalServer, ...] = ()
) -> AsyncGenerator[Model]:
    """The chosen model, with no server on this machine unless some are named."""
    model = await choose_model(settings, environ or {}, servers=servers, start=False)
    try:
        yield model
    finally:
        await model.provider.aclose()


def port_of(server: ModelServer) -> int:
    return int(server.base_url.removesuffix("/v1").rpartition(":")[2])


def local_server(server: ModelServer, name: str = "vllm") -> LocalServer:
    return LocalServer(name=name, title=name.title(), port=port_of(server))


def write_model(folder: Path, size_bytes: int = SMOLLM2.size_bytes) -> dict[str, str]:
    """A cache with a file of the right name and size, which nobody loads here."""
    file = folder / "models" / SMOLLM2.file_name
    file.parent.mkdir()
    with file.open("wb") as target:
        target.truncate(size_bytes)
    return {"NANOBEE_CACHE": str(folder)}


def provider(**keys: object) -> PluginSettings:
    return PluginSettings.model_validate({"kind": "openai", **keys})


def one_problem(error: ConfigError) -> ConfigProblem:
    (problem,) = error.problems
    assert CANARY not in str(error)
    return problem


async def refused(
    settings: Settings, environ: Mapping[str, str] | None = None, servers: tuple[LocalServer, ...] = ()
) -> ConfigProblem:
    with pytest.raises(ConfigError) as caught:
        await choose_model(settings, environ or {}, servers=servers)
    return one_problem(caught.value)


async def ask_key(model: Model, server: ModelServer) -> str | None:
    """What the server is sent as the key."""
    await model.provider.complete(CompletionRequest(model.name, HELLO))
    return server.requests[-1].headers.get("authorization")


@pytest.fixture
def without_llama(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is not installed, as far as imports can tell."""
    monkeypatch.setitem(sys.modules, "xllamacpp", None)


async def test_what_is_configured_beats_all_that_could_be_found(tmp_path: Path) -> None:
    environ = {"OPENAI_API_KEY": CANARY, **write_model(tmp_path)}
    async with ModelServer() as server:
        settings = Settings(
            providers={"main": provider(base_url=server.base_url, api_key="sk-configured")},
            agent=AgentSettings(model="main/my/model", context_tokens=9_000),
        )
        async with open_model(settings, environ, (local_server(server),)) as model:
            assert (model.label, model.name, model.context_tokens) == ("main/my/model", "my/model", 9_000)
            assert model.note == "main/my/model answers."
            assert await ask_key(model, server) == "Bearer sk-configured"


async def test_a_key_beats_a_server_and_a_server_beats_the_embedded_model(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason='not installed: pip install "nanobee-gateway[local]"')
    embedded = write_model(tmp_path)
    async with ModelServer() as server:
        servers = (local_server(server),)
        async with open_model(Settings(), {**embedded, "DEEPSEEK_API_KEY": "sk-1"}, servers) as model:
            assert model.label == "deepseek/deepseek-flash"
        async with open_model(Settings(), embedded, servers) as model:
            assert model.label == "vllm/test-model"
        async with open_model(Settings(), embedded) as model:
            assert model.label == f"local/{SMOLLM2.name}"


SERVICE_KEYS = [(service, variable) for service in HOSTED_SERVICES for variable in service.key_variables]


@pytest.mark.parametrize(("service", "variable"), SERVICE_KEYS, ids=[variable for _, variable in SERVICE_KEYS])
async def test_each_services_key_is_found_and_never_shown(service: HostedService, variable: str) -> None:
    async with open_model(Settings(), {variable: f" {CANARY}\n"}) as model:
        assert model.label == f"{service.name}/{service.model}"
        assert variable in model.note
        assert service.model_variable in model.note
        assert CANARY not in repr(model)
        kind = AnthropicProvider if service.name == "anthropic" else OpenAIProvider
        assert isinstance(model.provider, kind)


async def test_the_first_service_of_the_list_wins_and_an_empty_key_is_none() -> None:
    keys = {"OPENAI_API_KEY": "  ", "OPENROUTER_API_KEY": "sk-2", "ANTHROPIC_API_KEY": "sk-1"}
    async with open_model(Settings(), keys) as model:
        assert model.label.startswith("anthropic/")


async def test_a_variable_names_another_model_of_the_service() -> None:
    async with open_model(Settings(), {"MISTRAL_API_KEY": "sk-1", "MISTRAL_MODEL": "codestral-latest"}) as model:
        assert model.label == "mistral/codestral-latest"


async def test_a_services_other_address_gets_its_key_and_its_usual_model_where_it_has_that() -> None:
    async with ModelServer(models=["other", "qwen-plus"]) as server:
        environ = {"DASHSCOPE_API_KEY": "sk-1", "DASHSCOPE_BASE_URL": f"{server.base_url}/"}
        async with open_model(Settings(), environ) as model:
            assert model.label == "dashscope/qwen-plus"
            assert await ask_key(model, server) == "Bearer sk-1"


async def test_openais_address_alone_is_enough_and_its_server_names_the_model() -> None:
    async with ModelServer(models=["text-embedding-x", "qwen3", "other"]) as server:
        async with open_model(Settings(), {"OPENAI_BASE_URL": server.base_url}) as model:
            assert model.label == "openai/qwen3"
            assert "OPENAI_BASE_URL" in model.note
            assert await ask_key(model, server) is None


async def test_openais_address_of_another_known_service_gets_that_services_usual_model() -> None:
    environ = {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "https://api.z.ai/api/paas/v4/"}
    async with open_model(Settings(), environ) as model:
        assert (model.label, model.takes_forced_call) == ("openai/glm-4.7", False)


async def test_openais_own_address_needs_a_key() -> None:
    assert "no model was found" in (await refused(Settings(), {"OPENAI_BASE_URL": "https://api.openai.com/v1"})).reason


async def test_the_messages_apis_own_variable_names_a_relay_of_that_api() -> None:
    async with AnthropicServer() as server:
        environ = {"ANTHROPIC_API_KEY": CANARY, "ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_MODEL": "claude-x-9"}
        async with open_model(Settings(), environ) as model:
            assert (model.label, model.takes_forced_call) == ("anthropic/claude-x-9", True)
            await model.provider.complete(CompletionRequest(model.name, HELLO))
        assert server.requests[0].headers["x-api-key"] == CANARY


async def test_another_apis_address_keeps_the_api_of_its_variable() -> None:
    environ = {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "https://api.anthropic.com/v1"}
    async with open_model(Settings(), environ) as model:
        assert isinstance(model.provider, OpenAIProvider)
        assert model.name == "claude-haiku-5-5"


@pytest.mark.parametrize("address", ["localhost:8000/v1", "https://", f"mailto:{CANARY}", "http://[::1"])
async def test_an_address_in_the_environment_that_is_none_is_refused_by_its_name(address: str) -> None:
    problem = await refused(Settings(), {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": address})
    assert (problem.source, problem.path) == ("OPENAI_BASE_URL", "")


@pytest.mark.parametrize("key", [f"{CANARY}\nX-Evil: 1", f"{CANARY}ключ"])
async def test_a_key_that_cannot_be_sent_is_refused_by_its_name(key: str) -> None:
    problem = await refused(Settings(), {"GEMINI_API_KEY": key})
    assert (problem.source, problem.reason) == ("GEMINI_API_KEY", "holds characters that no key has")


async def test_a_server_on_this_machine_answers_without_a_key_and_within_its_window() -> None:
    async with ModelServer() as server:
        async with open_model(Settings(), servers=(local_server(server, "lmstudio"),)) as model:
            assert model.context_tokens == 8_192
            assert model.note.startswith("lmstudio/test-model answers, served by Lmstudio (127.0.0.1:")
            assert await ask_key(model, server) is None
        settings = Settings(agent=AgentSettings(context_tokens=20_000))
        async with open_model(settings, servers=(local_server(server),)) as model:
            assert model.context_tokens == 20_000


@pytest.mark.parametrize(
    ("environ", "host", "port"),
    [
        ({}, "127.0.0.1", 11434),
        ({"OLLAMA_HOST": "0.0.0.0"}, "127.0.0.1", 11434),
        ({"OLLAMA_HOST": "0.0.0.0:12000"}, "127.0.0.1", 12000),
        ({"OLLAMA_HOST": "http://[::]:12000"}, "127.0.0.1", 12000),
        ({"OLLAMA_HOST": ":12000"}, "127.0.0.1", 12000),
        ({"OLLAMA_HOST": "http://192.168.1.5:11434/"}, "192.168.1.5", 11434),
        ({"OLLAMA_HOST": "https://ollama.example.com"}, "127.0.0.1", 11434),
        ({"OLLAMA_HOST": "127.0.0.1:port"}, "127.0.0.1", 11434),
    ],
)
def test_ollama_is_looked_for_where_its_own_variable_puts_it(environ: dict[str, str], host: str, port: int) -> None:
    ollama, *others = find_servers(environ)
    assert (ollama.host, ollama.port, ollama.is_ollama) == (host, port, True)
    assert others == list(LOCAL_SERVERS[1:])


@pytest.mark.parametrize(("text", "tokens"), [("16384", 16_384), ("", 4_096), ("many", 4_096), ("0", 4_096)])
def test_ollamas_window_is_what_its_own_variable_says(text: str, tokens: int) -> None:
    assert find_servers({"OLLAMA_CONTEXT_LENGTH": text})[0].default_context_tokens == tokens


async def test_the_embedded_model_is_a_toy_and_says_so_in_both_languages(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason='not installed: pip install "nanobee-gateway[local]"')
    environ = write_model(tmp_path)
    async with open_model(Settings(), environ) as model:
        assert isinstance(model.provider, LocalProvider)
        assert (model.is_tiny, model.takes_tools, model.takes_forced_call) == (True, False, False)
        assert model.context_tokens == 2_048
        assert "toy model local/smollm2-135m" in model.note
        assert "OPENAI_API_KEY" in model.note
        assert "Ollama" in model.note
        assert "\n" not in model.note
    async with open_model(Settings(language="zh"), environ) as model:
        assert model.note.startswith("由玩具模型 local/smollm2-135m 回答")


async def test_without_any_model_the_shortest_ways_out_are_told(without_llama: None, tmp_path: Path) -> None:
    problem = await refused(Settings(), {"NANOBEE_CACHE": str(tmp_path)})
    assert problem.path == "agent.model"
    for way in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "start Ollama", "nanobee models get"):
        assert way in problem.reason
    assert 'pip install "nanobee-gateway[local]"' in problem.reason
    assert "没有找到模型" in (await refused(Settings(language="zh"), {"NANOBEE_CACHE": str(tmp_path)})).reason


async def test_with_the_package_only_the_file_is_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason='not installed: pip install "nanobee-gateway[local]"')
    environ = write_model(tmp_path, SMOLLM2.size_bytes - 1)
    reason = (await refused(Settings(), environ)).reason
    assert "nanobee models get" in reason
    assert "pip install" not in reason


async def test_the_file_alone_is_not_enough(without_llama: None, tmp_path: Path) -> None:
    environ = write_model(tmp_path)
    assert "pip install" in (await refused(Settings(), environ)).reason
    named = Settings(agent=AgentSettings(model="local/smollm2"))
    assert 'needs a package: pip install "nanobee-gateway[local]"' in (await refused(named, environ)).reason


# Names of the catalog in agent.model, without an entry in providers


async def test_a_catalog_name_takes_its_key_from_the_environment() -> None:
    settings = Settings(agent=AgentSettings(model="openrouter/deepseek/deepseek-flash"))
    keys = {"OPENAI_API_KEY": "sk-1", "OPENROUTER_API_KEY": "sk-2", "OPENROUTER_MODEL": "other"}
    async with open_model(settings, keys) as model:
        assert (model.label, model.name) == ("openrouter/deepseek/deepseek-flash", "deepseek/deepseek-flash")
    problem = await refused(settings, {"OPENAI_API_KEY": "sk-1"})
    assert problem.path == "agent.model"
    assert "OPENROUTER_API_KEY" in problem.reason


async def test_a_catalog_name_of_a_server_is_used_even_when_it_is_not_up_yet() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        server = LocalServer(name="ollama", title="Ollama", port=closed.getsockname()[1], is_ollama=True)
        settings = Settings(agent=AgentSettings(model="ollama/qwen3:8b"))
        async with open_model(settings, servers=(server,)) as model:
            assert (model.label, model.name, model.takes_tools) == ("ollama/qwen3:8b", "qwen3:8b", True)


async def test_the_embedded_model_can_be_named(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason='not installed: pip install "nanobee-gateway[local]"')
    settings = Settings(agent=AgentSettings(model="local/smollm2-135m"))
    async with open_model(settings, {**write_model(tmp_path), "OPENAI_API_KEY": "sk-1"}) as model:
        assert model.is_tiny


# Providers in the configuration


async def test_an_entry_of_providers_hides_the_catalogs_name() -> None:
    async with ModelServer() as server:
        settings = Settings(
            providers={"openai": provider(base_url=server.base_url)}, agent=AgentSettings(model="openai/mine")
        )
        async with open_model(settings, {"OPENAI_API_KEY": CANARY}) as model:
            assert await ask_key(model, server) is None


async def test_an_unknown_provider_is_refused_with_the_known_ones() -> None:
    settings = Settings(
        providers={"main": provider(base_url="http://127.0.0.1:9/v1")}, agent=AgentSettings(model="mian/gpt")
    )
    assert (await refused(settings)).reason == "names a provider that is not in providers (main)"
    nobody = Settings(agent=AgentSettings(model="main/gpt"))
    assert (await refused(nobody, {"OPENAI_API_KEY": CANARY})).reason.endswith("(there are none)")


async def test_one_provider_without_agent_model_is_asked_what_it_serves() -> None:
    async with ModelServer(models=["nomic-embed-text", "only-one"]) as server:
        settings = Settings(providers={"main": provider(base_url=server.base_url, api_key="sk-1")})
        async with open_model(settings, {"OPENAI_API_KEY": CANARY}) as model:
            assert model.label == "main/only-one"


async def test_one_provider_at_a_known_address_answers_with_its_usual_model() -> None:
    settings = Settings(providers={"main": provider(base_url="https://api.deepseek.com", api_key="sk-1")})
    async with open_model(settings) as model:
        assert model.label == "main/deepseek-flash"


async def test_among_several_models_nothing_is_guessed() -> None:
    async with ModelServer(models=["small", "large"]) as server:
        settings = Settings(providers={"main": provider(base_url=server.base_url)})
        problem = await refused(settings, {"OPENAI_API_KEY": CANARY})
        assert problem.path == "agent.model"
        assert problem.reason == "is not set: name the model as main/MODEL; it serves small, large"
    assert (await refused(settings)).reason == "is not set: name the model as main/MODEL"


async def test_among_several_providers_nothing_is_guessed() -> None:
    entry = provider(base_url="http://127.0.0.1:9/v1")
    reason = (await refused(Settings(providers={"home": entry, "work": entry}))).reason
    assert "several providers (home, work)" in reason


BAD_SECTIONS: dict[str, tuple[dict[str, object], str, str]] = {
    "an unknown kind": ({"kind": CANARY}, "kind", "no installed package offers this kind of model provider"),
    "no address": ({"kind": "openai"}, "base_url", "is missing"),
    "an address that is none": ({"kind": "openai", "base_url": CANARY}, "base_url", "is no address"),
    "a proxy that is none": (
        {"kind": "openai", "base_url": "http://h/v1", "proxy": f"gopher://me:{CANARY}@h"},
        "proxy",
        "is no proxy's address",
    ),
    "a key over two lines": (
        {"kind": "anthropic", "api_key": f"{CANARY}\n{CANARY}"},
        "api_key",
        "holds characters that no key has",
    ),
    "a key in other letters": (
        {"kind": "openai", "base_url": "http://h/v1", "api_key": f"{CANARY}密钥"},
        "api_key",
        "holds characters that no key has",
    ),
    "an unknown dialect": (
        {"kind": "openai", "base_url": "http://h/v1", "dialect": CANARY},
        "dialect",
        "is no dialect that is known; there are common, dashscope, deepseek",
    ),
    "a dialect for another API": ({"kind": "anthropic", "dialect": "vllm"}, "dialect", "is no key of this section"),
    "an unknown key": ({"kind": "openai", "base_url": "http://h/v1", "apikey": CANARY}, "apikey", "api_key"),
    "a number as key": ({"kind": "openai", "base_url": "http://h/v1", "api_key": 12345}, "api_key", "text"),
    "text as number": ({"kind": "openai", "base_url": "http://h/v1", "max_calls": CANARY}, "max_calls", "number"),
    "no call at all": ({"kind": "openai", "base_url": "http://h/v1", "max_calls": 0}, "max_calls", "less than 1"),
    "no thread": ({"kind": "local", "threads": 0}, "threads", "less than 1"),
    "a key for a file": ({"kind": "local", "api_key": CANARY}, "api_key", "is no key of this section"),
    "no such file": ({"kind": "local", "model_path": f"/{CANARY}.gguf"}, "model_path", "no such file"),
    "no such home": ({"kind": "local", "model_path": "~nobody-here/x.gguf"}, "model_path", "no such file"),
    "a folder": ({"kind": "local", "model_path": "/"}, "model_path", "no such file"),
}


@pytest.mark.parametrize(("section", "key", "reason"), BAD_SECTIONS.values(), ids=BAD_SECTIONS.keys())
async def test_o50a_a_provider_is_refused_for(section: dict[str, object], key: str, reason: str) -> None:
    if section["kind"] == "local":
        pytest.importorskip("xllamacpp", reason='not installed: pip install "nanobee-gateway[local]"')
    settings = Settings(
        providers={"main": PluginSettings.model_validate(section)}, agent=AgentSettings(model="main/gpt")
    )
    problem = await refused(settings)
    assert problem.path == f"providers.main.{key}"
    assert reason in problem.reason


async def test_o50a_a_fault_names_the_file_and_the_line(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        f"providers:\n  main:\n    kind: openai\n    base_url: {CANARY}\nagent: {{model: other/gpt}}\n",
        encoding="utf-8",
    )
    file.chmod(0o600)
    settings = load_settings(file, {})
    problem = await refused(settings)
    assert (problem.source, problem.line, problem.path) == (str(file), 5, "agent.model")
    agent = AgentSettings(model="main/gpt")
    problem = await refused(settings.model_copy(update={"agent": agent}))
    assert (problem.source, problem.line, problem.path) == (str(file), 4, "providers.main.base_url")


# A model file of the user's own


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    file = tmp_path / "Qwen3-4B-Q4_K_M.gguf"
    with file.open("wb") as target:
        target.truncate(TINY_FILE_BYTES)
    return file


async def test_a_file_of_the_users_own_is_no_toy_unless_it_is_small(own_file: Path) -> None:
    pytest.importorskip("xllamacpp", reason='not installed: pip install "nanobee-gateway[local]"')
    section = {"kind": "local", "model_path": str(own_file), "threads": 2, "context_tokens": 8_000}
    settings = Settings(providers={"mine": PluginSettings.model_validate(section)})
    async with open_model(settings, {"OPENAI_API_KEY": CANARY}) as model:
        assert model.label == "mine/Qwen3-4B-Q4_K_M"
        assert (model.is_tiny, model.takes_tools, model.context_tokens) == (False, True, 8_000)
    with own_file.open("r+b") as target:
        target.truncate(TINY_FILE_BYTES - 1)
    async with open_model(settings) as model:
        assert (model.is_tiny, model.takes_tools) == (True, False)


async def test_a_file_in_the_home_folder_is_found(own_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp", reason='not installed: pip install "nanobee-gateway[local]"')
    monkeypatch.setenv("HOME", str(own_file.parent))
    section = {"kind": "local", "model_path": f"~/{own_file.name}"}
    settings = Settings(providers={"mine": PluginSettings.model_validate(section)})
    async with open_model(settings) as model:
        assert model.name == own_file.stem


def test_the_search_loads_no_http_library_and_no_llama(tmp_path: Path) -> None:
    program = (
        "import anyio, sys\n"
        "from nanobee.config import Settings\n"
        "from nanobee.providers.discover import choose_model\n"
        "from nanobee.errors import ConfigError\n"
        "try:\n"
        "    anyio.run(lambda: choose_model(Settings(), {'NANOBEE_CACHE': sys.argv[1]}, servers=()))\n"
        "except ConfigError: print('none')\n"
        "print(sorted({'httpx', 'aiohttp', 'xllamacpp', 'urllib.request'} & sys.modules.keys()))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stdout.splitlines()) == (0, ["none", "[]"]), result.stderr


async def test_a_search_with_nothing_to_find_takes_no_time() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        server = LocalServer(name="vllm", title="vLLM", port=closed.getsockname()[1])
        with anyio.fail_after(5):
            assert (await refused(Settings(), {"NANOBEE_CACHE": "/nowhere"}, (server,))).path == "agent.model"
