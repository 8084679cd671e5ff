"""Model: a provider together with one of its models, and what that model can take."""

from dataclasses import dataclass

from nanobee.providers.provider import Provider


@dataclass(frozen=True, slots=True)
class Model:
    """What turns and virtual tools ask."""

    provider: Provider
    label: str
    """`provider/model`, as people read it."""
    name: str
    """The provider's own name of the model."""
    context_tokens: int = 64_000
    takes_tools: bool = True
    takes_forced_call: bool = True
    """Whether a forced tool call is honored; without it `structured.ask` starts lower on its ladder."""
    takes_images: bool = False
    """Whether it can look at pictures; a preset's `vision` says otherwise."""
    is_tiny: bool = False
    """A toy that needs a short prompt: no workspace files, no skills."""
    note: str = ""
    """One line for people on start: which model answers and how to get a better one."""
