"""A real gateway with its socket, and terminals that show its sessions over it, all on one event loop."""

import os
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.lowlevel
import pytest

from nanobee.bus.inbox import ChannelInbox
from nanobee.bus.sqlite import FILE_NAME
from nanobee.channel import Inbox, Receipt
from nanobee.errors import NanobeeError
from nanobee.gateway import Gateway
from nanobee.messages import Address
from nanobee.remote.channel import TERMINAL, RemoteChannel
from nanobee.remote.client import open_link
from nanobee.remote.server import HolderSide, Server
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_server import ModelServer

LIMIT_SECONDS = 20.0
MODEL = "main/test-model"


class Terminal(MemoryChannel):
    """What the process of a terminal shows; `leave` is its person's Ctrl-D."""

    def __init__(self, chat_id: str = "main") -> None:
        super().__init__(TERMINAL)
        self.address = Address(TERMINAL, chat_id)
        self.failure: NanobeeError | None = None
        self.ended = anyio.Event()
        self._left = anyio.Event()
        self._scope = anyio.CancelScope()

    async def run(self, inbox: Inbox) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(super().run, inbox)
            await self._left.wait()
            tasks.cancel_scope.cancel()

    def leave(self) -> None:
        """End `run`."""
        self._left.set()

    def die(self) -> None:
        """As `kill -9`: the socket is closed, without a word."""
        self._scope.cancel()

    async def live(self, state: Path) -> None:
        """Connect, show until the terminal is left, dies or loses its holder."""
        try:
            with self._scope:
                async with open_link(state, self.address, "en", LIMIT_SECONDS) as link:
                    assert link is not None, "no holder answers"
                    await link.show(self)
        except NanobeeError as error:
            self.failure = error
        finally:
            self.ended.set()

    async def said(self, text: str) -> None:
        """Say something, and wait until it is stored."""
        receipt = await self.say(text, chat_id=self.address.chat_id, sender="local", event_key=uuid4().hex)
        assert receipt is Receipt.STORED


@dataclass(frozen=True)
class Holder:
    """A gateway that clients can reach."""

    gateway: Gateway
    remote: RemoteChannel
    state: Path

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """What a query on the bus finds."""
        db = sqlite3.connect(self.state / FILE_NAME)
        try:
            return db.execute(sql).fetchall()
        finally:
            db.close()

    async def wait_rows(self, sql: str, *expected: tuple[object, ...]) -> None:
        """Wait until a query finds exactly these rows; bound it with `anyio.fail_after`."""
        while self.rows(sql) != list(expected):
            await anyio.lowlevel.checkpoint()


OpenHolder = Callable[[], AbstractAsyncContextManager[Holder]]


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name."""
    with tempfile.TemporaryDirectory(prefix="nb", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer() as running:
        yield running


@pytest.fixture
def rig(tmp_path: Path, model: ModelServer) -> GatewayRig:
    return GatewayRig(tmp_path, model.base_url)


@pytest.fixture
def open_holder(rig: GatewayRig) -> OpenHolder:
    """Opens the gateway of one state folder, again and again: each time as after a restart."""

    @asynccontextmanager
    async def open_it() -> AsyncIterator[Holder]:
        remote, state = RemoteChannel(), rig.settings.state
        async with rig.open(others={TERMINAL: remote}) as (gateway, _), anyio.create_task_group() as tasks:
            side = HolderSide(MODEL, gateway.wake, remote, ChannelInbox(gateway.bus, remote))
            tasks.start_soon(Server(state, os.environ, side).run)
            try:
                yield Holder(gateway, remote, state)
            finally:
                tasks.cancel_scope.cancel()

    return open_it
