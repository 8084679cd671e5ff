"""ScriptedProvider: a provider that answers from a list, for tests of whatever asks a model."""

from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from json import dumps
from typing import Any

from nanobee.chat import (
    Completion,
    CompletionRequest,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
)
from nanobee.providers.provider import OnDelta, ignore_delta

ScriptStep = (
    str | Completion | BaseException | Callable[[CompletionRequest], "str | Completion | Awaitable[str | Completion]"]
)
"""Text, a completion, an error to raise, or a function of the request that makes one of the first two."""


class ScriptedProvider:
    """Each call takes the next step of the script; a call too many fails the test."""

    def __init__(self, *script: ScriptStep) -> None:
        self.script: list[ScriptStep] = list(script)
        """What is still to come; append to it as the test goes on."""
        self.requests: list[CompletionRequest] = []
        """Every request, in order."""
        self.is_closed = False
        """Whether `aclose` was called."""

    async def complete(self, request: CompletionRequest, on_delta: OnDelta = ignore_delta) -> Completion:
        """Answer with the next step, its text as deltas word by word."""
        self.requests.append(request)
        if not self.script:
            raise AssertionError(f"the script is used up; request {len(self.requests)} was not expected")
        step = self.script.pop(0)
        if isinstance(step, BaseException):
            raise step
        if callable(step):
            made = step(request)
            step = await made if isawaitable(made) else made
        completion = Completion(step, model=request.model) if isinstance(step, str) else step
        _stream(completion, on_delta)
        return completion

    async def aclose(self) -> None:
        """Note that it was closed."""
        self.is_closed = True


def call_tools(*calls: tuple[str, Mapping[str, Any] | str], text: str = "") -> Completion:
    """A completion with tool calls, given as name and arguments (a mapping, or raw JSON text)."""
    made = tuple(
        ToolCall(f"call_{at}", name, arguments if isinstance(arguments, str) else dumps(arguments))
        for at, (name, arguments) in enumerate(calls)
    )
    return Completion(text, made, FinishReason.TOOL_CALLS)


def _stream(completion: Completion, on_delta: OnDelta) -> None:
    if completion.reasoning:
        on_delta(ReasoningDelta(completion.reasoning))
    for at, word in enumerate(completion.content.split(" ") if completion.content else ()):
        on_delta(TextDelta(word if at == 0 else f" {word}"))
    for key, call in enumerate(completion.tool_calls):
        on_delta(ToolCallDelta(key, call.name, call.arguments))
