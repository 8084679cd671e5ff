"""Compaction: a session's old exchanges become a summary, in the background, never on the reply path."""

import logging

import anyio
from anyio.abc import TaskGroup
from pydantic import BaseModel, Field

from nanobee.agent.agent import Agent
from nanobee.agent.composing import Composed
from nanobee.bus.lines import LineKind, NewLine
from nanobee.chat import ChatMessage
from nanobee.errors import BusError, ProviderError, StructuredError
from nanobee.exchanges import Exchange
from nanobee.sessions.session import Session
from nanobee.structured import ask

logger = logging.getLogger(__name__)

BEGIN_SHARE = 0.8
"""Of the history's budget; beyond it a session is compacted."""
VERBATIM_SHARE = 0.3
"""Of the history's budget; the newest exchanges within it stay as they are."""
MAX_AT_ONCE = 2
"""Compactions side by side, over all sessions."""
RETRY_LINES = 40
"""Lines that a session grows by before a failed compaction is tried again."""
MAX_SUMMARY_CHARS = 8_000
INSTRUCTION = """\
Summarize the conversation above for yourself: you will go on with it and see only your summary. Keep what the user \
wants, decisions, facts, names, numbers, file paths, what was done with tools and what is still open. Write in the \
user's language. If a summary of an earlier part stands in it, keep what matters of that too."""


class ConversationSummary(BaseModel):
    """Keep what matters of the conversation's older part."""

    summary: str = Field(min_length=1, max_length=MAX_SUMMARY_CHARS, description="The summary, as plain text.")


class Compactor:
    """Looks at each session after its turn. A failure costs nothing: the window cuts what does not fit."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._limit = anyio.Semaphore(MAX_AT_ONCE)
        self._under_way: set[str] = set()
        self._not_before: dict[str, int] = {}
        """Session's `seq` from which on a failed compaction is tried again."""
        self._tasks: TaskGroup | None = None

    def start(self, tasks: TaskGroup) -> None:
        """Compact from now on; every task belongs to `tasks`."""
        self._tasks = tasks

    def look_at(self, session: Session, composed: Composed | None) -> None:
        """Begin a compaction where the history fills its budget."""
        if composed is None or self._tasks is None or session.key in self._under_way:
            return
        old = split_old(composed)
        if not old or session.lines[-1].seq < self._not_before.get(session.key, 0):
            return
        self._under_way.add(session.key)
        self._tasks.start_soon(self._compact, session, composed, old, name="compact")

    async def _compact(self, session: Session, composed: Composed, old: list[Exchange]) -> None:
        last = session.lines[-1].seq
        try:
            async with self._limit:
                messages = _conversation(session, composed, old)
                summary = await ask(self._agent.models.default.model, messages, ConversationSummary)
            through = composed.context.exchanges[len(old)].seq - 1
            line = NewLine(LineKind.COMPACTED, {"through": through, "summary": summary.summary})
            session.extend(await self._agent.around.bus.append(session.key, [line]))
            logger.info("%s: %d exchanges were compacted", session.key, len(old))
        except (ProviderError, StructuredError, BusError) as error:
            logger.warning("%s: not compacted: %s", session.key, error)
            self._not_before[session.key] = last + RETRY_LINES
        except Exception:
            # Background work: its fault must end neither the turns nor the gateway.
            logger.exception("%s: not compacted", session.key)
            self._not_before[session.key] = last + RETRY_LINES
        finally:
            self._under_way.discard(session.key)


def split_old(composed: Composed) -> list[Exchange]:
    """The exchanges to compact: none while the history is well within its budget."""
    exchanges, budget = composed.context.exchanges, composed.budget.tokens
    sizes = [exchange.tokens for exchange in exchanges]
    if sum(sizes) <= budget * BEGIN_SHARE:
        return []
    kept, place = 0, len(exchanges)
    while place > 0 and (place == len(exchanges) or kept + sizes[place - 1] <= budget * VERBATIM_SHARE):
        place -= 1
        kept += sizes[place]
    return list(exchanges[:place])


def _conversation(session: Session, composed: Composed, old: list[Exchange]) -> list[ChatMessage]:
    """The old part as it stands in the context, then the instruction."""
    start = next(place for place, message in enumerate(composed.request.messages) if message.role == "user")
    length = sum(1 + sum(len(step) for step in exchange.steps) for exchange in old)
    messages = list(composed.request.messages[start : start + length])
    if messages[-1].role == "user":
        messages.append(ChatMessage("assistant", "(no answer)"))
    return [*messages, ChatMessage("user", INSTRUCTION)]
