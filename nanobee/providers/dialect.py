"""Where servers of the OpenAI chat-completions API differ from each other: one table, read by the wire."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class ThinkingSwitch(StrEnum):
    """How a server is told to think, or not to."""

    NONE = "none"
    """It has no switch that is known."""
    EFFORT = "effort"
    """`reasoning_effort`, a level; a budget picks one."""
    TYPE = "type"
    """`thinking: {type: enabled | disabled}`."""
    ADAPTIVE = "adaptive"
    """`thinking: {type: adaptive | disabled}`."""
    ENABLE = "enable"
    """`enable_thinking` and `thinking_budget`."""
    TEMPLATE = "template"
    """`chat_template_kwargs: {enable_thinking}`: the model's own template decides."""
    REASONING = "reasoning"
    """`reasoning: {enabled}` or `reasoning: {max_tokens}`."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One server's API. The defaults are what any server takes: no field that is not in the common API."""

    name: str = "common"
    max_tokens_field: str = "max_tokens"
    takes_stream_options: bool = True
    """Whether it may be asked to count tokens in a stream."""
    takes_forced_call: bool = True
    takes_no_call: bool = True
    """Whether `tool_choice: none` is known; else the tools are left out."""
    takes_temperature: bool = True
    """Models that think fix it; where thinking can be off (effort `none`), it is sent then."""
    user_field: str | None = "user"
    has_short_call_ids: bool = False
    """Call ids must be nine letters and digits."""
    thinking: ThinkingSwitch = ThinkingSwitch.NONE
    takes_effort: bool = False
    """Beside its switch it takes a level, for a budget."""
    off_effort: str = "none"
    """The level that comes nearest to not thinking."""
    tools_effort: str | None = None
    """The one level at which it takes tools."""
    reasoning_field: str | None = None
    """The key under which it wants its own reasoning back; others refuse or ignore any."""
    reasoning_filler: str = ""
    """Stands under that key where calls came without reasoning, for servers that demand it with each call."""
    wants_details: bool = False
    """It wants `reasoning_details` back, whole."""
    wants_call_extras: bool = False
    """It wants `extra_content` back with each call, where its signatures are."""
    call_extras_filler: str = ""
    """The signature to write for calls that another model made."""
    has_think_tags: bool = False
    """Reasoning may stand in the text, in tags at its beginning."""
    wants_think_tags: bool = False
    """It wants its reasoning back in tags before the text."""
    begins_in_thought: bool = False
    """The template opens the tag, so that the text begins inside it."""


COMMON = Dialect(has_think_tags=True)


@dataclass(frozen=True, slots=True)
class _Row:
    hosts: Sequence[str]
    """A host, a domain, or a port as `:11434`; none for any."""
    models: str
    """A pattern that is looked for in the model's name."""
    dialect: Dialect


_OPENAI_HOSTS = ("api.openai.com", "openai.azure.com")
_OPENAI = Dialect("openai", max_tokens_field="max_completion_tokens", user_field="safety_identifier")
_OPENAI_THINKER = replace(_OPENAI, thinking=ThinkingSwitch.EFFORT, takes_temperature=False)
_REASONER = Dialect(
    takes_forced_call=False,
    user_field=None,
    thinking=ThinkingSwitch.TYPE,
    reasoning_field="reasoning_content",
)
_MOONSHOT_HOSTS = ("moonshot.ai", "moonshot.cn", "kimi.com")
# An empty text counts as a missing one at both; the real reasoning is sent wherever there is some.
_DEEPSEEK = replace(_REASONER, name="deepseek", takes_effort=True, reasoning_filler=" ")
_MOONSHOT = replace(_REASONER, name="moonshot", takes_temperature=False, reasoning_filler=" ")
_LOCAL = Dialect(takes_forced_call=False, has_think_tags=True)

