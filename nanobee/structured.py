"""Structured answers: ask a model for an instance of a pydantic model, by a virtual tool that is never run.

The ladder, from the rung that binds the model most to the one that any server takes:

1. forced   the virtual tool is offered and its call is forced
2. auto     the tool is offered and asked for; after a server that refuses 1, or a model that talks instead
3. schema   the answer's text must follow the JSON schema
4. plain    the same, asked for in words only; after a server that refuses 3

The first answer that is there but not valid gets one repair round that shows the model its faults. So an
answer costs one call as a rule, and five at most.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from inspect import cleandoc
from typing import Generic, TypeVar

from pydantic import BaseModel

from nanobee.arguments import build_schema, clean_text, parse_arguments, validate_arguments
from nanobee.chat import (
    ChatMessage,
    Completion,
    CompletionRequest,
    FinishReason,
    ToolCall,
    ToolChoice,
    ToolSpec,
)
from nanobee.errors import RequestRefusedError, StructuredError, ToolError
from nanobee.providers.model import Model

CUT = "your answer was cut by the output limit; give a shorter one."
MAX_CANDIDATES = 40
"""Places in a text at which a JSON object is looked for."""
MAX_SHOWN_CHARS = 2_000
"""How much of its own broken answer the model is shown."""

AnswerT = TypeVar("AnswerT", bound=BaseModel)


async def ask(model: Model, messages: Sequence[ChatMessage], answer_type: type[AnswerT]) -> AnswerT:
    """Ask for an `answer_type`, whose name and docstring tell the model what it is for.

    Raises:
        StructuredError: no valid answer on any rung; the text says what was wrong with the last.
        ProviderError: the server failed otherwise than by refusing a form of request.
    """
    return await _Inquiry(model, tuple(messages), answer_type).climb_down()


class _Rung(StrEnum):
    FORCED = "forced"
    AUTO = "auto"
    SCHEMA = "schema"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class _Miss:
    """An answer that is none."""

    problem: str
    correction: tuple[ChatMessage, ...] = ()
    """What to add to the request for a repair round; nothing where the model did not try at all."""


class _Inquiry(Generic[AnswerT]):
    """One question on its way down the ladder."""

    def __init__(self, model: Model, messages: tuple[ChatMessage, ...], answer_type: type[AnswerT]) -> None:
        self._model = model
        self._messages = messages
        self._answer_type = answer_type
        self._may_repair = True

    async def climb_down(self) -> AnswerT:
        """Try each rung that the model can stand on."""
        problem = "the model takes no form of this request"
        skipped: set[_Rung] = {_Rung.PLAIN}
        for rung in _rungs(self._model):
            if rung in skipped:
                continue
            try:
                answer = await self._try(rung)
            except RequestRefusedError as error:
                if error.is_missing:
                    raise
                problem = f"{rung}: {error}"
                if rung is _Rung.SCHEMA:
                    skipped.discard(_Rung.PLAIN)
                continue
            if not isinstance(answer, _Miss):
                return answer
            problem = f"{rung}: {answer.problem}"
            if answer.correction:
                # It called the tool, only wrongly: asking less strictly for the same call is no use.
                skipped.add(_Rung.AUTO)
        raise StructuredError(f"no valid {self._spec.name} from {self._model.label} ({problem})")

    async def _try(self, rung: _Rung) -> AnswerT | _Miss:
        request = self._build_request(rung)
        answer = await self._ask(rung, request)
        if isinstance(answer, _Miss) and answer.correction and self._may_repair:
            self._may_repair = False
            answer = await self._ask(rung, replace(request, messages=(*request.messages, *answer.correction)))
        return answer

    async def _ask(self, rung: _Rung, request: CompletionRequest) -> AnswerT | _Miss:
        completion = await self._model.provider.complete(request)
        if rung in (_Rung.FORCED, _Rung.AUTO):
            return self._read_calls(request, completion)
        return self._read_text(completion)

    def _build_request(self, rung: _Rung) -> CompletionRequest:
        request = CompletionRequest(self._model.name, self._messages)
        match rung:
            case _Rung.FORCED:
                return replace(request, tools=(self._spec,), tool_choice=ToolChoice.FORCED)
            case _Rung.AUTO:
                instruction = f"Answer by calling the tool {self._spec.name}, and by nothing else."
                return replace(request, tools=(self._spec,), messages=_instructed(self._messages, instruction))
            case _Rung.SCHEMA | _Rung.PLAIN:
                messages = _instructed(self._messages, self._schema_instruction())
                schema = self._schema if rung is _Rung.SCHEMA else None
                return replace(request, response_schema=schema, messages=messages)

    @cached_property
    def _spec(self) -> ToolSpec:
        description = cleandoc(self._answer_type.__doc__ or "") or "Give your answer in this form."
        return ToolSpec(_tool_name(self._answer_type), description, self._schema)

    @cached_property
    def _schema(self) -> Mapping[str, object]:
        return build_schema(self._answer_type)

    def _schema_instruction(self) -> str:
        schema = json.dumps(self._schema, ensure_ascii=False, separators=(",", ":"))
        return f"{self._spec.description}\n\nAnswer with one JSON object after this schema, and nothing else:\n{schema}"

    def _read_calls(self, request: CompletionRequest, completion: Completion) -> AnswerT | _Miss:
        """The first valid call of the virtual tool."""
        if not completion.tool_calls:
            return _Miss("the model wrote text instead of calling the tool")
        problems = []
        is_cut = completion.finish_reason is FinishReason.LENGTH
        for call in completion.tool_calls:
            try:
                if is_cut and call is completion.tool_calls[-1]:
                    # It may parse all the same: some servers close what they have cut.
                    raise ToolError(CUT)
                return self._read_call(call)
            except ToolError as error:
                problems.append(str(error))
        return _Miss(problems[-1], _correct_calls(request.messages, completion, problems))

    def _read_call(self, call: ToolCall) -> AnswerT:
        if call.name.rpartition(".")[2].lower() != self._spec.name:
            raise ToolError(f"there is no tool {call.name[:64]!r} here; call {self._spec.name}")
        return validate_arguments(self._answer_type, parse_arguments(call.arguments))

    def _read_text(self, completion: Completion) -> AnswerT | _Miss:
        """The first valid JSON object in the text."""
        problem = ""
        for candidate in _candidates(completion.content):
            try:
                return validate_arguments(self._answer_type, parse_arguments(candidate))
            except ToolError as error:
                problem = problem or str(error)
        problem = problem or "there is no JSON object in the answer"
        if completion.finish_reason is FinishReason.LENGTH:
            problem = CUT
        shown = clean_text(completion.content)[:MAX_SHOWN_CHARS]
        request = ChatMessage("user", f"That is not valid: {problem} Answer again, with the JSON object only.")
        # An assistant message must have text, and two user messages in a row please few servers.
        said = ChatMessage("assistant", shown if shown.strip() else "(no answer)")
        return _Miss(problem, (said, request))


def _rungs(model: Model) -> Iterator[_Rung]:
    if model.takes_tools:
        if model.takes_forced_call:
            yield _Rung.FORCED
        yield _Rung.AUTO
    yield _Rung.SCHEMA
    yield _Rung.PLAIN


def _tool_name(answer_type: type[BaseModel]) -> str:
    """`SaveMemory` as `save_memory`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", answer_type.__name__)
    return re.sub(r"[^a-z0-9_]+", "_", words.lower()).strip("_")[:64] or "answer"


