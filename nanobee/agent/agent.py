"""Agent: what every turn works with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nanobee.agent.breaker import Breaker
from nanobee.agent.composing import Composer
from nanobee.agent.models import Models
from nanobee.agent.ownership import Ownership
from nanobee.bus.bus import Bus, Claim, NewSend, message_of
from nanobee.bus.live import LiveSlots
from nanobee.config import AgentSettings
from nanobee.memory.keeper import MemoryKeeper
from nanobee.messages import Address, OutboundMessage, PartKind
from nanobee.phrases import Language
from nanobee.sessions.store import SessionStore
from nanobee.tools.registry import ToolRegistry

Split = Callable[[Address, str], Sequence[str]]
"""Cuts a text into the parts that the address's channel takes."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of the gateway that turns use."""

    bus: Bus
    sessions: SessionStore
    live: LiveSlots
    split: Split


@dataclass(frozen=True, slots=True)
class Agent:
    """Models with a prompt, tools and limits; it answers turns in all sessions."""

    around: Surroundings
    models: Models
    tools: ToolRegistry
    memory: MemoryKeeper
    composer: Composer
    workspace: Path
    settings: AgentSettings
    language: Language = "en"
    reachable: tuple[str, ...] = ()
    """Session keys that the `message` tool may name in any chat: the owner's."""
    ownership: Ownership = field(default_factory=Ownership)
    breaker: Breaker = field(default_factory=Breaker)

    def serves_owner(self, claim: Claim) -> bool:
        """Whether all that a turn answers is the owner's own."""
        return all(self.ownership.owns(message_of(row)) for row in claim.rows)

    def send(self, message: OutboundMessage, kind: PartKind, key: str) -> NewSend:
        """An outbound message cut into its channel's parts."""
        return NewSend(message, kind, key, tuple(self.around.split(message.address, message.text)))
