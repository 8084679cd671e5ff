"""Gateway: the composition root. Builds every part, owns the task groups, stops them in order."""

import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio
from anyio.abc import TaskGroup, TaskStatus

from nanobee.agent.agent import Agent, Surroundings
from nanobee.agent.commands import create_commands
from nanobee.agent.composing import Composer
from nanobee.agent.dispatch import Dispatcher
from nanobee.agent.memory_commands import register_memory_commands
from nanobee.agent.models import Models
from nanobee.agent.notices import ChatNotices, OwnerNotices
from nanobee.agent.orphans import end_orphans
from nanobee.agent.ownership import Ownership
from nanobee.agent.read_result import create_read_result
from nanobee.agent.session_commands import register_session_commands
from nanobee.bus.cancellation import contain
from nanobee.bus.delivery import Delivery
from nanobee.bus.holder import hold
from nanobee.bus.inbox import ChannelInbox
from nanobee.bus.resolver import Resolver
from nanobee.bus.sqlite import SqliteBus, open_bus
from nanobee.channel import AnyChannel
from nanobee.clock import load_clock
from nanobee.config import Settings
from nanobee.config_source import validate_section
from nanobee.errors import ChannelAuthError, ConfigError, ConfigProblem, NanobeeError, PluginError
from nanobee.memory.keeper import Keeping
from nanobee.memory.scope import Scopes
from nanobee.memory.tools import create_memory_tools
from nanobee.messages import Address
from nanobee.plugins import load_channel
from nanobee.providers.discover import choose_model
from nanobee.providers.model import Model
from nanobee.remote.channel import TERMINAL, RemoteChannel
from nanobee.remote.local import LocalClient
from nanobee.remote.server import HolderSide, Server
from nanobee.reporter import RecentErrors, Reporter, no_errors
from nanobee.sessions.files import SessionFiles
from nanobee.sessions.store import SessionStore
from nanobee.switchboard import Switchboard
from nanobee.system_prompt import SystemPrompt
from nanobee.tools.builtin import create_builtin_registry
from nanobee.workspace import init_workspace

logger = logging.getLogger(__name__)

TURN_SECONDS = 12.0
"""How long a stop waits for the turns that run."""
SEND_SECONDS = 5.0
"""How long a stop waits for the sends that are under way or ready."""
MEMORY_SECONDS = 10.0
"""How long a terminal that was left waits for what was said in it to be remembered."""
LOOK_SECONDS = 0.5
"""Of that, how long the turn whose answer was just sent may take to hand it over."""
CLOSE_SECONDS = 5.0
"""How long a stop waits for the model's connections to close."""
FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 60.0
"""Pauses before a channel that fell over is started again."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway's parts, for those who started it."""

    bus: SqliteBus
    agent: Agent
    channels: Mapping[str, AnyChannel]
    _switchboard: Switchboard
    _turns: "Turns"

    def wake(self, session_key: str) -> None:
        """Look at a session's rows again: they were changed from outside."""
        self._switchboard.session_ready(session_key)
        self._switchboard.control_ready()
        self._switchboard.row_arriving()
        self._switchboard.outbox_ready(Address.from_session_key(session_key))

    async def wind_down(self, turn_seconds: float, memory_seconds: float = 0) -> None:
        """Accept nothing more, let turns end for so long, and send what is ready, while channels still live.

        Turns that do not end in time are handed back: the next start goes on with them. What is on
        its way into memory has `memory_seconds`; a call to a model that is cut off was for nothing.
        """
        self.bus.stop_receiving()
        with anyio.CancelScope(shield=True):
            await self._switchboard.dispatcher.drain(max(turn_seconds, min(memory_seconds, LOOK_SECONDS)))
            with anyio.move_on_after(memory_seconds):
                await self.agent.memory.consolidator.wait_idle()
            self._turns.scope.cancel()
            with anyio.move_on_after(CLOSE_SECONDS):
                await self._turns.ended.wait()
            await self._switchboard.delivery.drain(SEND_SECONDS)


@dataclass(frozen=True, slots=True)
class Turns:
    """The tasks of all turns, apart from the deliveries', so that these can outlive them."""

    scope: anyio.CancelScope
    ended: anyio.Event


