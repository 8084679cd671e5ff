"""A workspace, something outside it that must never be seen, and a way to call a built-in tool."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nanobee.chat import ToolCall
from nanobee.messages import Address
from nanobee.tools.builtin import create_builtin_registry
from nanobee.tools.tool import ToolContext, ToolOutcome

CallTool = Callable[..., Awaitable[ToolOutcome]]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "abc"
    folder.mkdir()
    return folder


@pytest.fixture
def context(workspace: Path) -> ToolContext:
    return ToolContext(
        workspace,
        Address("telegram", "1"),
        session_key="telegram:1",
        turn="turn1",
        call_id="call1",
        sender_id="7",
        reachable=("telegram:2", "web:ann%3A1:t%251"),
    )


@pytest.fixture
def call(context: ToolContext) -> CallTool:
    registry = create_builtin_registry()

    async def call_tool(name: str, **arguments: object) -> ToolOutcome:
        return await registry.call(context, ToolCall("call1", name, json.dumps(arguments)))

    return call_tool
