"""The time-outs of one model call: which of them rules at the moment, and what its passing means."""

import anyio

from nanobee.config import HttpProviderSettings
from nanobee.errors import ProviderTimeoutError

TAIL_TIMEOUT_SECONDS = 5.0
"""How long a stream may stay open after its answer has ended; then the answer counts as it is."""


class AnswerClock:
    """Bounds one call by its `scope`, whose deadline moves as the answer goes on."""

    def __init__(self, settings: HttpProviderSettings) -> None:
        self._settings = settings
        now = anyio.current_time()
        self._total_at = now + settings.total_timeout_seconds
        self._limit = "total_timeout_seconds"
        self.scope = anyio.CancelScope(deadline=self._total_at)
        if settings.stream:
            self._move("first_token_timeout_seconds", settings.first_token_timeout_seconds)

    def go_on(self, *, is_ended: bool) -> None:
        """A fragment has come."""
        if is_ended:
            self._move("idle_timeout_seconds", min(self._settings.idle_timeout_seconds, TAIL_TIMEOUT_SECONDS))
        else:
            self._move("idle_timeout_seconds", self._settings.idle_timeout_seconds)

    def expect_whole(self) -> None:
        """The answer comes in one piece after all: only the total limit is left."""
        self._limit = "total_timeout_seconds"
        self.scope.deadline = self._total_at

    def error(self, who: str) -> ProviderTimeoutError:
        """What the passing of the deadline means."""
        return timeout_error(who, self._limit, getattr(self._settings, self._limit))

    def _move(self, limit: str, seconds: float) -> None:
        at = anyio.current_time() + seconds
        self._limit = limit if at < self._total_at else "total_timeout_seconds"
        self.scope.deadline = min(at, self._total_at)


def timeout_error(who: str, limit: str, seconds: float) -> ProviderTimeoutError:
    """The error for a limit by its setting's name."""
    what = {
        "connect_timeout_seconds": "could not be reached",
        "first_token_timeout_seconds": "did not begin to answer",
        "idle_timeout_seconds": "fell silent in the middle of an answer",
        "total_timeout_seconds": "did not finish its answer",
    }[limit]
    return ProviderTimeoutError(f"{who} {what} within {seconds:g} s ({limit}).", limit)
