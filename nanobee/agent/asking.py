"""Asking: one completion for one step, tried again where the fault is not the request's."""

import logging
from collections.abc import Callable

import anyio

from nanobee.chat import Completion, CompletionRequest, Delta, TextDelta
from nanobee.errors import (
    MalformedAnswerError,
    ProviderConnectionError,
    ProviderError,
    RateLimitError,
    ServerFaultError,
)
from nanobee.providers.model import Model

logger = logging.getLogger(__name__)

MAX_TRIES = 3
FIRST_PAUSE_SECONDS = 0.5
MAX_WAIT_SECONDS = 30.0
"""The longest wait that a server may ask for; a longer one is told to the user at once."""


async def ask_model(model: Model, request: CompletionRequest, show: Callable[[str], None]) -> Completion:
    """Ask the model; `show` gets each fragment of its text.

    After a part of the text was shown, nothing is tried again: the user would see a
    beginning twice.

    Raises:
        ProviderError: the last try's fault.
    """
    has_shown = False

    def on_delta(delta: Delta) -> None:
        nonlocal has_shown
        if isinstance(delta, TextDelta):
            has_shown = True
            show(delta.text)

    for attempt in range(1, MAX_TRIES + 1):
        try:
            return await model.provider.complete(request, on_delta)
        except ProviderError as error:
            pause = _pause(error, attempt)
            if pause is None or has_shown or attempt == MAX_TRIES:
                raise
            logger.warning("%s: %s; try %d in %.1f s", model.label, error, attempt + 1, pause)
            await anyio.sleep(pause)
    raise AssertionError("the loop returns or raises")


def _pause(error: ProviderError, attempt: int) -> float | None:
    """How long to wait before the next try, None where it would fail again."""
    own = FIRST_PAUSE_SECONDS * 4.0 ** (attempt - 1)
    if isinstance(error, RateLimitError | ServerFaultError):
        wanted = error.retry_after_seconds
        if wanted is None:
            return own
        return max(wanted, own) if wanted <= MAX_WAIT_SECONDS else None
    return own if isinstance(error, ProviderConnectionError | MalformedAnswerError) else None