def _instructed(messages: tuple[ChatMessage, ...], instruction: str) -> tuple[ChatMessage, ...]:
    """The messages with an instruction at their end, without a second user message in a row."""
    if messages and messages[-1].role == "user":
        last = messages[-1]
        return (*messages[:-1], replace(last, content=f"{last.content}\n\n{instruction}"))
    return (*messages, ChatMessage("user", instruction))


def _correct_calls(
    messages: Sequence[ChatMessage], completion: Completion, problems: Sequence[str]
) -> tuple[ChatMessage, ...]:
    """The model's calls, made legal, each answered by what is wrong with it."""
    taken = {call.id for message in messages for call in message.tool_calls}
    calls, results = [], []
    for call, problem in zip(completion.tool_calls, problems, strict=True):
        arguments, is_legal = _legal_arguments(call.arguments)
        call_id = _free_id(call.id, taken)
        taken.add(call_id)
        calls.append(replace(call, id=call_id, arguments=arguments))
        sent = "" if is_legal else f" You sent: {clean_text(call.arguments)[:MAX_SHOWN_CHARS]}"
        results.append(ChatMessage("tool", f"Not valid: {problem} Call it again.{sent}", tool_call_id=call_id))
    said = ChatMessage(
        "assistant",
        clean_text(completion.content),
        tool_calls=tuple(calls),
        reasoning=completion.reasoning,
        echo=completion.echo,
    )
    return (said, *results)


def _legal_arguments(arguments: str) -> tuple[str, bool]:
    """Arguments that a history may hold: one JSON object."""
    try:
        return json.dumps(parse_arguments(arguments), ensure_ascii=False), True
    except ToolError:
        return "{}", False


def _free_id(wanted: str, taken: set[str]) -> str:
    number, free = 1, wanted
    while not free or free in taken:
        free, number = f"call_{number}", number + 1
    return free


def _candidates(text: str) -> Iterator[str]:
    """What may be the JSON object in a model's text: all of it, what is fenced, what stands in braces."""
    text = text.rpartition("</think>")[2].strip()
    if text.startswith(("{", "[", '"')):
        yield text
    for fenced in text.split("```", 2 * MAX_CANDIDATES)[1:-1:2]:
        yield fenced.partition("\n")[2]
    decoder = json.JSONDecoder(strict=False)
    start = text.find("{")
    for _ in range(MAX_CANDIDATES):
        if start < 0:
            return
        try:
            _, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            yield text[start:end]
        start = text.find("{", end)
