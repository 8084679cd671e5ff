import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from nanobee.chat import ChatMessage, Completion, CompletionRequest, FinishReason, ToolCall, ToolChoice, ToolSpec
from nanobee.errors import (
    ContextLengthError,
    ProviderError,
    RateLimitError,
    RequestRefusedError,
    ServerFaultError,
    StructuredError,
)
from nanobee.providers.model import Model
from nanobee.providers.openai_wire import build_body, encode_body, find_dialect
from nanobee.structured import ask
from nanobee.testing.scripted import ScriptedProvider, ScriptStep, call_tools
from nanobee.testing.strict_history import StrictHistory


class SaveMemory(BaseModel):
    """Save what is worth keeping.

    Leave out small talk.
    """

    model_config = ConfigDict(extra="forbid")

    history_entry: str = Field(max_length=200)
    tier: Literal["daily", "misc"] = "daily"


class Undocumented(BaseModel):
    notes: list[SaveMemory]
    title: str | None = None


MESSAGES = (ChatMessage("system", "You keep notes."), ChatMessage("user", "We met at nine."))
GOOD = {"history_entry": "met at nine"}
ANSWER = SaveMemory(history_entry="met at nine")
CALL = call_tools(("save_memory", GOOD))
REFUSED = RequestRefusedError("tool_choice is not supported")


class Asked:
    """What came out of one question, and what was sent for it."""

    def __init__(self, *script: ScriptStep, **model: Any) -> None:
        self.provider = ScriptedProvider(*script)
        self.model = Model(self.provider, "main/m", "m", **model)

    async def ask(self, messages: tuple[ChatMessage, ...] = MESSAGES) -> SaveMemory:
        answer = await ask(self.model, messages, SaveMemory)
        assert self.provider.script == []
        self.check_history()
        return answer

    async def fail(self) -> str:
        with pytest.raises(StructuredError) as caught:
            await self.ask()
        assert self.provider.script == []
        self.check_history()
        return str(caught.value)

    def check_history(self) -> None:
        """Every request that was made would pass the strictest server."""
        for request in self.provider.requests:
            body = encode_body(build_body(request, find_dialect(""), stream=False))
            assert StrictHistory(alternate=True).check(body) == ()

    @property
    def rungs(self) -> list[str]:
        return [_rung(request) for request in self.provider.requests]


def _rung(request: CompletionRequest) -> str:
    if request.tools:
        assert request.response_schema is None
        return request.tool_choice.value
    return "plain" if request.response_schema is None else "schema"


async def test_a_forced_call_answers_at_once() -> None:
    asked = Asked(CALL)
    assert await asked.ask() == ANSWER
    (request,) = asked.provider.requests
    assert request.messages == MESSAGES
    assert request.model == "m"
    assert request.tool_choice is ToolChoice.FORCED
    assert request.tools == (
        ToolSpec(
            "save_memory",
            "Save what is worth keeping.\n\nLeave out small talk.",
            {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "history_entry": {"type": "string", "maxLength": 200},
                    "tier": {"type": "string", "enum": ["daily", "misc"], "default": "daily"},
                },
                "required": ["history_entry"],
            },
        ),
    )
    assert request.max_tokens is None


@pytest.mark.parametrize(
    ("name", "tool_name"),
    [("SaveMemory", "save_memory"), ("HTTPReply2Go", "http_reply2_go"), ("Box[int]", "box_int"), ("名", "answer")],
)
async def test_the_tool_is_named_after_the_type(name: str, tool_name: str) -> None:
    named = type(name, (SaveMemory,), {"__module__": __name__})
    asked = Asked(call_tools((tool_name, GOOD)))
    assert isinstance(await ask(asked.model, MESSAGES, named), named)
    (spec,) = asked.provider.requests[0].tools
    assert spec.name == tool_name
    assert spec.description == "Give your answer in this form."


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps(json.dumps(GOOD)),
        json.dumps([GOOD]),
        json.dumps([json.dumps(GOOD)]),
        json.dumps({**GOOD, "mood": "fine", "memory": {"a": 1}}),
    ],
)
async def test_o17_a_b_f_loosely_written_arguments_are_accepted(arguments: str) -> None:
    assert await Asked(call_tools(("save_memory", arguments))).ask() == ANSWER


