import pytest

from nanobee.chat import ChatMessage, Completion, CompletionRequest, Delta, FinishReason, TextDelta, ToolCallDelta
from nanobee.errors import RateLimitError
from nanobee.testing.scripted import ScriptedProvider, call_tools

ASK = CompletionRequest("m", (ChatMessage("user", "hi"),))


async def test_each_call_takes_the_next_step() -> None:
    provider = ScriptedProvider("one", Completion("two"), lambda request: f"three for {request.model}")
    said = [(await provider.complete(ASK)).content for _ in range(3)]
    assert said == ["one", "two", "three for m"]
    assert provider.requests == [ASK] * 3


async def test_a_step_may_be_awaited() -> None:
    async def answer(request: CompletionRequest) -> Completion:
        return Completion("later")

    assert (await ScriptedProvider(answer).complete(ASK)).content == "later"


async def test_an_error_is_raised_and_the_script_goes_on() -> None:
    provider = ScriptedProvider(RateLimitError("slow", 2.0), "ok")
    with pytest.raises(RateLimitError):
        await provider.complete(ASK)
    assert (await provider.complete(ASK)).content == "ok"


async def test_a_call_too_many_fails() -> None:
    with pytest.raises(AssertionError, match="request 1"):
        await ScriptedProvider().complete(ASK)


async def test_deltas_join_to_the_completion() -> None:
    deltas: list[Delta] = []
    completion = await ScriptedProvider(call_tools(("f", {"a": 1}), ("g", "{}"), text="one two")).complete(
        ASK, deltas.append
    )
    assert deltas == [
        TextDelta("one"),
        TextDelta(" two"),
        ToolCallDelta(0, "f", '{"a": 1}'),
        ToolCallDelta(1, "g", "{}"),
    ]
    assert completion.finish_reason is FinishReason.TOOL_CALLS
    assert [call.id for call in completion.tool_calls] == ["call_0", "call_1"]


async def test_closing_is_noted() -> None:
    provider = ScriptedProvider()
    await provider.aclose()
    assert provider.is_closed
