"""Composer: what a step sends to a model, within the model's window."""

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import anyio

from nanobee.agent.models import Choice
from nanobee.chat import ChatMessage, CompletionRequest, Thinking, ToolChoice, ToolSpec, Usage
from nanobee.clock import Clock
from nanobee.config import AgentSettings
from nanobee.context import Budget, Context, History, build_context
from nanobee.sessions.session import Session
from nanobee.system_prompt import TINY, SystemPrompt
from nanobee.tokens import estimate_tokens
from nanobee.tools.pictures import load_pictures

BLIND = "[You cannot see pictures; say so if it matters.]"
NOT_SHOWN = "[Not shown: {missing}]"
RESERVED_SHARE = 8
"""An eighth of the window is kept for the answer, where no setting says how long it may be."""
MAX_RESERVED_TOKENS = 8_192
LEARNING = 0.3
"""How much one reported usage moves the estimate's correction."""
MIN_RATIO, MAX_RATIO = 0.5, 3.0
"""Bounds of the correction, against servers that report nonsense."""
MIN_ESTIMATE = 200
"""Requests below this teach nothing: their fixed parts outweigh the text."""


@dataclass(slots=True)
class Calibration:
    """How far the estimate of tokens is off, by model, learned from the usage that servers report."""

    _ratios: dict[str, float] = field(default_factory=dict)

    def ratio(self, label: str) -> float:
        """Real tokens for each estimated one."""
        return self._ratios.get(label, 1.0)

    def learn(self, label: str, estimated: int, usage: Usage) -> None:
        """Take one call's usage into account."""
        if usage.input_tokens <= 0 or estimated < MIN_ESTIMATE:
            return
        seen = min(max(usage.input_tokens / estimated, MIN_RATIO), MAX_RATIO)
        old = self._ratios.get(label)
        self._ratios[label] = seen if old is None else old + LEARNING * (seen - old)


@dataclass(frozen=True, slots=True)
class Composed:
    """A request, and what it was estimated to cost."""

    request: CompletionRequest
    tokens: int
    context: Context
    budget: Budget


@dataclass(slots=True)
class Composer:
    """Builds requests. One for all turns of an agent."""

    prompt: SystemPrompt
    settings: AgentSettings
    clock: Clock
    calibration: Calibration = field(default_factory=Calibration)
    _costs: dict[tuple[str, ...], int] = field(default_factory=dict)
    _histories: WeakKeyDictionary[Session, History] = field(default_factory=WeakKeyDictionary)

    async def compose(
        self,
        choice: Choice,
        session: Session,
        tools: tuple[ToolSpec, ...],
        *,
        may_call: bool = True,
        share: float = 1.0,
        recalled: str = "",
    ) -> Composed:
        """The request of one step.

        `share` shrinks the history's budget, after a server said that it was too long; `recalled`
        stands beside the newest user message, and in no later request.
        """
        model = choice.model
        offered = tools if model.takes_tools else ()
        system = TINY if model.is_tiny else self.prompt.build(session.key)
        fixed = estimate_tokens(system) + self._cost(offered)
        budget = self._budget(choice, fixed, share)
        context = build_context(system, session, budget, history=self._history(session, model.is_tiny))
        own = choice.settings
        request = CompletionRequest(
            model=model.name,
            messages=await self._show(context, choice, session, recalled),
            tools=offered,
            tool_choice=ToolChoice.AUTO if may_call else ToolChoice.NONE,
            max_tokens=self._max_tokens(choice),
            temperature=own.temperature if own and own.temperature is not None else self.settings.temperature,
            thinking=Thinking.read(own.thinking) if own else None,
            user=own.user_tag if own else None,
        )
        return Composed(request, context.tokens + self._cost(offered), context, budget)

    def _history(self, session: Session, is_tiny: bool) -> History:
        """What was read of the session before; a toy model is told no times."""
        clock = None if is_tiny else self.clock
        history = self._histories.get(session)
        if history is None or history.clock is not clock:
            history = self._histories[session] = History(clock)
        return history

    async def _show(self, context: Context, choice: Choice, session: Session, recalled: str) -> tuple[ChatMessage, ...]:
        """The messages, with the newest pictures where the model can see, and with what was recalled."""
        if not context.pictures:
            return context.with_images((), recalled) if recalled else context.messages
        if not choice.takes_images:
            return context.with_images((), "\n".join(note for note in (BLIND, recalled) if note))
        view = self.prompt.memories.scopes.view(session.key)
        loaded = await anyio.to_thread.run_sync(load_pictures, view, context.pictures)
        missing = NOT_SHOWN.format(missing="; ".join(loaded.missing)) if loaded.missing else ""
        return context.with_images(loaded.images, "\n".join(note for note in (missing, recalled) if note))

    def _budget(self, choice: Choice, fixed: int, share: float) -> Budget:
        window = choice.context_tokens
        reserved = self._max_tokens(choice) or min(window // RESERVED_SHARE, MAX_RESERVED_TOKENS)
        left = max(window - reserved, 0) / self.calibration.ratio(choice.model.label) - fixed
        return Budget(max(int(left * self.settings.history_share * share), 0), self.settings.history_turns)

    def _max_tokens(self, choice: Choice) -> int | None:
        own = choice.settings.max_output_tokens if choice.settings else None
        return own if own is not None else self.settings.max_output_tokens

    def _cost(self, tools: tuple[ToolSpec, ...]) -> int:
        """What the tools' descriptions cost; counted once for each set of them."""
        key = tuple(tool.name for tool in tools)
        if key not in self._costs:
            self._costs[key] = sum(estimate_tokens(f"{t.name}{t.description}{t.parameters}") for t in tools)
        return self._costs[key]
