"""Turn: one or more inbound rows to one answer, step by step, each step committed before the next."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nanobee.agent.agent import Agent
from nanobee.agent.asking import ask_models
from nanobee.agent.calls import CallRunner
from nanobee.agent.composing import Composed
from nanobee.agent.models import Choice
from nanobee.agent.phrases import CUT_CALLS, EMPTY_ANSWER, FILTERED, MODEL_FAILED, STEP_LIMIT, TOO_LONG
from nanobee.bus.bus import Claim, NewSend, message_of
from nanobee.bus.lines import LineKind, NewLine, TurnState
from nanobee.chat import Completion, CompletionRequest, FinishReason
from nanobee.config import BusyMode
from nanobee.errors import ContextLengthError, ProviderError
from nanobee.messages import LivePart, OutboundMessage, PartKind
from nanobee.phrases import Phrase
from nanobee.sessions.session import Session, assistant_line

logger = logging.getLogger(__name__)

MAX_EMPTY = 3
"""Empty completions in a row, after which the user is told."""
MAX_CUT = 3
"""Tool calls in a row that the output limit cut, after which the user is told."""
SHRUNK_SHARE = 0.5
"""Of the history's budget, after a server said that the request was too long."""


@dataclass(slots=True)
class Turn:
    """One claim on its way to an answer."""

    agent: Agent
    claim: Claim
    session: Session
    chain: Sequence[Choice]
    """The models to ask, the first one first."""
    composed: Composed | None = None
    """What was sent last, for whoever looks after the history when the turn is over."""
    _cut: int = 0
    _share: float = 1.0
    _live_part: int = field(default=-1)
    _recalled: str = ""

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
            await self._work(calls)
        except ContextLengthError as error:
            logger.warning("%s: %s", self.session.key, error)
            await self._fail(TOO_LONG)
        except ProviderError as error:
            logger.warning("%s: %s: %s", self.session.key, self.chain[0].model.label, error)
            await self._fail(MODEL_FAILED, reason=str(error))

    async def _work(self, calls: CallRunner) -> None:
        max_steps = self.agent.settings.max_steps
        if self.chain[0].model.is_tiny:
            self.agent.memory.give_way()
        else:
            said = "\n".join(message_of(row).text for row in self.claim.rows)
            self._recalled = await self.agent.memory.recall(self.session.key, said)
        for step in range(max_steps):
            completion = await self._ask(calls, may_call=step < max_steps - 1)
            if completion is None:
                return await self._fail(EMPTY_ANSWER, times=MAX_EMPTY)
            if not completion.tool_calls:
                return await self._finish_or_refuse(completion, calls)
            if await self._run_calls(calls, completion):
                return
            if self._cut >= MAX_CUT:
                return await self._fail(CUT_CALLS, times=MAX_CUT)
            await self._steer()
        await self._fail(STEP_LIMIT, steps=max_steps)

    async def _ask(self, calls: CallRunner, may_call: bool) -> Completion | None:
        """One completion with text or calls; None where the model keeps giving neither.

        Neither is an answer too where the `message` tool has said something already.
        """
        for _ in range(MAX_EMPTY):
            try:
                completion = await self._ask_once(may_call)
            except ContextLengthError as error:
                if self._share < 1.0:
                    raise
                logger.warning("%s: %s; asked again with less history", self.session.key, error)
                self._share = SHRUNK_SHARE
                completion = await self._ask_once(may_call)
            is_filtered = completion.finish_reason is FinishReason.CONTENT_FILTER
            if completion.tool_calls or completion.content.strip() or is_filtered or calls.has_said(""):
                return completion
            logger.warning("%s: %s gave an empty answer", self.session.key, completion.model)
        return None

    async def _ask_once(self, may_call: bool) -> Completion:
        fragments: list[str] = []
        self._live_part += 1
        part = self._part()

        def show(text: str) -> None:
            fragments.append(text)
            self.agent.around.live.publish(part, fragments)

        async def build(choice: Choice) -> CompletionRequest:
            tools = self.agent.tools.specs(self.agent.serves_owner(self.claim))
            composer = self.agent.composer
            self.composed = await composer.compose(
                choice, self.session, tools, may_call=may_call, share=self._share, recalled=self._recalled
            )
            return self.composed.request

        completion, choice = await ask_models(self.chain, self.agent.breaker, build, show)
        if self.composed is not None:
            self.agent.composer.calibration.learn(choice.model.label, self.composed.tokens, completion.usage)
        return replace(completion, model=choice.model.label)

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
        if self.claim.busy is not BusyMode.STEER:
            return
        rows, lines = await self.agent.around.bus.steer(self.claim.ref)
        if rows:
            self.claim = replace(self.claim, rows=(*self.claim.rows, *rows))
            self.session.extend(lines)

    async def _finish_or_refuse(self, completion: Completion, calls: CallRunner) -> None:
        if completion.finish_reason is FinishReason.CONTENT_FILTER and not completion.content.strip():
            return await self._fail(FILTERED)
        await self._finish(completion, calls)

    async def _finish(self, completion: Completion, calls: CallRunner) -> None:
        """Store the answer and send it.

        Where the `message` tool has said the same here already, the text is empty: it only
        tells the channel that the turn is over.
        """
        text = completion.content.strip()
        lines = [assistant_line(completion), NewLine(LineKind.TURN, {"state": TurnState.DONE})]
        shown = "" if calls.has_said(text) else text
        if self.claim.shows_reasoning and completion.reasoning:
            shown = f"{_quoted(completion.reasoning)}\n\n{shown}"
        sends = [self._say(shown, PartKind.ANSWER)]
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


def _quoted(reasoning: str) -> str:
    return "\n".join(f"> {line}" for line in reasoning.strip().splitlines())
