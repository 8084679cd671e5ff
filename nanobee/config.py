"""The validated configuration: what each key means, and its default.

Core sees a channel's and a provider's own keys as a mapping until that channel or provider
validates them with its own settings model.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    Strict,
    ValidationInfo,
    field_validator,
)

from nanobee.config_memory import MemorySettings
from nanobee.config_origin import Origin
from nanobee.config_section import (
    MODEL_FORM,
    NAME_PATTERN,
    NO_PRESET,
    Name,
    SettingError,
    StrictModel,
    is_model_label,
)
from nanobee.messages import RESERVED_CHANNELS
from nanobee.phrases import Language, Phrase

EVERYBODY_WORD = "*"

STAR_WITH_OTHERS = Phrase(
    '"*" admits everybody and stands alone; list exact ids or "*", not both',
    '"*" 表示任何人，只能单独使用；要么列出准确的 id，要么只写 "*"',
)
BLANK_ID = Phrase("an id is empty or has blanks around it", "有一个 id 为空，或前后有空白")
STAR_OWNER = Phrase(
    '"*" makes nobody owner; list exact ids such as "telegram:12345"',
    '"*" 不会让任何人成为主人；请列出准确的 id，例如 "telegram:12345"',
)
OWNER_FORM = Phrase(
    'an owner is written "channel:sender_id", for example "telegram:12345"',
    '主人写作 "渠道:发送者id"，例如 "telegram:12345"',
)
NO_ZONE = Phrase(
    'not a time zone of this machine; write an IANA name such as "Europe/Berlin", or "local"',
    '本机没有这个时区；请写 IANA 名称，例如 "Asia/Shanghai"，或写 "local"',
)
NO_ADDRESS = Phrase(
    "is no address: http:// or https://, and a host are needed", "不是地址：需要 http:// 或 https:// 加主机名"
)
BAD_KEY = Phrase("holds characters that no key has", "含有密钥中不会出现的字符")
NO_PROXY = Phrase(
    "is no proxy's address: http://, https://, socks4://, socks5:// or socks5h://, and a host are needed",
    "不是代理地址：需要 http://、https://、socks4://、socks5:// 或 socks5h:// 加主机名",
)
NO_SOCKS = Phrase(
    'SOCKS needs a package: pip install "nanobee-gateway[socks]"',
    'SOCKS 需要一个软件包：pip install "nanobee-gateway[socks]"',
)
RESERVED_NAME = Phrase("the names {names} are reserved", "名称 {names} 是保留的")


class PluginSettings(BaseModel):
    """A section whose keys belong to a plugin, found by `kind`; they are checked by that plugin."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, hide_input_in_errors=True)

    kind: str
    _origin: Origin = PrivateAttr(default_factory=Origin)

    @property
    def origin(self) -> Origin:
        """Where the section's values stand, for the problems that its plugin finds."""
        return self._origin

    def place(self, origin: Origin) -> None:
        """Remember where the section stands; called once, by whoever loads it."""
        self._origin = origin

    def __repr_args__(self) -> list[tuple[str | None, object]]:
        return [("kind", self.kind)]  # the other keys may be secrets

    def mapping(self) -> Mapping[str, object]:
        """All keys of the section as they stand in the configuration, `kind` included."""
        return {"kind": self.kind, **(self.model_extra or {})}


class ChannelSettings(StrictModel):
    """The keys that every channel has; a channel's own settings model derives from it."""

    kind: str
    allow_from: tuple[str, ...] = ()
    """Exact platform ids of who may talk. Empty admits nobody; `["*"]` alone admits everybody."""

    @field_validator("allow_from")
    @classmethod
    def _ids_are_exact(cls, ids: tuple[str, ...]) -> tuple[str, ...]:
        if EVERYBODY_WORD in ids and len(ids) > 1:
            raise SettingError(STAR_WITH_OTHERS)
        if any(not identifier or identifier != identifier.strip() for identifier in ids):
            raise SettingError(BLANK_ID)
        return ids


class ProviderSettings(StrictModel):
    """The keys that every provider has; a provider's own settings model derives from it."""

    kind: str
    max_calls: int = Field(default=64, ge=1, le=1000)
    """Model calls at once."""


