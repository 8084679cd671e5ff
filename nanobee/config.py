"""The validated configuration: what each key means, and its default.

Core sees a channel's and a provider's own keys as a mapping until that channel or provider
validates them with its own settings model.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints

from nanobee.phrases import Language

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$", strict=True)]
"""An instance's name: a channel's or a provider's, as it stands in session keys."""


class StrictModel(BaseModel):
    """Base of every settings model: unknown keys and wrong types are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class PluginSettings(BaseModel):
    """A section whose keys belong to a plugin, found by `kind`; they are checked by that plugin."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, hide_input_in_errors=True)

    kind: str

    def mapping(self) -> Mapping[str, object]:
        """All keys of the section as they stand in the configuration, `kind` included."""
        return {"kind": self.kind, **(self.model_extra or {})}


class ChannelSettings(StrictModel):
    """The keys that every channel has; a channel's own settings model derives from it."""

    kind: str
    allow_from: tuple[str, ...] = ()
    """Exact platform ids of who may talk. Empty admits nobody; `["*"]` alone admits everybody."""


class ProviderSettings(StrictModel):
    """The keys that every provider has; a provider's own settings model derives from it."""

    kind: str
    max_calls: int = Field(default=64, ge=1, le=1000)
    """Model calls at once."""


class OpenAISettings(ProviderSettings):
    """A server that speaks the OpenAI chat-completions API."""

    base_url: str
    """Up to and including `/v1`."""
    api_key: SecretStr | None = None
    proxy: str | None = None
    connect_timeout_seconds: float = Field(default=10.0, gt=0)
    first_token_timeout_seconds: float = Field(default=120.0, gt=0)
    idle_timeout_seconds: float = Field(default=60.0, gt=0)
    """The longest silence between two fragments of one answer."""
    total_timeout_seconds: float = Field(default=1800.0, gt=0)


class AgentSettings(StrictModel):
    """How turns run."""

    model: str | None = None
    """`provider/model`; None looks for one: a key in the environment, a local server, the embedded one."""
    max_steps: int = Field(default=40, ge=1, le=1000)
    """Completions a turn, the last of which is asked without tools."""
    context_tokens: int = Field(default=64_000, ge=1_000)
    """The model's window, as far as it is used; history gets 0.6 of it."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)


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
    providers: Mapping[Name, PluginSettings] = Field(default_factory=dict)
    agent: AgentSettings = AgentSettings()
    channels: Mapping[Name, PluginSettings] = Field(default_factory=dict)
