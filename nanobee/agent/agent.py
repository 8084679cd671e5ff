"""Agent: what every turn works with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nanobee.bus.bus import Bus, NewSend
from nanobee.bus.live import LiveSlots
from nanobee.clock import Clock
from nanobee.config import AgentSettings
from nanobee.messages import Address, OutboundMessage, PartKind
from nanobee.phrases import Language
from nanobee.providers.model import Model
from nanobee.sessions.store import SessionStore
from nanobee.system_prompt import SystemPrompt
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
    """A model with its prompt, tools and limits; it answers turns in all sessions."""

    around: Surroundings
    model: Model
    tools: ToolRegistry
    prompt: SystemPrompt
    workspace: Path
    settings: AgentSettings
    clock: Clock
    language: Language = "en"
    reachable: tuple[str, ...] = ()
    """Session keys that the `message` tool may name in any chat: the owner's."""

    def send(self, message: OutboundMessage, kind: PartKind, key: str) -> NewSend:
        """An outbound message cut into its channel's parts."""
        return NewSend(message, kind, key, tuple(self.around.split(message.address, message.text)))
