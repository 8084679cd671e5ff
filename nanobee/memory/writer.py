"""MemoryWriter: asks a model what of a conversation is to be remembered, within a day's limit of calls."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

import anyio

from nanobee.chat import ChatMessage, Completion, CompletionRequest
from nanobee.clock import Clock
from nanobee.config_memory import MemorySettings
from nanobee.errors import (
    MalformedAnswerError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    RequestRefusedError,
    ServerFaultError,
    StructuredError,
)
from nanobee.memory.guard import find_loss, fits, list_facts, needs_asking, settle
from nanobee.memory.save import (
    CONDENSE,
    INSTRUCTION,
    LOSES,
    TOO_LONG,
    SaveMemory,
    bounded_type,
    write_material,
)
from nanobee.providers.model import Model
from nanobee.providers.provider import OnDelta, Provider, ignore_delta
from nanobee.structured import ask
from nanobee.tokens import estimate_tokens

logger = logging.getLogger(__name__)

CALL_SECONDS = 600.0
"""How long one call may take, whatever the provider's own limits are."""
PAUSES_SECONDS = (0.5, 2.0)
"""Before the second and the third try of a call, where the fault may pass."""
MAX_WAIT_SECONDS = 10.0
"""The longest wait that a server may ask for; with a longer one the part is left for later."""
FIXED_TOKENS = 1_200
"""Of a request: the instruction, the schema and the frame."""
ANSWER_SHARE = 0.25
"""Of the model's window, that the answer may need."""
NEARLY_FULL = 0.85
CHARS_PER_TOKEN = 2
"""Cautiously, for any language."""

CountCall = Callable[[], Awaitable[bool]]
"""Counts one model call; False where the day's limit is reached."""


@dataclass(frozen=True, slots=True)
class Material:
    """What a model is given."""

    memory: str
    """MEMORY.md."""
    notes: Sequence[str]
    """The short-lived ones."""
    transcript: str


@dataclass(frozen=True, slots=True)
class Written:
    """What a model wants remembered, after the guard."""

    entry: str
    update: str | None
    """The new MEMORY.md; None leaves it as it is."""
    note: str
    promoted: tuple[int, ...]
    """Places in the material's notes, from 0."""


@dataclass(slots=True)
class _Counted:
    """A provider whose calls are counted, limited, and tried again where the fault may pass."""

    inner: Provider
    count: CountCall
    has_answered: bool = field(default=False)

    async def complete(self, request: CompletionRequest, on_delta: OnDelta = ignore_delta) -> Completion:
        for pause in (*PAUSES_SECONDS, None):
            if not await self.count():
                raise RateLimitError("The day's limit of model calls for memory is reached")
            try:
                completion = await self._complete(request, on_delta)
            except ProviderError as error:
                if pause is None or not _may_pass(error):
                    raise
                logger.info("%s; tried again", error)
                await anyio.sleep(max(pause, _wanted_wait(error)))
            else:
                self.has_answered = True
                return completion
        raise AssertionError("the last try returns or raises")

    async def _complete(self, request: CompletionRequest, on_delta: OnDelta) -> Completion:
        with anyio.move_on_after(CALL_SECONDS):
            return await self.inner.complete(request, on_delta)
        raise ProviderTimeoutError(f"the model did not answer within {CALL_SECONDS:g} s", "memory")

    async def aclose(self) -> None:
        """The provider belongs to the turns."""


def _wanted_wait(error: ProviderError) -> float:
    wanted = error.retry_after_seconds if isinstance(error, RateLimitError | ServerFaultError) else None
    return wanted or 0.0


def _may_pass(error: ProviderError) -> bool:
    if isinstance(error, RateLimitError | ServerFaultError):
        return _wanted_wait(error) <= MAX_WAIT_SECONDS
    return isinstance(error, ProviderConnectionError | MalformedAnswerError)


class MemoryWriter:
    """Asks the model; the guard has the last word."""

    def __init__(self, settings: MemorySettings, clock: Clock, count: Callable[[str, int], Awaitable[bool]]) -> None:
        self._settings = settings
        self._clock = clock
        self._count = count

    def room(self, model: Model, threshold: int, memory: str, notes: Sequence[str]) -> int:
        """Tokens of a transcript that a request has room for."""
        fixed = FIXED_TOKENS + estimate_tokens(memory) + sum(map(estimate_tokens, notes))
        left = int(model.context_tokens * (1 - ANSWER_SHARE)) - fixed
        return max(min(left, 2 * threshold), model.context_tokens // 8)

    async def write(self, model: Model, material: Material) -> Written:
        """Ask for what is to be remembered.

        Raises:
            StructuredError: the model answered, and nothing of it can be used.
            ProviderError: the model did not answer, or the day's limit is reached.
        """
        counted = _Counted(model.provider, self._count_call)
        model = replace(model, provider=counted)
        limit = self._settings.max_memory_chars
        chars = len(material.memory)
        hint = CONDENSE.format(chars=chars, limit=limit) if chars > NEARLY_FULL * limit else ""
        try:
            saved = await self._ask(model, material, hint)
        except StructuredError as error:
            if counted.has_answered:
                raise
            raise RequestRefusedError(str(error)) from error
        update = saved.memory_update
        if update is not None and needs_asking(material.memory, update, limit):
            update = await self._ask_again(model, material, update)
        return Written(saved.history_entry, update, saved.daily_note, _places(saved, len(material.notes)))

    async def _ask_again(self, model: Model, material: Material, update: str) -> str | None:
        """The update after the model was shown what the first one lost."""
        try:
            again = (await self._ask(model, material, self._objection(material.memory, update))).memory_update
        except StructuredError as error:
            logger.warning("MEMORY.md stays as it is: %s", error)
            return None
        return None if again is None else settle(material.memory, again, self._settings.max_memory_chars)

    async def _ask(self, model: Model, material: Material, hint: str) -> SaveMemory:
        text = write_material(material.memory, material.notes, material.transcript, hint)
        messages = [ChatMessage("system", INSTRUCTION), ChatMessage("user", text)]
        room = int(model.context_tokens * ANSWER_SHARE) * CHARS_PER_TOKEN
        return await ask(model, messages, bounded_type(2 * self._settings.max_memory_chars, room))

    def _objection(self, base: str, update: str) -> str:
        limit = self._settings.max_memory_chars
        parts = []
        loss = find_loss(base, update)
        if loss.facts:
            parts.append(LOSES.format(facts=list_facts(loss.facts)))
        if not fits(base, update, limit):
            parts.append(TOO_LONG.format(chars=len(update), limit=limit))
        return "\n\n".join(parts)

    async def _count_call(self) -> bool:
        day = self._clock.local(self._clock.now()).date().isoformat()
        return await self._count(day, self._settings.max_calls_per_day)


def _places(saved: SaveMemory, count: int) -> tuple[int, ...]:
    numbers = dict.fromkeys(int(number) for number in saved.promote if len(number) < 6)
    return tuple(number - 1 for number in numbers if 1 <= number <= count)