async def test_o17_g_lone_surrogates_do_not_reach_the_answer() -> None:
    asked = Asked(call_tools(("save_memory", '{"history_entry": "a\\ud800b \\ud83d\\ude00"}')))
    assert (await asked.ask()).history_entry == "a\ufffdb 😀"


async def test_o17_h_of_several_calls_the_first_valid_one_counts() -> None:
    asked = Asked(
        call_tools(
            ("read_file", {"history_entry": "not this"}),
            ("save_memory", {"tier": "daily"}),
            ("functions.save_memory", GOOD),
            ("save_memory", {"history_entry": "not this either"}),
        )
    )
    assert await asked.ask() == ANSWER


async def test_a_server_that_refuses_to_force_is_asked_without_force() -> None:
    asked = Asked(REFUSED, CALL)
    assert await asked.ask() == ANSWER
    assert asked.rungs == ["forced", "auto"]
    system, user = asked.provider.requests[1].messages
    assert system == MESSAGES[0]
    assert user.content == "We met at nine.\n\nAnswer by calling the tool save_memory, and by nothing else."


async def test_a_model_that_talks_instead_goes_down_the_ladder() -> None:
    asked = Asked("Sure, I saved it.", "Done!", json.dumps(GOOD))
    assert await asked.ask() == ANSWER
    assert asked.rungs == ["forced", "auto", "schema"]
    last = asked.provider.requests[2]
    assert last.response_schema is not None
    assert last.response_schema["required"] == ["history_entry"]
    assert "Save what is worth keeping." in last.messages[-1].content
    assert '"maxLength":200' in last.messages[-1].content


async def test_prose_beside_a_call_does_not_matter_and_json_in_prose_is_no_call() -> None:
    asked = Asked(json.dumps(GOOD), call_tools(("save_memory", GOOD), text="Saving."))
    assert await asked.ask() == ANSWER
    assert asked.rungs == ["forced", "auto"]


async def test_a_server_that_takes_no_tools_and_no_schema_is_asked_in_words() -> None:
    asked = Asked(REFUSED, REFUSED, REFUSED, f"Here you are:\n```json\n{json.dumps(GOOD)}\n```\nAnything else?")
    assert await asked.ask() == ANSWER
    assert asked.rungs == ["forced", "auto", "schema", "plain"]


@pytest.mark.parametrize(
    ("traits", "rungs"),
    [
        ({"takes_forced_call": False}, ["auto", "schema", "schema"]),
        ({"takes_tools": False}, ["schema", "schema"]),
        ({"takes_tools": False, "takes_forced_call": False}, ["schema", "schema"]),
    ],
)
async def test_rungs_that_the_model_cannot_stand_on_are_skipped(traits: dict[str, bool], rungs: list[str]) -> None:
    asked = Asked(*["no"] * len(rungs), **traits)
    assert "there is no JSON object in the answer" in await asked.fail()
    assert asked.rungs == rungs


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        f"  {json.dumps(GOOD)}\n",
        json.dumps([GOOD]),
        json.dumps(json.dumps(GOOD)),
        f"```json\n{json.dumps(GOOD, indent=2)}\n```",
        f"```\n{json.dumps(GOOD)}\n```",
        f"The set {{1, 2}} and {{}} aside: {json.dumps({**GOOD, 'x': {'y': 1}})}. Done {{really}}.",
        f'<think>maybe {{"history_entry": "draft"}}</think>{json.dumps(GOOD)}',
        f'{{"tier": "daily"}} or rather {json.dumps(GOOD)}',
        "{" * 20 + json.dumps(GOOD),
    ],
)
async def test_the_object_is_found_in_the_text_of_a_schema_answer(text: str) -> None:
    assert await Asked(text, takes_tools=False).ask() == ANSWER


