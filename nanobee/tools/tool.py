"""Tool: a function that the model may call, and what it is given."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import BaseModel

from nanobee.chat import ToolResult, ToolSpec
from nanobee.messages import Address, Attachment, OutboundMessage
from nanobee.tools.process_group import ProcessGroup
from nanobee.tools.view import View

MAX_TOOL_SECONDS = 300.0
"""How long one call may take unless its tool says otherwise."""


async def _announce_to_nobody(group: ProcessGroup) -> None:
    """For calls that no turn makes: nobody finds the group again after a crash."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Who asks, where, with what workspace."""

    workspace: Path
    """Resolved root that file tools stay inside."""
    address: Address
    """The chat that the turn answers."""
    session_key: str
    turn: str
    call_id: str
    sender_id: str = ""
    reachable: tuple[str, ...] = ()
    """Session keys that the `message` tool may name beside the turn's own chat (the owner's)."""
    is_owner: bool = False
    """The owner asks, in a chat of their own."""
    memory: PurePosixPath | None = None
    """Where the conversation's own memory stands, relative to the workspace; None where it has none."""
    announce_process: Callable[[ProcessGroup], Awaitable[None]] = _announce_to_nobody
    """Tell it of each group of processes that the call starts, before these do anything.

    At the return it is on disk: what outlives a crash of this process is ended at the next start.

    Raises:
        ToolError: it could not be stored; the processes must do nothing.
    """

    @property
    def view(self) -> View:
        """What of the workspace exists for file tools."""
        return View(self.workspace, self.memory, self.is_owner)


@dataclass(frozen=True, slots=True)
class Question:
    """What a tool wants to know from the person it works for."""

    text: str
    choices: tuple[str, ...] = ()
    """What may be answered; empty for any text."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool gives back: text for the model, and effects that are committed with it.

    `sends` are put into the outbox in the transaction that stores the result, with ids from
    (turn, call), so that they never double over a crash.
    """

    content: str
    sends: tuple[OutboundMessage, ...] = ()
    question: Question | None = None
    """Puts the turn to sleep until a person has answered: the answer becomes the call's result."""
    attachments: tuple[Attachment, ...] = ()
    """Pictures that the model is to look at, by reference; they are shown while the turn runs."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What became of one tool call: its result, and effects to commit with it. A failure has none."""

    result: ToolResult
    sends: tuple[OutboundMessage, ...] = ()
    question: Question | None = None
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """One callable of the registry."""

    spec: ToolSpec
    arguments_type: type[BaseModel]
    run: Callable[[ToolContext, BaseModel], Awaitable[ToolOutput]]
    """Runs with validated arguments.

    Raises:
        ToolError: worded for the model.
    """
    is_parallel_safe: bool = False
    """May run beside other parallel-safe calls of the same step."""
    is_idempotent: bool = False
    """May be run again after a crash: its intent needs no record."""
    needs_owner: bool = False
    """Exists only for the owner, in chats of their own; anybody else's model does not see it."""
    max_seconds: float = MAX_TOOL_SECONDS
    """After this a call is given up; what it did until then is not known."""

    def is_offered(self, is_owner: bool) -> bool:
        """Whether it exists for who asks."""
        return is_owner or not self.needs_owner

    @property
    def name(self) -> str:
        """As the model calls it."""
        return self.spec.name
