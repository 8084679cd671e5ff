"""Turn: one or more inbound rows to one answer, step by step, each step committed before the next."""

import logging
from dataclasses import dataclass, field, replace

from nanobee.agent.agent import Agent
from nanobee.agent.asking import ask_model
from nanobee.agent.calls import CallRunner
from nanobee.agent.phrases import CUT_CALLS, EMPTY_ANSWER, MODEL_FAILED, STEP_LIMIT
from nanobee.bus.bus import Claim, NewSend, message_of
from nanobee.bus.lines import LineKind, NewLine, TurnState
from nanobee.chat import Completion, CompletionRequest, FinishReason, ToolChoice
from nanobee.config import BusyMode
from nanobee.context import build_context
from nanobee.errors import ProviderError
from nanobee.messages import LivePart, OutboundMessage, PartKind
from nanobee.phrases import Phrase
from nanobee.sessions.session import Session, assistant_line
from nanobee.system_prompt import TINY

logger = logging.getLogger(__name__)

MAX_EMPTY = 3
"""Empty completions in a row, after which the user is told."""
MAX_CUT = 3
"""Tool calls in a row that the output limit cut, after which the user is told."""


@dataclass(slots=True)
class Turn:
    """One claim on its way to an answer."""

    agent: Agent
    claim: Claim
    session: Session
    _cut: int = 0
    _live_part: int = field(default=-1)

    async def run(self) -> None:
        """Work until the turn is finished, or sleeps.

        Raises:
            StaleTurnError: it was stopped; nothing more may be written.
            BusError: a step could not be stored.
        """
        calls = CallRunner(self.agent, self.claim, self.session)
        if self.claim.is_resumed and await calls.settle():
            return
        try:
            for step in range(self.agent.settings.max_steps):
                completion = await self._ask(may_call=step < self.agent.settings.max_steps - 1)
                if completion is None:
                    return await self._fail(EMPTY_ANSWER, times=MAX_EMPTY)
                if not completion.tool_calls:
                    return await self._finish(completion, calls)
                if await self._run_calls(calls, completion):
                    return
                if self._cut >= MAX_CUT:
                    return await self._fail(CUT_CALLS, times=MAX_CUT)
                await self._steer()
        except ProviderError as error:
            logger.warning("%s: %s: %s", self.session.key, self.agent.model.label, error)
            return await self._fail(MODEL_FAILED, reason=str(error))
        await self._fail(STEP_LIMIT, steps=self.agent.settings.max_steps)

    async def _ask(self, may_call: bool) -> Completion | None:
        """One completion with text or calls; None where the model keeps giving neither."""
        request = self._request(may_call)
        for _ in range(MAX_EMPTY):
            fragments: list[str] = []
            self._live_part += 1
            part = self._part()

            def show(text: str, fragments: list[str] = fragments, part: LivePart = part) -> None:
                fragments.append(text)
                self.agent.around.live.publish(part, fragments)

            completion = await ask_model(self.agent.model, request, show)
            if completion.tool_calls or completion.content.strip():
                return completion
            logger.warning("%s: %s gave an empty answer", self.session.key, self.agent.model.label)
        return None

    def _request(self, may_call: bool) -> CompletionRequest:
        model, settings = self.agent.model, self.agent.settings
        system = TINY if model.is_tiny else self.agent.prompt.build()
        tools = self.agent.tools.specs() if model.takes_tools else ()
        return CompletionRequest(
            model=model.name,
            messages=build_context(
                system, self.session, model.context_tokens, None if model.is_tiny else self.agent.clock
            ),
            tools=tools,
            tool_choice=ToolChoice.AUTO if may_call else ToolChoice.NONE,
            max_tokens=settings.max_output_tokens,
            temperature=settings.temperature,
        )

    def _part(self, activity: str | None = None) -> LivePart:
        message = message_of(self.claim.rows[-1])
        return LivePart(self.claim.address, self.claim.ref.turn, self._live_part, message.source_id, activity)

    async def _run_calls(self, calls: CallRunner, completion: Completion) -> bool:
        """Run a step's calls; True where one asked a question, so that the turn sleeps."""
        is_cut = completion.finish_reason is FinishReason.LENGTH
        self._cut = self._cut + 1 if is_cut else 0

        def show(activity: str) -> None:
            self.agent.around.live.publish(self._part(activity), [completion.content])

        return await calls.run(completion, show)

    async def _steer(self) -> None:
        """Take in what was said while the turn ran, where the chat is set so."""
        if self.agent.settings.busy is not BusyMode.STEER:
            return
        rows, lines = await self.agent.around.bus.steer(self.claim.ref)
        if rows:
            self.claim = replace(self.claim, rows=(*self.claim.rows, *rows))
            self.session.extend(lines)

    async def _finish(self, completion: Completion, calls: CallRunner) -> None:
        """Store the answer and send it, unless the `message` tool has said the same here already."""
        text = completion.content.strip()
        lines = [
            assistant_line(completion),
            NewLine(LineKind.TURN, {"state": TurnState.DONE}),
        ]
        sends = [] if calls.has_said(text) else [self._say(text, PartKind.ANSWER)]
        self.session.extend(await self.agent.around.bus.finish(self.claim.ref, lines, sends))

    async def _fail(self, phrase: Phrase, **values: object) -> None:
        """End the turn with one plain line, which never enters the history."""
        text = phrase.say(self.agent.language, **values)
        lines = [NewLine(LineKind.TURN, {"state": TurnState.FAILED, "reason": text})]
        sends = [self._say(text, PartKind.NOTICE)]
        self.session.extend(await self.agent.around.bus.finish(self.claim.ref, lines, sends))

    def _say(self, text: str, kind: PartKind) -> NewSend:
        message = message_of(self.claim.rows[-1])
        return self.agent.send(OutboundMessage(message.address, text, message.source_id), kind, "final")
