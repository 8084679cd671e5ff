"""CallRunner: the tool calls of a turn's steps, with their intents and results in the journal."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import groupby

import anyio

from nanobee.agent.agent import Agent
from nanobee.agent.questions import word_question
from nanobee.bus.bus import Claim, NewSend, message_of
from nanobee.bus.lines import LineKind, NewLine, TurnState
from nanobee.bus.suspension import NewSuspension, create_suspension_id
from nanobee.chat import Completion, FinishReason, ToolCall, ToolResult
from nanobee.errors import StateError, ToolError
from nanobee.exchanges import UNKNOWN_OUTCOME, legal_arguments
from nanobee.messages import Attachment, OutboundMessage, PartKind
from nanobee.sessions.session import Session, assistant_line, message_line
from nanobee.tools.process_group import ProcessGroup
from nanobee.tools.tool import ToolContext, ToolOutcome

CUT_CALL = (
    "Not run: your output reached its limit inside this call, so its arguments are cut. "
    "Nothing was changed. Do it in several smaller calls."
)
PENDING = "Pending #{id}: the user was asked. The answer comes later, as the result of a repeated call."
MAX_ACTIVITY_CHARS = 60


@dataclass(slots=True)
class _Step:
    """What a step has still to store."""

    lines: list[NewLine]
    sends: list[NewSend] = field(default_factory=list)
    questions: list[NewSuspension] = field(default_factory=list)
    pending: list[NewLine] = field(default_factory=list)
    """The results of calls that asked; they stand in the session only together with their questions."""

    def after_record(self) -> "_Step":
        """What is left once lines and sends are stored."""
        return _Step([], questions=self.questions, pending=self.pending)


class CallRunner:
    """Runs calls in order, those that are declared safe side by side. One object a turn."""

    def __init__(self, agent: Agent, claim: Claim, session: Session) -> None:
        self._agent = agent
        self._claim = claim
        self._session = session
        self._count = 0
        self._said: set[str] = set()

    def has_said(self, text: str) -> bool:
        """Whether the turn has sent exactly `text` into its own chat; for an empty text, anything."""
        return text in self._said or (not text and bool(self._said))

    async def run(self, completion: Completion, show: Callable[[str], None]) -> bool:
        """Run a completion's calls and store the assistant message and their results.

        An effect begins only after its intent is on disk; the last results are on disk at the
        return. True means that a call asked a question: the turn sleeps until it is answered.
        """
        calls = [self._own(call) for call in completion.tool_calls]
        cut = calls[-1] if completion.finish_reason is FinishReason.LENGTH else None
        step = _Step([assistant_line(completion, [replace(c, arguments=legal_arguments(c.arguments)) for c in calls])])
        for batch in self._batches(calls):
            intents = [self._intent(call) for call in batch if call is not cut and self._may_have_effect(call)]
            if intents:
                await self._record([*step.lines, *intents], step.sends)
                step = step.after_record()
            show("; ".join(describe_call(call) for call in batch))
            for call, outcome in zip(batch, await self._run_batch(batch, cut), strict=True):
                self._take(step, call, outcome)
        return await self._store(step)

    async def settle(self) -> bool:
        """Take up a turn that was begun before; True means that it sleeps again.

        After a crash, calls that were left open are run; one with an intent and no result is
        not, unless its tool may be run again: its outcome is unknown. After a question, its call
        is repeated with the answer.
        """
        lines = self._session.turn_lines(self._claim.ref.turn)
        answered = {line.data.get("tool_call_id") for line in lines if line.data.get("role") == "tool"}
        begun = {line.data.get("call") for line in lines if line.kind == LineKind.TOOL_STARTED}
        step = _Step([])
        lasts = [_calls_of(line.data)[-1:] for line in lines if line.data.get("finish_reason") == FinishReason.LENGTH]
        cut = {call.id for last in lasts for call in last}
        for call in [call for line in lines for call in _calls_of(line.data) if call.id not in answered]:
            if call.id in cut:
                step.lines.append(_result_line(call, ToolResult(call.id, CUT_CALL, is_error=True)))
                continue
            if call.id in begun and not self._is_idempotent(call):
                step.lines.append(_result_line(call, ToolResult(call.id, UNKNOWN_OUTCOME, is_error=True)))
                continue
            if self._may_have_effect(call):
                await self._record([*step.lines, self._intent(call)], step.sends)
                step = step.after_record()
            self._take(step, call, await self._run_one(call))
        return await self._store(step) or await self._take_answers()

    async def _take_answers(self) -> bool:
        """Repeat answered calls under fresh ids at the end of the log, with the answers as their results."""
        answers = await self._agent.around.bus.answers(self._claim.ref)
        if answers:
            calls = [self._own(ToolCall("", answer.tool, answer.arguments)) for answer in answers]
            stored = Completion("", tuple(calls))
            results = [
                _result_line(call, ToolResult(call.id, answer.answer or ""))
                for call, answer in zip(calls, answers, strict=True)
            ]
            lines = [assistant_line(stored, calls), *results]
            self._session.extend(
                await self._agent.around.bus.record(self._claim.ref, lines, consumed=[answer.id for answer in answers])
            )
        return False

    def _take(self, step: "_Step", call: ToolCall, outcome: ToolOutcome) -> None:
        """Add a call's outcome to what the next transaction stores."""
        if outcome.question is None:
            step.lines.append(_result_line(call, outcome.result, outcome.attachments))
            step.sends += self._sends(call, outcome)
            return
        question = outcome.question
        pending = NewSuspension(create_suspension_id(), call, question.text, question.choices)
        step.questions.append(pending)
        step.pending.append(_result_line(call, ToolResult(call.id, PENDING.format(id=pending.id))))

    async def _store(self, step: "_Step") -> bool:
        if not step.questions:
            if step.lines:
                await self._record(step.lines, step.sends)
            return False
        lines = [*step.lines, *step.pending, NewLine(LineKind.TURN, {"state": TurnState.SUSPENDED})]
        sends = [*step.sends, *(self._ask(question) for question in step.questions)]
        bus = self._agent.around.bus
        self._session.extend(await bus.suspend(self._claim.ref, lines, sends, step.questions))
        return True

    def _ask(self, question: NewSuspension) -> NewSend:
        message = message_of(self._claim.rows[-1])
        text = word_question(question, self._agent.language)
        outbound = OutboundMessage(message.address, text, message.source_id)
        return self._agent.send(outbound, PartKind.QUESTION, f"ask-{question.id}")

    def _own(self, call: ToolCall) -> ToolCall:
        """The call under an id that is unique in the session's history, whatever the server sent.

        The epoch tells the claims of one turn apart: none of them needs to know the others' calls.
        """
        self._count += 1
        ref = self._claim.ref
        return ToolCall(f"call_{ref.turn}_{ref.epoch}_{self._count}", call.name, call.arguments)

    def _batches(self, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
        for is_safe, group in groupby(calls, self._is_parallel_safe):
            if is_safe:
                yield list(group)
            else:
                yield from ([call] for call in group)

    def _is_parallel_safe(self, call: ToolCall) -> bool:
        tool = self._agent.tools.get(call.name)
        return tool is not None and tool.is_parallel_safe

    def _is_idempotent(self, call: ToolCall) -> bool:
        tool = self._agent.tools.get(call.name)
        return tool is None or tool.is_idempotent

    def _may_have_effect(self, call: ToolCall) -> bool:
        """What only looks may run beside others and again."""
        tool = self._agent.tools.get(call.name)
        return tool is not None and not (tool.is_parallel_safe and tool.is_idempotent)

    @staticmethod
    def _intent(call: ToolCall) -> NewLine:
        return NewLine(LineKind.TOOL_STARTED, {"call": call.id, "name": call.name})

    async def _run_batch(self, batch: Sequence[ToolCall], cut: ToolCall | None) -> list[ToolOutcome]:
        outcomes: dict[str, ToolOutcome] = {}

        async def run_one(call: ToolCall) -> None:
            outcomes[call.id] = await self._run_one(call)

        async with anyio.create_task_group() as tasks:
            for call in batch:
                if call is cut:
                    outcomes[call.id] = ToolOutcome(ToolResult(call.id, CUT_CALL, is_error=True))
                else:
                    tasks.start_soon(run_one, call)
        return [outcomes[call.id] for call in batch]

    async def _run_one(self, call: ToolCall) -> ToolOutcome:
        message = message_of(self._claim.rows[-1])
        context = ToolContext(
            workspace=self._agent.workspace,
            address=message.address,
            session_key=self._session.key,
            turn=self._claim.ref.turn,
            call_id=call.id,
            sender_id=message.sender_id,
            reachable=self._agent.reachable,
            is_owner=self._agent.serves_owner(self._claim),
            memory=self._agent.memory.memories.scopes.of(self._session.key).folder,
            announce_process=partial(self._record_process, call),
        )
        return await self._agent.tools.call(context, call)

    async def _record_process(self, call: ToolCall, group: ProcessGroup) -> None:
        """Add a process group to the call's intent, before its processes do anything."""
        intent = self._intent(call)
        line = NewLine(intent.kind, {**intent.data, "process": group.to_json()})
        try:
            await self._record([line], [])
        except StateError as error:
            # If the turn has ended, or the bus still fails, storing the result says so.
            raise ToolError(f"it was not run, since it could not be recorded: {error}") from error

    def _sends(self, call: ToolCall, outcome: ToolOutcome) -> list[NewSend]:
        self._said |= {m.text.strip() for m in outcome.sends if m.address == self._claim.address}
        return [
            self._agent.send(message, PartKind.MESSAGE, f"{call.id}.{number}")
            for number, message in enumerate(outcome.sends)
        ]

    async def _record(self, lines: Sequence[NewLine], sends: Sequence[NewSend]) -> None:
        self._session.extend(await self._agent.around.bus.record(self._claim.ref, lines, sends))


def _result_line(call: ToolCall, result: ToolResult, attachments: Sequence[Attachment] = ()) -> NewLine:
    return message_line(
        "tool",
        result.content,
        tool_call_id=call.id,
        name=call.name,
        is_error=result.is_error or None,
        attachments=[asdict(attachment) for attachment in attachments],
    )


def _calls_of(data: object) -> list[ToolCall]:
    found = data.get("tool_calls") if isinstance(data, dict) else None
    if not isinstance(found, list):
        return []
    return [ToolCall(call["id"], call["name"], call["arguments"]) for call in found]


def describe_call(call: ToolCall) -> str:
    """A call in a few words for people: its name and its first short argument."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return call.name
    values = arguments.values() if isinstance(arguments, dict) else ()
    for value in values:
        if isinstance(value, str) and value and "\n" not in value:
            return f"{call.name} {value[:MAX_ACTIVITY_CHARS]}"
    return call.name
