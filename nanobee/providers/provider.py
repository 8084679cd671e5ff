"""Provider: what an adapter to one model API implements."""

from collections.abc import Callable
from typing import Protocol

from nanobee.chat import Completion, CompletionRequest, Delta

OnDelta = Callable[[Delta], None]


def ignore_delta(delta: Delta) -> None:
    """For callers that want the whole completion only."""


class Provider(Protocol):
    """Speaks one model API. One object serves all turns at once."""

    async def complete(self, request: CompletionRequest, on_delta: OnDelta = ignore_delta) -> Completion:
        """Ask the model once; `on_delta` is called for each fragment as it arrives.

        Raises:
            ProviderError: one of its kinds; the text is fit for people and holds no secret.
        """
        ...

    async def aclose(self) -> None:
        """Close connections; the provider is not used afterwards."""
        ...