class HttpProviderSettings(ProviderSettings):
    """A model server that is asked over HTTP."""

    base_url: str
    api_key: SecretStr | None = None
    proxy: str | None = None
    """`http://`, `https://` or `socks5://`; None takes the environment's, with NO_PROXY."""
    stream: bool = True
    """Whether answers come as they are written; off for a server that cannot."""
    connect_timeout_seconds: float = Field(default=10.0, gt=0)
    first_token_timeout_seconds: float = Field(default=120.0, gt=0)
    idle_timeout_seconds: float = Field(default=60.0, gt=0)
    """The longest silence between two fragments of one answer."""
    total_timeout_seconds: float = Field(default=1800.0, gt=0)

    @field_validator("base_url")
    @classmethod
    def _base_url_is_an_address(cls, base_url: str) -> str:
        if not is_http_address(base_url):
            raise SettingError(NO_ADDRESS)
        return base_url

    @field_validator("api_key")
    @classmethod
    def _api_key_can_be_sent(cls, api_key: SecretStr | None) -> SecretStr | None:
        key = api_key.get_secret_value().strip() if api_key is not None else ""
        if not (key.isascii() and key.isprintable()):
            raise SettingError(BAD_KEY)
        return api_key

    @field_validator("proxy")
    @classmethod
    def _proxy_is_one(cls, proxy: str | None) -> str | None:
        if proxy is not None:
            from nanobee.http_proxy import has_socks, is_proxy_address  # only for who sets one

            if not is_proxy_address(proxy):
                raise SettingError(NO_PROXY)
            if proxy.startswith("socks") and not has_socks():
                raise SettingError(NO_SOCKS)
        return proxy


class OpenAISettings(HttpProviderSettings):
    """A server that speaks the OpenAI chat-completions API."""

    base_url: str
    """Up to and including `/v1`."""
    dialect: str | None = None
    """Whose peculiarities it has (`deepseek`, `vllm`, …); None takes what is known of its address."""


class AnthropicSettings(HttpProviderSettings):
    """A server that speaks the Anthropic Messages API."""

    base_url: str = "https://api.anthropic.com"
    """Up to where `/v1/messages` follows."""


class BusyMode(StrEnum):
    """What becomes of a message that comes while a turn runs in its chat."""

    QUEUE = "queue"
    """It waits for a turn of its own."""
    STEER = "steer"
    """The running turn takes it in at its next step, and answers both."""
    INTERRUPT = "interrupt"
    """The running turn ends; one turn answers both."""
    COLLECT = "collect"
    """All that waits is answered by one turn, after the running one."""


class ModelSettings(StrictModel):
    """A preset: a model, and what it is asked with."""

    model: str
    """`provider/model`."""

    context_tokens: int | None = Field(default=None, ge=1_000)
    """The window, where it is smaller than the model's."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    thinking: bool | Annotated[int, Field(ge=1)] | None = None
    """On, off, or on with a budget of tokens; None leaves it to the server."""
    vision: bool | None = None
    """Whether it takes pictures; None takes what is known of the model."""
    user_tag: str | None = None
    """Passed to the server as the end user's name."""

    @field_validator("model")
    @classmethod
    def _model_has_its_form(cls, model: str) -> str:
        if not is_model_label(model):
            raise SettingError(MODEL_FORM)
        return model


