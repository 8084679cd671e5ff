import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio import create_task_group, fail_after

from nanobee.tools.builtin import create_builtin_registry
from nanobee.tools.decorator import tool
from nanobee.tools.tool import ToolContext, ToolOutcome
from tests.tools.conftest import CallTool

CANARY = "canary-6b1f"
ROUNDS = 150
OWN_DESCRIPTORS = Path("/dev/fd")

SWAP = """
import os, sys
one, two, spare = sys.argv[1:]
os.write(1, b".")
while True:
    # What a tool has created under a free name meanwhile makes a step fail; the next round goes on.
    for source, target in ((one, spare), (two, one), (one, two), (spare, one)):
        try:
            os.rename(source, target)
        except OSError:
            pass
"""

FILE_CALLS: tuple[tuple[str, dict[str, object]], ...] = (
    ("read_file", {}),
    ("write_file", {"content": "written"}),
    ("edit_file", {"old_text": CANARY, "new_text": "edited"}),
    ("list_dir", {}),
)


@pytest.fixture
def outside(workspace: Path) -> Path:
    """A folder beside the workspace, with a secret in it; its name begins like the workspace's."""
    folder = workspace.parent / "abcdef"
    folder.mkdir()
    (folder / "s").write_text(CANARY, encoding="utf-8")
    return folder


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_the_built_in_tools_say_what_they_are() -> None:
    registry = create_builtin_registry()
    assert {made.name: (made.is_parallel_safe, made.is_idempotent) for made in registry} == {
        "ask_user": (False, True),
        "edit_file": (False, False),
        "exec": (False, False),
        "list_dir": (True, True),
        "message": (False, True),
        "read_file": (True, True),
        "write_file": (False, True),
    }
    for spec in registry.specs(is_owner=True):
        parameters: dict[str, Any] = dict(spec.parameters)
        assert len(json.dumps(parameters)) < 600
        assert all("description" in described for described in parameters["properties"].values())


def test_each_registry_is_its_own() -> None:
    @tool
    async def another(context: ToolContext) -> str:
        """Do something else."""
        return ""

    one = create_builtin_registry()
    one.add(another)
    assert one.get("another") is another
    assert create_builtin_registry().get("another") is None


@pytest.mark.parametrize(("name", "arguments"), FILE_CALLS)
@pytest.mark.parametrize(
    "path",
    [
        "{outside}/s",
        "../abcdef/s",
        "~/abcdef/s",
        "link/s",
        "file-link",
        "link/new.md",
        "link/new/deep.md",
        "a/../../abcdef/s",
        "%2e%2e/abcdef/s",
        "hard-link",
    ],
)
async def test_o46_no_tool_leaves_the_workspace(
    call: CallTool,
    workspace: Path,
    outside: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    name: str,
    arguments: dict[str, object],
) -> None:
    monkeypatch.setenv("HOME", str(workspace.parent))
    (workspace / "a").mkdir()
    (workspace / "link").symlink_to(outside)
    (workspace / "file-link").symlink_to(outside / "s")
    (workspace / "hard-link").hardlink_to(outside / "s")
    result = (await call(name, path=path.format(outside=outside), **arguments)).result
    is_written_inside = name == "write_file" and path in ("hard-link", "%2e%2e/abcdef/s")
    assert result.is_error != is_written_inside
    assert CANARY not in result.content
    assert names(outside) == ["s"]
    assert (outside / "s").read_text(encoding="utf-8") == CANARY
    assert names(workspace.parent) == ["abc", "abcdef"]


@contextmanager
def swapping(*names: Path) -> Iterator[None]:
    """Let another process swap what stands under the names, round and round, as long as the block runs."""
    child = subprocess.Popen([sys.executable, "-I", "-c", SWAP, *map(str, names)], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.read(1) == b"."
        yield
    finally:
        child.kill()
        child.communicate()


async def _call_all(call: CallTool, path: str) -> list[ToolOutcome]:
    folder = str(Path(path).parent)
    outcomes = []
    with fail_after(60):
        for _ in range(ROUNDS):
            for name, arguments in FILE_CALLS:
                outcomes.append(await call(name, path=folder if name == "list_dir" else path, **arguments))
    return outcomes


def _check(outcomes: list[ToolOutcome], outside: Path) -> None:
    for outcome in outcomes:
        assert CANARY not in outcome.result.content
        assert "only-outside" not in outcome.result.content
    assert names(outside) == ["only-outside", "s"]
    assert (outside / "s").read_text(encoding="utf-8") == CANARY
    assert any(not outcome.result.is_error for outcome in outcomes)


async def test_o46_a_file_that_is_swapped_for_a_link_shows_and_takes_nothing(
    call: CallTool, workspace: Path, outside: Path
) -> None:
    (outside / "only-outside").touch()
    (workspace / "s").write_text("mine", encoding="utf-8")
    (workspace / "link").symlink_to(outside / "s")
    with swapping(workspace / "s", workspace / "link", workspace / "spare"):
        outcomes = await _call_all(call, "s")
    _check(outcomes, outside)


async def test_o46_a_folder_that_is_swapped_for_a_link_shows_and_takes_nothing(
    call: CallTool, workspace: Path, outside: Path
) -> None:
    (outside / "only-outside").touch()
    (workspace / "d").mkdir()
    (workspace / "d/s").write_text("mine", encoding="utf-8")
    (workspace / "link").symlink_to(outside)
    with swapping(workspace / "d", workspace / "link", workspace / "spare"):
        outcomes = await _call_all(call, "d/s")
    _check(outcomes, outside)


async def test_descriptors_are_given_back(call: CallTool, workspace: Path) -> None:
    (workspace / "d").mkdir()
    os.mkfifo(workspace / "pipe")
    (workspace / "loop").symlink_to("loop")

    async def call_each() -> None:
        for path in ("d/a.md", "d", "pipe", "loop", "missing/x", "../x", "skills/x", "d/../d/a.md"):
            for name, arguments in FILE_CALLS:
                await call(name, path=path, **arguments)

    await call_each()
    before = len(names(OWN_DESCRIPTORS))
    await call_each()
    assert len(names(OWN_DESCRIPTORS)) == before


async def test_many_reads_run_side_by_side(call: CallTool, workspace: Path) -> None:
    for number in range(100):
        (workspace / f"{number}.md").write_text(f"note {number}", encoding="utf-8")
    contents: dict[int, str] = {}

    async def read(number: int) -> None:
        contents[number] = (await call("read_file", path=f"{number}.md")).result.content

    with fail_after(30):
        async with create_task_group() as group:
            for number in range(100):
                group.start_soon(read, number)
    assert contents == {number: f"note {number}" for number in range(100)}
