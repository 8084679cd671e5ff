"""Asking: one completion for one step, tried again and on the next model where the fault is not the request's."""

import logging
from collections.abc import Awaitable, Callable, Sequence

import anyio

from nanobee.agent.breaker import Breaker
from nanobee.agent.models import Choice
from nanobee.chat import Completion, CompletionRequest, Delta, TextDelta
from nanobee.errors import (
    ContextLengthError,
    MalformedAnswerError,
    ProviderConnectionError,
    ProviderError,
    RateLimitError,
    RequestRefusedError,
    ServerFaultError,
)

logger = logging.getLogger(__name__)

MAX_TRIES = 3
FIRST_PAUSE_SECONDS = 0.5
MAX_WAIT_SECONDS = 30.0
"""The longest wait that a server may ask for; with a longer one the next model is asked, or the user told."""
REQUESTS_FAULT = (RequestRefusedError, ContextLengthError)
"""What another model would refuse as well."""

Build = Callable[[Choice], Awaitable[CompletionRequest]]


class Shown:
    """Passes text on to whoever watches, and knows whether any was."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self.has_text = False

    def __call__(self, delta: Delta) -> None:
        if isinstance(delta, TextDelta):
            self.has_text = True
            self._show(delta.text)


async def ask_models(
    chain: Sequence[Choice], breaker: Breaker, build: Build, show: Callable[[str], None]
) -> tuple[Completion, Choice]:
    """Ask the first model of the chain that works; `show` gets each fragment of its text.

    After a part of the text was shown nothing is tried again: the user would see a beginning twice.

    Raises:
        ProviderError: the last model's fault.
    """
    shown = Shown(show)
    ready = [choice for choice in chain if breaker.is_closed(choice.provider_name)]
    for place, choice in enumerate(ready or chain):
        is_last = place == len(ready or chain) - 1
        try:
            completion = await _ask_one(choice, await build(choice), shown)
        except ProviderError as error:
            if not isinstance(error, REQUESTS_FAULT):
                breaker.note_failure(choice.provider_name)
            if is_last or shown.has_text or isinstance(error, REQUESTS_FAULT):
                raise
            logger.warning("%s: %s; the next model is asked", choice.model.label, error)
        else:
            breaker.note_success(choice.provider_name)
            if choice is not chain[0]:
                logger.warning("%s answered in place of %s", choice.model.label, chain[0].model.label)
            return completion, choice
    raise AssertionError("a chain has one model at least")


async def _ask_one(choice: Choice, request: CompletionRequest, shown: Shown) -> Completion:
    for attempt in range(1, MAX_TRIES + 1):
        try:
            return await choice.model.provider.complete(request, shown)
        except ProviderError as error:
            pause = _pause(error, attempt)
            if pause is None or shown.has_text or attempt == MAX_TRIES:
                raise
            logger.warning("%s: %s; try %d in %.1f s", choice.model.label, error, attempt + 1, pause)
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
