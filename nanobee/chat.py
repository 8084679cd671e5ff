"""Model's side: what one call sends and what comes back.

Providers translate these values to their API's wire format and back; nothing else does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model's request to run one tool."""

    id: str
    name: str
    arguments: str
    """The raw JSON text; `{}` where the model sent nothing."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What goes back to the model for one tool call."""

    tool_call_id: str
    content: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Echo:
    """What an API wants back unchanged with the message that it came with: signatures, encrypted reasoning.

    Only the provider that made it reads it; everybody else keeps it beside the message.
    """

    source: str
    """The API and the host that made it (`anthropic:api.anthropic.com`); another one is not sent it."""
    data: object
    """A JSON value."""


@dataclass(frozen=True, slots=True)
class Image:
    """A picture as it is sent to a model."""

    mime_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One entry of a request, with a role.

    A `tool` message carries `tool_call_id`; an `assistant` message has text, tool calls or
    both; `reasoning` is what a thinking model wrote beside its answer, kept unchanged.
    """

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    reasoning: str | None = None
    echo: Echo | None = None
    images: tuple[Image, ...] = ()
    """Only a `user` message has any, and only the newest one of a request."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """How a tool is described to a model."""

    name: str
    description: str
    parameters: Mapping[str, object]
    """JSON schema of one object."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A fragment of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A fragment of the model's reasoning, not part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A fragment of a tool call; `key` tells the calls of one completion apart."""

    key: int
    name: str = ""
    arguments: str = ""


Delta = TextDelta | ReasoningDelta | ToolCallDelta


class FinishReason(StrEnum):
    """Why a completion ended."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    """The output limit cut it: a tool call in it may be incomplete."""
    CONTENT_FILTER = "content_filter"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """The part of `input_tokens` that the server read from its prompt cache."""
    reasoning_tokens: int = 0
    """The part of `output_tokens` that was reasoning."""
    cache_write_tokens: int = 0
    """The part of `input_tokens` that the server put into its prompt cache, where it tells."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The model's whole answer to one request."""

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = FinishReason.STOP
    reasoning: str | None = None
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    """The model that the server says answered."""
    echo: Echo | None = None
    """Goes into the history with the message."""


class ToolChoice(StrEnum):
    """Whether the model may, must not or must call a tool."""

    AUTO = "auto"
    NONE = "none"
    FORCED = "forced"
    """It must call the one tool that the request offers."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """Whether the model thinks before it answers. Where a server has levels only, the budget picks one."""

    is_on: bool
    budget_tokens: int | None = None
    """How much at most, where the server can hold it; None leaves that to the server."""

    @classmethod
    def read(cls, setting: bool | int | None) -> "Thinking | None":
        """What a setting says: true, false, or a budget of tokens; None says nothing."""
        if setting is None or isinstance(setting, bool):
            return None if setting is None else cls(setting)
        return cls(is_on=True, budget_tokens=setting)


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """All that one call sends."""

    model: str
    """The provider's own name of the model."""
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = ToolChoice.AUTO
    response_schema: Mapping[str, object] | None = None
    """JSON schema that the answer's text must follow, for servers that can hold it."""
    max_tokens: int | None = None
    temperature: float | None = None
    thinking: Thinking | None = None
    """None leaves it to the server's default."""
    user: str | None = None
    """A tag of the end user, for servers that tell their customers' users apart."""
