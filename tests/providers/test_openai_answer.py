from typing import Any

import pytest

from nanobee.chat import Completion, FinishReason, ReasoningDelta, TextDelta, ToolCall, Usage
from nanobee.errors import MalformedAnswerError, ProviderError, RateLimitError, ServerFaultError
from nanobee.providers.openai_answer import AnswerAssembler


def chunk(delta: Any, finish: Any = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def assemble(*chunks: Any) -> Completion:
    answer = AnswerAssembler("Provider main")
    for one in chunks:
        answer.feed(one)
    answer.finish()
    return answer.completion()


def whole(message: Any, finish: str = "stop", **more: Any) -> Completion:
    answer = AnswerAssembler("Provider main")
    answer.take_whole({"choices": [{"index": 0, "message": message, "finish_reason": finish}], **more})
    answer.finish()
    return answer.completion()


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        ("stop", FinishReason.STOP),
        ("eos", FinishReason.STOP),
        (None, FinishReason.STOP),
        (5, FinishReason.STOP),
        ("tool_calls", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("max_tokens", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
    ],
)
def test_finish_reasons_are_mapped(wire: object, reason: FinishReason) -> None:
    assert assemble(chunk({"content": "a"}), chunk({}, wire)).finish_reason is reason


@pytest.mark.parametrize("wire", ["stop", "tool_calls", "function_call", None])
def test_an_answer_with_calls_ended_for_them(wire: str | None) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}
    assert assemble(chunk({"tool_calls": [call]}), chunk({}, wire)).finish_reason is FinishReason.TOOL_CALLS


def test_o03_a_call_cut_by_the_limit_is_told_as_cut() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "write_file", "arguments": '{"path": "a.md", "content": "ha'}}
    completion = assemble(chunk({"tool_calls": [call]}), chunk({}, "length"))
    assert completion.finish_reason is FinishReason.LENGTH
    assert completion.tool_calls[0].arguments == '{"path": "a.md", "content": "ha'


@pytest.mark.parametrize("finish", ["error", "insufficient_system_resource"])
def test_a_finish_that_is_a_failure_is_an_error(finish: str) -> None:
    with pytest.raises(ServerFaultError):
        assemble(chunk({"content": "a"}), chunk({}, finish))


@pytest.mark.parametrize("content", ["", "  \n", None])
def test_o01_an_empty_answer_is_given_back_as_it_is(content: str | None) -> None:
    assert whole({"role": "assistant", "content": content}) == Completion(content or "")


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_o01c_reasoning_is_not_the_answer(field: str) -> None:
    completion = assemble(chunk({field: "let me "}), chunk({field: "think", "content": ""}), chunk({}, "stop"))
    assert completion.content == ""
    assert completion.reasoning == "let me think"


def test_reasoning_under_both_names_counts_once() -> None:
    answer = AnswerAssembler("P")
    assert answer.feed(chunk({"reasoning": "a", "reasoning_content": "a", "content": "b"})) == [
        ReasoningDelta("a"),
        TextDelta("b"),
    ]


def test_content_in_parts_is_joined() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {}},
        {"text": "b"},
        "c",
    ]
    completion = whole({"content": parts})
    assert completion.content == "ab"
    assert completion.reasoning == "hm"


def test_a_refusal_is_text_for_people() -> None:
    assert assemble(chunk({"refusal": "I cannot."}), chunk({}, "stop")).content == "I cannot."


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 2}, Usage(3, 2)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 8,
                "prompt_tokens_details": {"cached_tokens": 7},
                "completion_tokens_details": {"reasoning_tokens": 6},
            },
            Usage(9, 8, 7, 6),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4}, Usage(9, 1, 4)),
        ({"prompt_tokens": 9, "completion_tokens": 1, "cached_tokens": 4}, Usage(9, 1, 4)),
        ({"prompt_tokens": None, "completion_tokens": "many", "prompt_tokens_details": None}, Usage()),
        (None, Usage()),
    ],
)
def test_usage_is_read_wherever_it_stands(usage: Any, expected: Usage) -> None:
    assert assemble(chunk({"content": "a"}, "stop"), {"choices": [], "usage": usage}).usage == expected
    inside = {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop", "usage": usage}]}
    assert assemble(inside).usage == expected


def test_a_whole_answer_without_ids_and_indexes_keeps_its_calls_apart() -> None:
    calls = [{"function": {"name": "f", "arguments": ""}}, {"function": {"name": "f", "arguments": {"a": "好"}}}]
    completion = whole({"content": None, "tool_calls": calls}, "tool_calls", model="m-1")
    assert completion.tool_calls == (ToolCall("call_0", "f", "{}"), ToolCall("call_1", "f", '{"a": "好"}'))
    assert completion.model == "m-1"


def test_halves_of_a_character_in_two_chunks_are_one_character() -> None:
    answer = AnswerAssembler("P")
    deltas = [delta for text in ("a\ud83d", "\ude00b") for delta in answer.feed(chunk({"content": text}))]
    assert deltas == [TextDelta("a"), TextDelta("😀b")]
    answer.finish()
    assert answer.completion().content == "a😀b"


def test_a_half_at_the_end_is_replaced() -> None:
    assert assemble(chunk({"content": "a\ud83d"}, "stop")).content == "a\ufffd"


def test_an_error_inside_the_stream_ends_it() -> None:
    with pytest.raises(RateLimitError):
        assemble(chunk({"content": "a"}), {"error": {"code": 429, "message": "slow down"}})


@pytest.mark.parametrize("strange", [{}, {"choices": None}, {"choices": []}, {"choices": [None]}, {"choices": {}}])
def test_an_answer_without_a_choice_is_none(strange: Any) -> None:
    with pytest.raises(MalformedAnswerError):
        assemble(strange)


@pytest.mark.parametrize(
    "delta",
    [
        None,
        5,
        "text",
        {"content": 5, "tool_calls": "x"},
        {"tool_calls": [None, 5]},
        {"reasoning": {"a": 1}, "content": {"b": 2}},
        {"content": [None, 5, {"type": "text", "text": None}]},
    ],
)
def test_what_cannot_be_understood_is_left_out(delta: Any) -> None:
    assert assemble(chunk(delta), chunk({"content": "a"}, "stop")).content == "a"


@pytest.mark.parametrize("call", [{}, {"index": "0", "id": 7, "function": None}, {"function": {"name": 1}}])
def test_a_call_that_cannot_be_understood_is_an_error_of_ours(call: Any) -> None:
    with pytest.raises(ProviderError):
        assemble(chunk({"tool_calls": [call]}, "tool_calls"))
