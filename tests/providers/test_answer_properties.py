"""Whatever comes in whatever pieces: never a call that the model did not ask for whole."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hypothesis import given
from hypothesis import strategies as st

from nanobee.arguments import parse_arguments
from nanobee.chat import Completion, FinishReason, ToolCall
from nanobee.errors import ProviderError, ToolError
from nanobee.providers.anthropic_answer import AnthropicAnswer
from nanobee.providers.dialect import COMMON
from nanobee.providers.openai_answer import AnswerAssembler
from nanobee.providers.sse import ServerEvent
from nanobee.testing.anthropic_replies import build_event as anthropic_event
from nanobee.testing.model_replies import build_event as openai_event

NAMES = ("read_file", "list_dir", "write_file")


@dataclass(frozen=True)
class Wanted:
    """A call that the model asks for."""

    name: str
    arguments: str
    call_id: str


class Reader(Protocol):
    """What both assemblers are."""

    is_ended: bool

    def take_event(self, event: ServerEvent) -> Sequence[object]: ...
    def is_whole(self, *, is_framed: bool) -> bool: ...
    def finish(self) -> Sequence[object]: ...
    def completion(self) -> Completion: ...


values = st.dictionaries(st.sampled_from(["path", "content", "好"]), st.text(max_size=6), min_size=1, max_size=2)


@st.composite
def wanted_calls(draw: st.DrawFn) -> list[Wanted]:
    calls = []
    for at in range(draw(st.integers(1, 3))):
        arguments = draw(st.one_of(st.just(""), values.map(lambda value: json.dumps(value, ensure_ascii=False))))
        calls.append(Wanted(draw(st.sampled_from(NAMES)), arguments, f"id{at}"))
    return calls


@st.composite
def pieces_of(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.sets(st.integers(1, len(text) - 1), max_size=4))) if len(text) > 1 else []
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def read(answer: Reader, events: Sequence[bytes], *, is_framed: bool = True) -> Completion | None:
    """The completion; None where the client would raise an error instead."""
    try:
        for event in events:
            data = event.decode().partition("data: ")[2].strip()
            answer.take_event(ServerEvent("", data))
        if not answer.is_whole(is_framed=is_framed):
            return None
        answer.finish()
        return answer.completion()
    except ProviderError:
        return None


def runnable(completion: Completion) -> list[tuple[str, dict[str, object]]]:
    """What the agent would run: calls whose arguments it can read, but not the last one of a cut answer."""
    calls: Sequence[ToolCall] = completion.tool_calls
    if completion.finish_reason is FinishReason.LENGTH:
        calls = calls[:-1]
    found = []
    for call in calls:
        try:
            found.append((call.name, parse_arguments(call.arguments)))
        except ToolError:
            continue
    return found


def asked_for(calls: Sequence[Wanted]) -> list[tuple[str, dict[str, object]]]:
    return [(call.name, json.loads(call.arguments or "{}")) for call in calls]


def is_within(found: list[Any], wanted: list[Any]) -> bool:
    """Whether each that was found is one of those that were wanted, none of them twice."""
    left = list(wanted)
    for each in found:
        if each not in left:
            return False
        left.remove(each)
    return True


def interleave(draw: st.DrawFn, streams: list[list[bytes]]) -> list[bytes]:
    order = draw(st.permutations([at for at, stream in enumerate(streams) for _ in stream]))
    queues = [list(stream) for stream in streams]
    return [queues[at].pop(0) for at in order]


@st.composite
def openai_events(draw: st.DrawFn, calls: list[Wanted]) -> list[bytes]:
    """The calls' fragments: split anywhere, interleaved, ids once or always, some events twice."""
    repeats_ids, has_ids = draw(st.booleans()), draw(st.booleans())
    streams: list[list[bytes]] = []
    for at, call in enumerate(calls):
        stream = []
        head = [""] if draw(st.booleans()) else []
        for place, piece in enumerate([*head, *draw(pieces_of(call.arguments))]):
            entry: dict[str, Any] = {"index": at, "function": {"arguments": piece}}
            if place == 0:
                entry["function"]["name"] = call.name
            if has_ids and (place == 0 or repeats_ids):
                entry["id"] = call.call_id
            stream.append(openai_event({"delta": {"tool_calls": [entry]}}))
        streams.append(stream)
    return interleave(draw, streams)


@st.composite
def anthropic_events(draw: st.DrawFn, calls: list[Wanted]) -> list[bytes]:
    """The calls' blocks: split anywhere, interleaved, starts that come twice."""
    streams: list[list[bytes]] = []
    for at, call in enumerate(calls):
        block = {"type": "tool_use", "id": call.call_id, "name": call.name, "input": {}}
        start = anthropic_event("content_block_start", index=at, content_block=block)
        deltas = [
            anthropic_event("content_block_delta", index=at, delta={"type": "input_json_delta", "partial_json": piece})
            for piece in draw(pieces_of(call.arguments))
        ]
        stop = anthropic_event("content_block_stop", index=at)
        streams.append([*[start] * draw(st.integers(1, 2)), *deltas, stop])
    message = {"model": "m", "content": [], "usage": {}}
    return [anthropic_event("message_start", message=message), *interleave(draw, streams)]