_ROWS: Sequence[_Row] = (
    # Chat completions give these no tools at all; the server's refusal says so.
    _Row(_OPENAI_HOSTS, r"gpt-6-astra|gpt-6\.1-sol", replace(_OPENAI_THINKER, off_effort="low")),
    _Row(_OPENAI_HOSTS, r"gpt-(5\.[4-9]|[6-9])(?!.*chat)", replace(_OPENAI_THINKER, tools_effort="none")),
    _Row(_OPENAI_HOSTS, r"gpt-5\.\d(?!.*chat)", _OPENAI_THINKER),
    _Row(_OPENAI_HOSTS, r"gpt-5(?!.*chat)", replace(_OPENAI_THINKER, off_effort="minimal")),
    _Row(_OPENAI_HOSTS, r"^o\d", replace(_OPENAI_THINKER, off_effort="low")),
    _Row(_OPENAI_HOSTS, "", _OPENAI),
    _Row(("api.deepseek.com",), "", _DEEPSEEK),
    _Row(_MOONSHOT_HOSTS, r"kimi-k[3-9]", replace(_MOONSHOT, thinking=ThinkingSwitch.EFFORT, off_effort="low")),
    _Row(_MOONSHOT_HOSTS, r"kimi-k2\.[7-9]", replace(_MOONSHOT, thinking=ThinkingSwitch.NONE)),
    _Row(_MOONSHOT_HOSTS, "kimi", _MOONSHOT),
    _Row(_MOONSHOT_HOSTS, "", Dialect("moonshot", takes_forced_call=False, user_field=None)),
    _Row(("aliyuncs.com",), "", replace(_REASONER, name="dashscope", thinking=ThinkingSwitch.ENABLE)),
    _Row(
        ("bigmodel.cn", "z.ai"),
        "",
        replace(_REASONER, name="zhipu", takes_stream_options=False, takes_no_call=False),
    ),
    _Row(
        ("minimax.io", "minimaxi.com"),
        "",
        Dialect(
            "minimax",
            max_tokens_field="max_completion_tokens",
            takes_forced_call=False,
            takes_no_call=False,
            user_field=None,
            thinking=ThinkingSwitch.ADAPTIVE,
            has_think_tags=True,
            wants_think_tags=True,
        ),
    ),
    _Row(
        ("openrouter.ai",),
        "",
        Dialect("openrouter", thinking=ThinkingSwitch.REASONING, reasoning_field="reasoning", wants_details=True),
    ),
    _Row(
        ("generativelanguage.googleapis.com",),
        "",
        Dialect(
            "gemini",
            user_field=None,
            thinking=ThinkingSwitch.EFFORT,
            off_effort="minimal",
            wants_call_extras=True,
            call_extras_filler="skip_thought_signature_validator",
        ),
    ),
    _Row(
        ("api.mistral.ai",),
        "",
        Dialect("mistral", takes_stream_options=False, user_field=None, has_short_call_ids=True),
    ),
    _Row(
        (":11434",),
        "",
        replace(_LOCAL, name="ollama", thinking=ThinkingSwitch.EFFORT, reasoning_field="reasoning"),
    ),
    _Row(
        (":1234",),
        "",
        replace(_LOCAL, name="lmstudio", thinking=ThinkingSwitch.EFFORT, reasoning_field="reasoning_content"),
    ),
    _Row(
        ("(vllm)",),
        "",
        replace(
            _LOCAL,
            name="vllm",
            takes_forced_call=True,
            thinking=ThinkingSwitch.TEMPLATE,
            reasoning_field="reasoning",
        ),
    ),
    _Row(
        ("(llamacpp)",),
        "",
        replace(_LOCAL, name="llamacpp", thinking=ThinkingSwitch.TEMPLATE, reasoning_field="reasoning_content"),
    ),
    # The same models behind a relay that nobody knows. Only what they cannot do without.
    _Row((), r"deepseek.*(v[4-9]|flash|reasoner)", replace(_DEEPSEEK, name="", thinking=ThinkingSwitch.NONE)),
    _Row((), r"kimi-k[2-9]", replace(_MOONSHOT, name="", thinking=ThinkingSwitch.NONE)),
    _Row((), "", COMMON),
)
"""The first row that fits is taken. Hosts in brackets are found by the dialect's name only."""

_BEGIN_IN_THOUGHT = re.compile(r"qwen3.*thinking|qwq|deepseek-r1|magistral|nemotron.*reason", re.IGNORECASE)
"""Models whose own templates open the thinking tag."""


def dialect_names() -> Sequence[str]:
    """The names that a configuration may give, sorted."""
    return sorted({row.dialect.name for row in _ROWS} - {""})


def find_dialect(netloc: str, model: str = "", name: str | None = None) -> Dialect:
    """The dialect of the server at `netloc` (host and port) for one of its models; the common one by default.

    `name` says whose dialect it speaks in spite of its address.
    """
    for row in _ROWS:
        is_meant = row.dialect.name == name if name else _is_at(row.hosts, netloc.lower())
        if is_meant and re.search(row.models, model, re.IGNORECASE):
            found = row.dialect
            break
    else:
        found = COMMON
    if found.has_think_tags and _BEGIN_IN_THOUGHT.search(model):
        return replace(found, begins_in_thought=True)
    return found


def _is_at(hosts: Sequence[str], netloc: str) -> bool:
    host, _, port = netloc.partition(":")
    return not hosts or any(
        f":{port}" == known if known.startswith(":") else host == known or host.endswith(f".{known}") for known in hosts
    )