@pytest.mark.parametrize(
    "text", ["{" * 100_000, '{"a":' * 50_000, "```json\n" * 5_000, "[" * 100_000, "```" + "\n" * 100_000]
)
async def test_a_hostile_text_costs_a_repair_round_and_no_more(text: str) -> None:
    asked = Asked(text, json.dumps(GOOD), takes_tools=False)
    assert await asked.ask() == ANSWER
    assert len(asked.provider.requests[1].messages[-2].content) <= 2_000


async def test_a_wrong_call_gets_one_repair_round_that_shows_what_is_wrong() -> None:
    wrong = Completion(
        "",
        (ToolCall("abc", "save_memory", '{"tier": "weekly"}'),),
        FinishReason.TOOL_CALLS,
        reasoning="I think it is weekly.",
    )
    asked = Asked(wrong, CALL)
    assert await asked.ask() == ANSWER
    assert asked.rungs == ["forced", "forced"]
    said, result = asked.provider.requests[1].messages[len(MESSAGES) :]
    assert said == ChatMessage("assistant", "", wrong.tool_calls, reasoning="I think it is weekly.")
    assert result.role == "tool"
    assert result.tool_call_id == "abc"
    assert "history_entry: missing; tier: Input should be 'daily' or 'misc'" in result.content
    assert "Fields: history_entry (required), tier." in result.content


@pytest.mark.parametrize(
    "arguments",
    ['{"history_entry": "cut he', "not json \ud800", "[1, 2]", '"text"', "7", '{"history_entry": ["a", "b"]}', ""],
)
async def test_o17_c_the_repair_round_is_legal_whatever_the_model_wrote(arguments: str) -> None:
    broken = call_tools(("save_memory", arguments), ("save_memory", arguments), ("other", arguments), text="\ud800")
    asked = Asked(Completion(broken.content, tuple(_with_id(call, "same") for call in broken.tool_calls)), CALL)
    assert await asked.ask() == ANSWER
    said, *results = asked.provider.requests[1].messages[len(MESSAGES) :]
    assert len({call.id for call in said.tool_calls}) == 3
    assert [result.tool_call_id for result in results] == [call.id for call in said.tool_calls]
    assert all(isinstance(json.loads(call.arguments), dict) for call in said.tool_calls)
    assert "there is no tool 'other' here; call save_memory" in results[-1].content


def _with_id(call: ToolCall, call_id: str) -> ToolCall:
    return ToolCall(call_id, call.name, call.arguments)


async def test_ids_of_the_repair_round_are_not_those_of_the_history() -> None:
    history = (
        ChatMessage("user", "Read it."),
        ChatMessage("assistant", tool_calls=(ToolCall("call_0", "read_file", "{}"), ToolCall("call_1", "x", "{}"))),
        ChatMessage("tool", "text", tool_call_id="call_0"),
        ChatMessage("tool", "text", tool_call_id="call_1"),
        ChatMessage("assistant", "It is read."),
        ChatMessage("user", "Save it."),
    )
    asked = Asked(call_tools(("save_memory", "{}")), CALL)
    assert await asked.ask(history) == ANSWER
    assert asked.provider.requests[1].messages[len(history)].tool_calls[0].id == "call_2"


async def test_a_second_wrong_call_goes_down_to_the_schema_without_another_repair() -> None:
    wrong = call_tools(("save_memory", {"tier": "weekly"}))
    asked = Asked(wrong, wrong, json.dumps(GOOD))
    assert await asked.ask() == ANSWER
    assert asked.rungs == ["forced", "forced", "schema"]
    asked = Asked(wrong, wrong, json.dumps({"tier": "weekly"}))
    assert await asked.fail() == (
        "no valid save_memory from main/m (schema: history_entry: missing; tier: Input should be 'daily' or 'misc'."
        " Fields: history_entry (required), tier.)"
    )


