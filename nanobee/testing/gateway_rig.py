"""GatewayRig: a whole gateway in this process, on a real bus, between a memory channel and a model server."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from nanobee.channel import AnyChannel
from nanobee.config import AgentSettings, ModelSettings, OpenAISettings, PluginSettings, Settings
from nanobee.config_memory import MemorySettings
from nanobee.gateway import Gateway, open_gateway, run_channel
from nanobee.providers.model import Model
from nanobee.providers.openai import OpenAIProvider
from nanobee.testing.memory_channel import MemoryChannel


@dataclass(frozen=True, slots=True)
class GatewayRig:
    """Opens the same gateway again and again: each time as after a restart."""

    root: Path
    """A temporary folder for workspace and state."""
    base_url: str
    """Of the model server."""
    agent: AgentSettings = field(default_factory=AgentSettings)
    providers: Mapping[str, PluginSettings] = field(default_factory=dict)
    """Beside `main`, which is the model server at `base_url`."""
    models: Mapping[str, ModelSettings] = field(default_factory=dict)
    owner: tuple[str, ...] = ()
    """As `Settings.owner`; who says something in a `MemoryChannel` is `memory:1`, unless the test says otherwise."""

    memory: MemorySettings = field(default_factory=lambda: MemorySettings(max_calls_per_day=0))
    """Without calls of its own to the model, unless the test is about memory."""

    @property
    def settings(self) -> Settings:
        """What the gateway runs on."""
        return Settings(
            workspace=self.root / "workspace",
            state=self.root / "state",
            agent=self.agent,
            providers=self.providers,
            models=self.models,
            owner=self.owner,
            memory=self.memory,
        )

    @asynccontextmanager
    async def open(
        self, channel: MemoryChannel | None = None, others: Mapping[str, AnyChannel] | None = None
    ) -> AsyncIterator[tuple[Gateway, MemoryChannel]]:
        """A running gateway with `channel` and `others`; interrupted at the end, as by SIGTERM."""
        memory = channel or MemoryChannel()
        channels: dict[str, AnyChannel] = {memory.name: memory, **(others or {})}
        provider = OpenAIProvider("main", OpenAISettings(kind="openai", base_url=self.base_url))
        model = Model(provider, "main/test-model", "test-model", self.agent.context_tokens)
        try:
            async with open_gateway(self.settings, channels, model) as gateway, anyio.create_task_group() as tasks:
                for each in channels.values():
                    tasks.start_soon(run_channel, gateway, each)
                try:
                    yield gateway, memory
                finally:
                    await gateway.wind_down(0)
                    tasks.cancel_scope.cancel()
        finally:
            await provider.aclose()