class AgentSettings(StrictModel):
    """How turns run."""

    model: str | None = None
    """`provider/model` or a preset; None looks for one: a key in the environment, a local server, the embedded one."""
    fallbacks: Annotated[tuple[str, ...], Strict(False)] = ()
    """Models or presets that stand in, in this order, while the first one fails."""
    busy: Annotated[BusyMode, Strict(False)] = BusyMode.QUEUE
    max_steps: int = Field(default=40, ge=1, le=1000)
    """Completions a turn, the last of which is asked without tools."""
    context_tokens: int = Field(default=64_000, ge=1_000)
    """The model's window, as far as it is used."""
    history_share: float = Field(default=0.6, gt=0, le=1)
    """The part that history may fill, of the window less the reserved answer, the prompt and the tools."""
    history_turns: int | None = Field(default=None, ge=1)
    """Exchanges of history at most; None leaves it to the window."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)

    @field_validator("model")
    @classmethod
    def _model_has_its_form(cls, model: str | None) -> str | None:
        if model is not None and not (is_model_label(model) or re.fullmatch(NAME_PATTERN, model)):
            raise SettingError(MODEL_FORM)
        return model

    @field_validator("fallbacks")
    @classmethod
    def _fallbacks_have_their_form(cls, fallbacks: tuple[str, ...]) -> tuple[str, ...]:
        if not all(is_model_label(each) or re.fullmatch(NAME_PATTERN, each) for each in fallbacks):
            raise SettingError(MODEL_FORM)
        return fallbacks


def is_http_address(url: str) -> bool:
    """Whether requests can be sent there."""
    try:
        return url.startswith(("http://", "https://")) and bool(urlsplit(url).hostname)
    except ValueError:
        return False


def _empty_section(value: object) -> object:
    """A section whose keys are all commented out is null in YAML: it is empty."""
    return {} if value is None else value


_Sections = Annotated[Mapping[Name, PluginSettings], BeforeValidator(_empty_section)]


class Settings(StrictModel):
    """The whole configuration."""

    workspace: Path = Path("~/.nanobee/workspace")
    state: Path = Path("~/.nanobee/state")
    bus: Literal["sqlite"] = "sqlite"
    owner: tuple[str, ...] = ()
    """`channel:sender_id` of the owner; the terminal is always the owner's."""
    language: Language = "en"
    timezone: str = "local"
    """An IANA name, or `local` for the machine's."""
    providers: _Sections = Field(default_factory=dict)
    models: Annotated[Mapping[Name, ModelSettings], BeforeValidator(_empty_section)] = Field(default_factory=dict)
    """Presets by name, for `agent.model`, `agent.fallbacks` and `/model`."""
    agent: Annotated[AgentSettings, BeforeValidator(_empty_section)] = AgentSettings()
    memory: Annotated[MemorySettings, BeforeValidator(_empty_section)] = MemorySettings()
    channels: _Sections = Field(default_factory=dict)
    _origin: Origin = PrivateAttr(default_factory=Origin)

    @property
    def origin(self) -> Origin:
        """Where the values stand, for problems that are found after validation."""
        return self._origin

    def place(self, origin: Origin) -> None:
        """Remember where the settings stand; called once, by whoever loads them."""
        self._origin = origin
        for group, sections in (("providers", self.providers), ("channels", self.channels)):
            for name, section in sections.items():
                section.place(origin.at(group, name))

    @field_validator("agent")
    @classmethod
    def _presets_exist(cls, agent: AgentSettings, info: ValidationInfo) -> AgentSettings:
        presets = info.data.get("models", {})
        named = [name for name in (agent.model, *agent.fallbacks) if name is not None and not is_model_label(name)]
        if any(name not in presets for name in named):
            raise SettingError(NO_PRESET)
        return agent

    @field_validator("memory")
    @classmethod
    def _memory_preset_exists(cls, memory: MemorySettings, info: ValidationInfo) -> MemorySettings:
        name = memory.model
        if name is not None and not is_model_label(name) and name not in info.data.get("models", {}):
            raise SettingError(NO_PRESET)
        return memory

    @field_validator("owner")
    @classmethod
    def _owners_are_exact(cls, owners: tuple[str, ...]) -> tuple[str, ...]:
        for owner in owners:
            if EVERYBODY_WORD in owner:
                raise SettingError(STAR_OWNER)
            channel, colon, sender_id = owner.partition(":")
            if not (channel and colon and sender_id) or owner != owner.strip():
                raise SettingError(OWNER_FORM)
        return owners

    @field_validator("timezone")
    @classmethod
    def _timezone_is_known(cls, name: str) -> str:
        if name != "local":
            from zoneinfo import ZoneInfo  # only for who sets a zone

            try:
                ZoneInfo(name)
            except (OSError, ValueError, KeyError):
                raise SettingError(NO_ZONE) from None
        return name

    @field_validator("channels")
    @classmethod
    def _names_are_free(cls, channels: Mapping[str, PluginSettings]) -> Mapping[str, PluginSettings]:
        if RESERVED_CHANNELS & channels.keys():
            raise SettingError(RESERVED_NAME, names=", ".join(sorted(RESERVED_CHANNELS)))
        return channels