async def test_a_wrong_text_gets_the_repair_round_too() -> None:
    asked = Asked(REFUSED, "prose", '{"history_entry": 7}', json.dumps(GOOD))
    assert await asked.ask() == ANSWER
    assert asked.rungs == ["forced", "auto", "schema", "schema"]
    said, told = asked.provider.requests[3].messages[-2:]
    assert said == ChatMessage("assistant", '{"history_entry": 7}')
    assert told.role == "user"
    assert "history_entry: Input should be a valid string, not an integer" in told.content


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_an_empty_answer_is_repaired_legally(text: str) -> None:
    asked = Asked(text, json.dumps(GOOD), takes_tools=False)
    assert await asked.ask() == ANSWER


async def test_never_more_than_five_calls() -> None:
    asked = Asked(REFUSED, REFUSED, REFUSED, "no", "no")
    assert "plain: there is no JSON object in the answer" in await asked.fail()
    assert asked.rungs == ["forced", "auto", "schema", "plain", "plain"]


async def test_a_server_that_refuses_everything_is_a_structured_error() -> None:
    asked = Asked(REFUSED, REFUSED, REFUSED, REFUSED)
    assert await asked.fail() == "no valid save_memory from main/m (plain: tool_choice is not supported)"


async def test_a_repair_round_that_is_refused_goes_on_below() -> None:
    asked = Asked(call_tools(("save_memory", "{}")), REFUSED, "prose", json.dumps(GOOD))
    assert await asked.ask() == ANSWER
    assert asked.rungs == ["forced", "forced", "auto", "schema"]


@pytest.mark.parametrize(
    "error", [RateLimitError("slow down"), ServerFaultError("500"), ContextLengthError("too long"), ProviderError("x")]
)
async def test_other_errors_of_the_provider_pass_through(error: ProviderError) -> None:
    asked = Asked(REFUSED, error)
    with pytest.raises(type(error)):
        await asked.ask()
    assert asked.rungs == ["forced", "auto"]


async def test_a_call_that_was_cut_is_not_taken_even_where_it_parses() -> None:
    cut = Completion("", (ToolCall("a", "save_memory", '{"history_entry": "met at"}'),), FinishReason.LENGTH)
    asked = Asked(cut, CALL)
    assert await asked.ask() == ANSWER
    assert "cut by the output limit; give a shorter one" in asked.provider.requests[1].messages[-1].content


async def test_a_call_before_the_one_that_was_cut_is_whole() -> None:
    calls = (ToolCall("a", "save_memory", json.dumps(GOOD)), ToolCall("b", "save_memory", '{"history_en'))
    assert await Asked(Completion("", calls, FinishReason.LENGTH)).ask() == ANSWER


async def test_a_text_that_was_cut_is_asked_for_again_shorter() -> None:
    cut = Completion('{"history_entry": "met a', finish_reason=FinishReason.LENGTH)
    asked = Asked(cut, json.dumps(GOOD), takes_tools=False)
    assert await asked.ask() == ANSWER
    assert "cut by the output limit" in asked.provider.requests[1].messages[-1].content


async def test_types_inside_the_type_are_described_and_made() -> None:
    provider = ScriptedProvider(call_tools(("undocumented", {"notes": [GOOD]})))
    model = Model(provider, "main/m", "m")
    assert await ask(model, MESSAGES, Undocumented) == Undocumented(notes=[ANSWER])
    (spec,) = provider.requests[0].tools
    parameters: dict[str, Any] = dict(spec.parameters)
    assert parameters["properties"]["notes"]["items"] == {"$ref": "#/$defs/SaveMemory"}
    assert parameters["$defs"]["SaveMemory"]["properties"]["history_entry"]["maxLength"] == 200
    assert parameters["properties"]["title"] == {"type": "string"}


async def test_messages_without_a_users_get_one_for_the_instruction() -> None:
    asked = Asked(json.dumps(GOOD), takes_tools=False)
    assert await asked.ask((ChatMessage("system", "Only rules."),)) == ANSWER
    assert [message.role for message in asked.provider.requests[0].messages] == ["system", "user"]