@asynccontextmanager
async def open_gateway(settings: Settings, channels: Mapping[str, AnyChannel], model: Model) -> AsyncIterator[Gateway]:
    """Everything but the channels' own `run`: bus, turns, deliveries. The state folder is held by us.

    At the end turns are interrupted (the next start resumes them), and the sends that are
    under way are waited for.

    Raises:
        HeldError: another process holds the state folder.
        StateError: the state folder cannot be used.
    """
    with hold(settings.state):
        if not settings.workspace.exists():
            init_workspace(settings.workspace)
        files = SessionFiles(settings.state)
        split = _splitter(channels)
        async with open_bus(settings.state, files, ChatNotices(settings.language, split)) as bus:
            tell_owner = OwnerNotices(settings.language, settings.owner, split)
            delivery, resolver = Delivery(channels, tell_owner), Resolver(channels)
            around = Surroundings(bus, SessionStore(files, bus, _history_tokens(settings)), delivery.live, split)
            agent = _create_agent(settings, around, bus, files, model, _ownership(settings, channels))
            commands = create_commands(settings.language)
            register_session_commands(commands)
            register_memory_commands(commands)
            dispatcher = Dispatcher(agent, commands)
            async with _closing(channels, agent.models), anyio.create_task_group() as tasks:
                delivery.start(bus, tasks)
                await end_orphans(around.sessions, await bus.begun_turns())
                turns: Turns = await tasks.start(_run_turns, bus, dispatcher, resolver)
                switchboard = Switchboard(dispatcher, resolver, delivery, channels)
                await bus.listen(switchboard)
                gateway = Gateway(bus, agent, channels, switchboard, turns)
                try:
                    yield gateway
                finally:
                    await gateway.wind_down(0)
                    delivery.stop()
                    tasks.cancel_scope.cancel()


@asynccontextmanager
async def _closing(channels: Mapping[str, AnyChannel], models: Models) -> AsyncIterator[None]:
    """Close what sends and model calls have opened, whatever ends the block."""
    try:
        yield
    finally:
        for channel in channels.values():
            await _close(channel)
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await models.aclose()


async def _close(channel: AnyChannel) -> None:
    with anyio.move_on_after(CLOSE_SECONDS, shield=True):
        try:
            await channel.aclose()
        except Exception:
            # One channel's fault must not keep the others open.
            logger.exception("channel %s could not be closed", channel.name)


async def _run_turns(
    bus: SqliteBus, dispatcher: Dispatcher, resolver: Resolver, *, task_status: TaskStatus[Turns]
) -> None:
    ended = anyio.Event()
    try:
        async with anyio.create_task_group() as tasks:
            dispatcher.start(tasks)
            task_status.started(Turns(tasks.cancel_scope, ended))
            await resolver.run(bus)
    finally:
        ended.set()


def _ownership(settings: Settings, channels: Mapping[str, AnyChannel]) -> Ownership:
    terminals = (name for name, channel in channels.items() if channel.settings.kind == TERMINAL)
    return Ownership(frozenset(settings.owner), frozenset(terminals))


def _create_agent(
    settings: Settings,
    around: Surroundings,
    bus: SqliteBus,
    files: SessionFiles,
    model: Model,
    ownership: Ownership,
) -> Agent:
    clock = load_clock(settings.timezone)
    tools = create_builtin_registry()
    tools.add(create_read_result(files))

    async def create(label: str) -> Model:
        return await choose_model(with_model(settings, label), os.environ)

    models = Models(model, settings.agent, dict(settings.models), create)

    async def choose() -> Model:
        choice = models.default if settings.memory.model is None else await models.find(settings.memory.model)
        return replace(choice.model, context_tokens=choice.context_tokens)

    scopes = Scopes(settings.workspace, ownership.ids, ownership.terminals, settings.memory.scope)
    keeping = Keeping(bus, files, around.sessions, scopes, choose, settings.memory, clock, settings.state)
    keeper = keeping.create_keeper()
    for each in create_memory_tools(keeper):
        tools.add(each)
    return Agent(
        around=around,
        models=models,
        tools=tools,
        memory=keeper,
        composer=Composer(SystemPrompt(settings.workspace, clock, keeper.memories), settings.agent, clock),
        workspace=settings.workspace,
        settings=settings.agent,
        language=settings.language,
        reachable=settings.owner,
        ownership=ownership,
    )


def _history_tokens(settings: Settings) -> int:
    """What the largest history of a context may cost: more is not read of a session's file."""
    windows = [settings.agent.context_tokens, *(preset.context_tokens or 0 for preset in settings.models.values())]
    return int(max(windows) * settings.agent.history_share)


def with_model(settings: Settings, name: str | None) -> Settings:
    """The settings with `agent.model` as a label: a preset's name is replaced by what it stands for."""
    preset = settings.models.get(name) if name is not None else None
    label = name if preset is None else preset.model
    return settings.model_copy(update={"agent": settings.agent.model_copy(update={"model": label})})


def _splitter(channels: Mapping[str, AnyChannel]) -> Callable[[Address, str], Sequence[str]]:
    def split(address: Address, text: str) -> Sequence[str]:
        channel = channels.get(address.channel)
        try:
            return (text,) if channel is None else channel.split(text)
        except Exception:
            # A channel's fault over one text must end neither the turn nor the gateway.
            logger.exception("channel %s cannot split a text", address.channel)
            return (text,)

    return split