OPENAI_ENDS = ("stop", "tool_calls", "length", "content_filter", "max_tokens", "eos")
ANTHROPIC_ENDS = ("end_turn", "tool_use", "max_tokens", "refusal", "pause_turn", "model_context_window_exceeded")


@given(st.data(), wanted_calls(), st.sampled_from(["stop", "tool_calls"]))
def test_an_openai_answer_that_is_whole_gives_exactly_its_calls(
    data: st.DataObject, calls: list[Wanted], finish: str
) -> None:
    events = data.draw(openai_events(calls))
    end = openai_event({"delta": {}, "finish_reason": finish})
    completion = read(AnswerAssembler("P", dialect=COMMON), [*events, end])
    assert completion is not None
    assert sorted(map(repr, runnable(completion))) == sorted(map(repr, asked_for(calls)))
    assert len({call.id for call in completion.tool_calls}) == len(calls)


@given(st.data(), wanted_calls(), st.sampled_from(OPENAI_ENDS), st.booleans(), st.booleans())
def test_an_openai_answer_that_is_cut_anywhere_gives_no_call_that_was_not_asked_for_whole(
    data: st.DataObject, calls: list[Wanted], finish: str, has_end: bool, is_framed: bool
) -> None:
    events = data.draw(openai_events(calls))
    kept = events[: data.draw(st.integers(0, len(events)))]
    end = [openai_event({"delta": {}, "finish_reason": finish})] if has_end else []
    is_honest = len(kept) == len(events) or not has_end or finish in ("length", "max_tokens", "content_filter")
    completion = read(AnswerAssembler("P", dialect=COMMON), [*kept, *end], is_framed=is_framed)
    if completion is None:
        return
    if is_honest:
        assert is_within(runnable(completion), asked_for(calls))
    assert all(call.name in NAMES for call in completion.tool_calls)
    assert len({call.id for call in completion.tool_calls}) == len(completion.tool_calls)


@given(st.data(), wanted_calls(), st.sampled_from(["end_turn", "tool_use"]))
def test_a_messages_answer_that_is_whole_gives_exactly_its_calls(
    data: st.DataObject, calls: list[Wanted], finish: str
) -> None:
    events = data.draw(anthropic_events(calls))
    end = anthropic_event("message_delta", delta={"stop_reason": finish}, usage={})
    completion = read(AnthropicAnswer("P"), [*events, end])
    assert completion is not None
    assert sorted(map(repr, runnable(completion))) == sorted(map(repr, asked_for(calls)))
    assert len({call.id for call in completion.tool_calls}) == len(calls)


@given(st.data(), wanted_calls(), st.sampled_from(ANTHROPIC_ENDS), st.booleans(), st.booleans())
def test_a_messages_answer_that_is_cut_anywhere_gives_no_call_that_was_not_asked_for_whole(
    data: st.DataObject, calls: list[Wanted], finish: str, has_end: bool, is_framed: bool
) -> None:
    events = data.draw(anthropic_events(calls))
    kept = events[: data.draw(st.integers(0, len(events)))]
    end = [anthropic_event("message_delta", delta={"stop_reason": finish}, usage={})] if has_end else []
    completion = read(AnthropicAnswer("P"), [*kept, *end], is_framed=is_framed)
    if completion is None:
        return
    assert is_within(runnable(completion), asked_for(calls))
    assert len({call.id for call in completion.tool_calls}) == len(completion.tool_calls)


@given(st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=5), st.dictionaries(
    st.sampled_from(["type", "index", "delta", "content_block", "message", "choices", "usage", "error", "content"]),
    st.recursive(
        st.one_of(st.none(), st.integers(0, 2), st.sampled_from(["tool_use", "text", "content_block_start", "x"])),
        lambda inner: st.one_of(
            st.lists(inner, max_size=2),
            st.dictionaries(st.sampled_from(["type", "id", "name", "delta", "tool_calls", "text"]), inner, max_size=3),
        ),
        max_leaves=6,
    ),
)), max_size=6))  # fmt: skip
def test_whatever_json_a_server_sends_is_survived(values: list[Any]) -> None:
    for answer in (AnswerAssembler("P", dialect=COMMON), AnthropicAnswer("P")):
        events = [b"data: " + json.dumps(value).encode() + b"\n\n" for value in values]
        completion = read(answer, events)
        assert completion is None or isinstance(completion.content, str)
