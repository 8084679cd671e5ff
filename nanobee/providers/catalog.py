"""Where models are found without any configuration: hosted services by their key, servers by their port.

All but one speak the OpenAI chat-completions API. The services' default models age; a variable
`NAME_MODEL` (`OPENAI_MODEL`) or `agent.model` names another one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

EMBEDDED_NAME = "local"
"""The provider's name of the model that runs beside the gateway, in `local/…`."""


@dataclass(frozen=True, slots=True)
class HostedService:
    """A service that is used when its API key stands in the environment."""

    name: str
    """The provider's name, in `name/model`."""
    key_variables: tuple[str, ...]
    base_url: str
    model: str
    """What answers unless somebody names another model: cheap, able to call tools."""
    url_variables: tuple[str, ...] = ()
    """Where the service's own users keep another address of the same API, a region's or a relay's."""
    kind: str = "openai"
    """The kind of provider that speaks its API."""
    is_generic: bool = False
    """Its variables are used for any compatible server, which may need no key."""

    @property
    def model_variable(self) -> str:
        """The variable that names another model."""
        return f"{self.name.upper()}_MODEL"

    def find_key(self, environ: Mapping[str, str]) -> tuple[str, str] | None:
        """The name and the value of the first variable that holds a key for this service."""
        return next(((name, key) for name in self.key_variables if (key := read_variable(environ, name))), None)

    def find_base_url(self, environ: Mapping[str, str]) -> tuple[str, str] | None:
        """The name and the value of the first variable that gives an address."""
        return next(((name, url) for name in self.url_variables if (url := read_variable(environ, name))), None)


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A model server that is looked for on this machine."""

    name: str
    """The provider's name, in `name/model`."""
    title: str
    """As its makers write it."""
    port: int
    host: str = "127.0.0.1"
    is_ollama: bool = False
    """It also tells what a model can do, under `/api/show`."""
    default_context_tokens: int = 8_192
    """The window where the server does not tell it."""

    @property
    def base_url(self) -> str:
        """Up to and including `/v1`."""
        return f"http://{self.host}:{self.port}/v1"


HOSTED_SERVICES = (
    HostedService(
        name="openai",
        key_variables=("OPENAI_API_KEY",),
        base_url="https://api.openai.com/v1",
        url_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        model="gpt-6-luna",
        is_generic=True,
    ),
    HostedService(
        name="anthropic",
        key_variables=("ANTHROPIC_API_KEY",),
        base_url="https://api.anthropic.com",
        url_variables=("ANTHROPIC_BASE_URL",),
        model="claude-haiku-5-5",
        kind="anthropic",
    ),
    HostedService(
        name="deepseek",
        key_variables=("DEEPSEEK_API_KEY",),
        base_url="https://api.deepseek.com/v1",
        url_variables=("DEEPSEEK_BASE_URL",),
        model="deepseek-flash",
    ),
    HostedService(
        name="moonshot",
        key_variables=("MOONSHOT_API_KEY",),
        base_url="https://api.moonshot.ai/v1",
        url_variables=("MOONSHOT_BASE_URL",),
        model="kimi-k2.6",
    ),
    HostedService(
        name="dashscope",
        key_variables=("DASHSCOPE_API_KEY",),
        base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",
        url_variables=("DASHSCOPE_BASE_URL",),
        model="qwen-plus",
    ),
    HostedService(
        name="openrouter",
        key_variables=("OPENROUTER_API_KEY",),
        base_url="https://openrouter.ai/api/v1",
        url_variables=("OPENROUTER_BASE_URL",),
        model="openrouter/auto",
    ),
    HostedService(
        name="zhipu",
        key_variables=("ZHIPU_API_KEY", "ZHIPUAI_API_KEY"),
        base_url="https://open.bigmodel.cn/api/paas/v4",
        url_variables=("ZHIPU_BASE_URL", "ZHIPUAI_BASE_URL"),
        model="glm-4.7",
    ),
    HostedService(
        name="zai",
        key_variables=("ZAI_API_KEY",),
        base_url="https://api.z.ai/api/paas/v4",
        url_variables=("ZAI_BASE_URL",),
        model="glm-4.7",
    ),
    HostedService(
        name="minimax",
        key_variables=("MINIMAX_API_KEY",),
        base_url="https://api.minimax.io/v1",
        url_variables=("MINIMAX_BASE_URL",),
        model="MiniMax-M2.7",
    ),
    HostedService(
        name="gemini",
        key_variables=("GEMINI_API_KEY",),
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        url_variables=("GEMINI_BASE_URL",),
        model="gemini-flash-latest",
    ),
    HostedService(
        name="mistral",
        key_variables=("MISTRAL_API_KEY",),
        base_url="https://api.mistral.ai/v1",
        url_variables=("MISTRAL_BASE_URL",),
        model="mistral-small-latest",
    ),
)
"""In the order in which their keys are looked for."""

LOCAL_SERVERS = (
    # Ollama cuts longer prompts without a word unless it was started with a larger window.
    LocalServer(name="ollama", title="Ollama", port=11434, is_ollama=True, default_context_tokens=4_096),
    LocalServer(name="lmstudio", title="LM Studio", port=1234),
    LocalServer(name="llamacpp", title="llama.cpp", port=8080),
    LocalServer(name="vllm", title="vLLM", port=8000),
)
"""In the order in which they are preferred."""

# Words in the names of models that do not chat.
_OTHER_KINDS = (
    "embed",
    "bge-",
    "bge:",
    "e5-",
    "gte-",
    "minilm",
    "rerank",
    "whisper",
    "tts",
    "clip",
    "moderation",
    "guard",
    "diffusion",
    "ocr",
)
# Words in the names of models that chat badly, or not on this machine.
_SECOND_CHOICE = ("-base", ":base", ":code", "cloud", "-math")


def find_service(name: str) -> HostedService | None:
    """The hosted service of that name."""
    return next((service for service in HOSTED_SERVICES if service.name == name), None)


def find_service_at(base_url: str) -> HostedService | None:
    """The hosted service that answers at that address."""
    host = read_host(base_url)
    return next((service for service in HOSTED_SERVICES if read_host(service.base_url) == host), None)


def is_chat_model(name: str) -> bool:
    """Whether a model's name does not say that it is for something else, embeddings for example."""
    return not any(word in name.lower() for word in _OTHER_KINDS)


def is_second_choice(name: str) -> bool:
    """Whether a model's name says that another chat model should be preferred."""
    return any(word in name.lower() for word in _SECOND_CHOICE)


def read_variable(environ: Mapping[str, str], name: str) -> str:
    """A variable's value without white space around it; an unset one is an empty one."""
    return environ.get(name, "").strip()


def read_host(url: str) -> str:
    """The host of an address, empty where there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
