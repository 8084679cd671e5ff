"""What of the workspace exists for the file tools of one conversation."""

import os
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from nanobee.errors import ToolError
from nanobee.tools.files_edit import edit_file
from nanobee.tools.files_list import list_dir
from nanobee.tools.files_read import read_file
from nanobee.tools.files_write import write_file
from nanobee.tools.paths import open_place
from nanobee.tools.tool import Tool, ToolContext
from nanobee.tools.view import View

CANARY = "CANARY-7f3a"
GROUP = PurePosixPath("scopes/telegram%3a-100/memory")
OTHER = PurePosixPath("scopes/telegram%3a-200/memory")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Every file holds whose it is."""
    for name, text in {
        "memory/MEMORY.md": f"owner {CANARY}",
        "memory/daily/2026-10-03.md": f"owner {CANARY}",
        "USER.md": f"owner {CANARY}",
        f"{GROUP}/MEMORY.md": "group",
        f"{OTHER}/MEMORY.md": f"other {CANARY}",
        "notes.md": "shared",
        "sub/x.md": "shared",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def group(context: ToolContext, workspace: Path) -> ToolContext:
    return replace(context, workspace=workspace, memory=GROUP)


@pytest.fixture
def owner(context: ToolContext, workspace: Path) -> ToolContext:
    return replace(context, workspace=workspace, memory=PurePosixPath("memory"), is_owner=True)


async def call(tool: Tool, context: ToolContext, **arguments: object) -> str:
    return (await tool.run(context, tool.arguments_type(**arguments))).content


async def test_memory_is_a_conversations_own(group: ToolContext, owner: ToolContext) -> None:
    assert "group" in await call(read_file, group, path="memory/MEMORY.md")
    assert f"owner {CANARY}" in await call(read_file, owner, path="memory/MEMORY.md")
    assert "MEMORY.md" in await call(list_dir, group, path="memory")
    assert "daily" not in await call(list_dir, group, path="memory")
    assert "daily/" in await call(list_dir, owner, path="memory")


async def test_the_root_shows_nothing_of_others(group: ToolContext, owner: ToolContext) -> None:
    assert (await call(list_dir, group)).split() == ["memory/", "notes.md", "6", "sub/"]
    assert "USER.md" in await call(list_dir, owner)
    assert "scopes" not in await call(list_dir, owner)


@pytest.mark.parametrize(
    "path",
    [
        "scopes/telegram%3a-200/memory/MEMORY.md",
        "scopes/telegram%3a-100/memory/MEMORY.md",
        "Scopes/telegram%3a-200/memory/MEMORY.md",
        "./scopes/telegram%3a-200/memory/MEMORY.md",
        "memory/../scopes/telegram%3a-200/memory/MEMORY.md",
        "memory/../../telegram%3a-200/memory/MEMORY.md",
        "memory/../../../memory/MEMORY.md",
        "sub/../scopes/telegram%3a-200/memory/MEMORY.md",
        "link-to-scopes/telegram%3a-200/memory/MEMORY.md",
        "link-to-memory/daily/2026-10-03.md",
        "sub/link-up/daily/2026-10-03.md",
        "absolute-link/daily/2026-10-03.md",
        "sub/user-link",
        "USER.md",
        "user.MD",
        "{workspace}/USER.md",
        "{workspace}/scopes/telegram%3a-200/memory/MEMORY.md",
        "{workspace}/memory/daily/2026-10-03.md",
    ],
)
async def test_nothing_of_anybody_else_is_read_from_a_group_under_any_name(
    path: str, group: ToolContext, workspace: Path
) -> None:
    (workspace / "link-to-scopes").symlink_to("scopes")
    (workspace / "link-to-memory").symlink_to("memory")
    (workspace / "sub" / "link-up").symlink_to("../memory")
    (workspace / "absolute-link").symlink_to(workspace / "memory")
    (workspace / "sub" / "user-link").symlink_to("../USER.md")
    for tool in (read_file, list_dir):
        with pytest.raises(ToolError) as refused:
            await call(tool, group, path=path.format(workspace=workspace))
        assert CANARY not in str(refused.value)


async def test_the_owner_reads_no_groups_memory(owner: ToolContext) -> None:
    with pytest.raises(ToolError, match="no such file"):
        await call(read_file, owner, path=f"{GROUP}/MEMORY.md")


async def test_a_second_name_of_a_hidden_file_is_not_read(group: ToolContext, workspace: Path) -> None:
    os.link(workspace / "USER.md", workspace / "sub" / "copy.md")
    with pytest.raises(ToolError):
        await call(read_file, group, path="sub/copy.md")


async def test_a_conversation_without_a_memory_of_its_own_sees_none(workspace: Path, context: ToolContext) -> None:
    bare = replace(context, workspace=workspace)
    for path in ("memory/MEMORY.md", "memory", "USER.md", "scopes"):
        with pytest.raises(ToolError, match="no such file"):
            await call(read_file, bare, path=path)
    assert (await call(list_dir, bare)).split() == ["notes.md", "6", "sub/"]


@pytest.mark.parametrize(
    "path", ["memory/MEMORY.md", "memory/new.md", "Memory/daily/x.md", "sub/../memory/x.md", "link/x"]
)
async def test_memory_is_not_written_by_file_tools(
    path: str, group: ToolContext, owner: ToolContext, workspace: Path
) -> None:
    (workspace / "link").symlink_to("memory")
    for context in (group, owner):
        with pytest.raises(ToolError, match="memory_save"):
            await call(write_file, context, path=path, content="x")
    with pytest.raises(ToolError, match="memory_save"):
        await call(edit_file, owner, path="memory/MEMORY.md", old_text="owner", new_text="x")
    assert (workspace / "memory" / "MEMORY.md").read_text(encoding="utf-8") == f"owner {CANARY}"


async def test_nothing_is_made_in_anothers_memory(group: ToolContext, workspace: Path) -> None:
    with pytest.raises(ToolError):
        await call(write_file, group, path="scopes/new/memory/x.md", content="x")
    with pytest.raises(ToolError):
        await call(write_file, group, path="USER.md", content="x")
    assert not (workspace / "scopes" / "new").exists()
    assert CANARY in (workspace / "USER.md").read_text(encoding="utf-8")


def test_a_scope_that_was_never_written_has_no_folder_yet(workspace: Path) -> None:
    view = View(workspace, PurePosixPath("scopes/new/memory"))
    with pytest.raises(ToolError, match="no such file"), open_place(view, "memory/MEMORY.md"):
        pass