async def run_channel(gateway: Gateway, channel: AnyChannel) -> None:
    """Run a channel until it is done, again after each fault, with growing pauses.

    Raises:
        ChannelAuthError: the platform refuses our credentials.
    """
    pause = FIRST_PAUSE_SECONDS
    while True:
        started = anyio.current_time()
        try:
            return await contain(channel.run(ChannelInbox(gateway.bus, channel)))
        except ChannelAuthError:
            raise
        except Exception:
            # One channel's fault must not end the others.
            logger.exception("channel %s fell over; it starts again in %.0f s", channel.name, pause)
        await anyio.sleep(pause)
        was_long = anyio.current_time() - started > 2 * MAX_PAUSE_SECONDS
        pause = FIRST_PAUSE_SECONDS if was_long else min(pause * 2, MAX_PAUSE_SECONDS)


async def _run_beside(gateway: Gateway, channel: AnyChannel) -> None:
    try:
        await run_channel(gateway, channel)
        logger.info("channel %s is done", channel.name)
    except ChannelAuthError as error:
        logger.error("channel %s is down until its settings are changed: %s", channel.name, error)


def create_channels(settings: Settings) -> dict[str, AnyChannel]:
    """The configured channels by name, none of them running yet.

    Raises:
        ConfigError: a section is wrong, or names a kind that is not installed.
    """
    channels: dict[str, AnyChannel] = {}
    problems: list[ConfigProblem] = []
    for name, section in settings.channels.items():
        try:
            channel_type = load_channel(section.kind, settings.language)
            own = validate_section(channel_type.settings_type, section, f"channels.{name}")
            channels[name] = channel_type(name, own)
        except ConfigError as error:
            problems += error.problems
        except PluginError as error:
            problems.append(section.origin.problem(("kind",), str(error)))
    if problems:
        raise ConfigError(problems)
    return channels


async def run_gateway(
    settings: Settings,
    *,
    foreground: Address | None = None,
    announce: Callable[[str], None],
    recent_errors: RecentErrors = no_errors,
) -> None:
    """Run the configured gateway until SIGTERM (also SIGINT without a foreground channel).

    `foreground` is the session that this process's own terminal shows; the gateway ends when that
    channel's `run` does. Other terminals reach it through the socket in the state folder.
    `announce` gets the one line that says which model answers; `recent_errors` is what `nanobee
    status` shows.

    Raises:
        ConfigError: the start is refused.
        HeldError: another process holds the state folder.
        NanobeeError: what the foreground channel failed of.
    """
    channels = create_channels(settings)
    own = None if foreground is None else channels.pop(foreground.channel)
    remote = _add_remote(channels)
    model = await choose_model(with_model(settings, settings.agent.model), os.environ)
    failure: NanobeeError | None = None
    try:
        async with open_gateway(settings, channels, model) as gateway, anyio.create_task_group() as tasks:
            if model.note:
                announce(model.note)
            tasks.start_soon(_watch_signals, gateway, tasks, foreground is None)
            tasks.start_soon(Reporter(settings.state, model.label, channels, recent_errors).run)
            tasks.start_soon(_create_server(settings, gateway, model, remote).run)
            for channel in channels.values():
                tasks.start_soon(_run_beside, gateway, channel)
            if own is not None and foreground is not None and remote is not None:
                try:
                    failure = await LocalClient(own).show(remote, foreground, ChannelInbox(gateway.bus, own))
                finally:
                    await gateway.wind_down(0, MEMORY_SECONDS)
                tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
    finally:
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await model.provider.aclose()


def _add_remote(channels: dict[str, AnyChannel]) -> RemoteChannel | None:
    """Give the terminals beside this process their channel, unless a configured one has its name."""
    if TERMINAL in channels:
        return None
    channels[TERMINAL] = remote = RemoteChannel()
    return remote


def _create_server(settings: Settings, gateway: Gateway, model: Model, remote: RemoteChannel | None) -> Server:
    inbox = None if remote is None else ChannelInbox(gateway.bus, remote)
    return Server(settings.state, os.environ, HolderSide(model.label, gateway.wake, remote, inbox))


async def _watch_signals(gateway: Gateway, tasks: TaskGroup, takes_interrupt: bool) -> None:
    """The first signal winds down, the second ends the process at once."""
    signals = [signal.SIGTERM, signal.SIGINT] if takes_interrupt else [signal.SIGTERM]
    is_stopping = False
    with anyio.open_signal_receiver(*signals) as received:
        async for number in received:
            if is_stopping:
                os._exit(128 + number)
            logger.info("%s: stopping", number.name)
            is_stopping = True
            tasks.start_soon(_end, gateway, tasks.cancel_scope)


async def _end(gateway: Gateway, scope: anyio.CancelScope) -> None:
    await gateway.wind_down(TURN_SECONDS)
    scope.cancel()
