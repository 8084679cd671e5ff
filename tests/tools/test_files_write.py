import os
import stat
from pathlib import Path

import pytest

from nanobee.errors import ToolError
from nanobee.tools.files_write import MAX_WRITE_BYTES, replace_file
from nanobee.tools.paths import open_place
from nanobee.tools.view import View
from tests.tools.conftest import CallTool


async def write(call: CallTool, path: str, content: str) -> str:
    result = (await call("write_file", path=path, content=content)).result
    assert result.is_error == result.content.startswith("Error: ")
    return result.content


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


async def test_a_file_is_written_with_its_folders(call: CallTool, workspace: Path) -> None:
    assert await write(call, "a/b/c.md", "会议\n") == "Wrote a/b/c.md (7 bytes)."
    assert (workspace / "a/b/c.md").read_bytes() == "会议\n".encode()
    assert names(workspace / "a/b") == ["c.md"]


async def test_content_is_written_as_it_is(call: CallTool, workspace: Path) -> None:
    await write(call, "a", "one\r\ntwo\n\x00three")
    assert (workspace / "a").read_bytes() == b"one\r\ntwo\n\x00three"
    await write(call, "a", "")
    assert (workspace / "a").read_bytes() == b""


async def test_a_file_is_replaced_as_a_whole_and_keeps_its_mode(call: CallTool, workspace: Path) -> None:
    (workspace / "run.sh").write_text("a long old content", encoding="utf-8")
    (workspace / "run.sh").chmod(0o750)
    assert await write(call, "run.sh", "new") == "Replaced run.sh (3 bytes)."
    assert (workspace / "run.sh").read_text(encoding="utf-8") == "new"
    assert stat.S_IMODE((workspace / "run.sh").stat().st_mode) == 0o750
    assert names(workspace) == ["run.sh"]


async def test_a_new_file_has_the_mode_that_the_user_has_chosen(call: CallTool, workspace: Path) -> None:
    (workspace / "by-hand").touch()
    await write(call, "by-tool", "x")
    assert (workspace / "by-tool").stat().st_mode == (workspace / "by-hand").stat().st_mode


async def test_no_mode_is_kept_that_lends_rights(call: CallTool, workspace: Path) -> None:
    (workspace / "a").touch()
    (workspace / "a").chmod(0o4755)
    await write(call, "a", "x")
    assert stat.S_IMODE((workspace / "a").stat().st_mode) == 0o755


async def test_a_read_only_file_is_left_alone(call: CallTool, workspace: Path) -> None:
    (workspace / "a").write_text("old", encoding="utf-8")
    (workspace / "a").chmod(0o444)
    assert await write(call, "a", "new") == "Error: a: the file is marked read-only"
    assert (workspace / "a").read_text(encoding="utf-8") == "old"
    assert names(workspace) == ["a"]


async def test_a_link_inside_leads_to_its_target(call: CallTool, workspace: Path) -> None:
    (workspace / "d").mkdir()
    (workspace / "d/a").write_text("old", encoding="utf-8")
    (workspace / "link").symlink_to("d/a")
    (workspace / "dangling").symlink_to("d/b")
    assert await write(call, "link", "new") == "Replaced d/a (3 bytes)."
    assert await write(call, "dangling", "new") == "Wrote d/b (3 bytes)."
    assert (workspace / "link").is_symlink()
    assert (workspace / "d/a").read_text(encoding="utf-8") == "new"
    assert (workspace / "d/b").read_text(encoding="utf-8") == "new"


async def test_a_hard_link_is_cut_off_from_its_twin(call: CallTool, workspace: Path) -> None:
    outside = workspace.parent / "secret"
    outside.write_text("mine", encoding="utf-8")
    (workspace / "a").hardlink_to(outside)
    await write(call, "a", "new")
    assert outside.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("d", "d: is a directory"),
        (".", "is a directory"),
        ("file/x", "not a directory"),
        ("d/../../x", "outside the workspace"),
        ("a\x00b", "NUL"),
        ("skills/x/SKILL.md", "read-only for tools"),
        ("SOUL.md", "read-only for tools"),
        ("n" * 256, "File name too long"),
    ],
)
async def test_where_nothing_can_be_written_is_told(call: CallTool, workspace: Path, path: str, told: str) -> None:
    (workspace / "d").mkdir()
    (workspace / "file").touch()
    assert told in await write(call, path, "x")
    assert names(workspace) == ["d", "file"]
    assert names(workspace.parent) == ["abc"]


async def test_a_file_that_is_too_long_is_refused(call: CallTool, workspace: Path) -> None:
    assert "too many for one file" in await write(call, "a", "x" * (MAX_WRITE_BYTES + 1))
    assert names(workspace) == []


async def test_a_long_name_is_written(call: CallTool, workspace: Path) -> None:
    await write(call, "n" * 255, "x")
    assert names(workspace) == ["n" * 255]


def test_nothing_is_left_of_a_write_that_fails(workspace: Path) -> None:
    with open_place(View(workspace), "a", for_writing=True) as place:
        os.mkdir(workspace / "a")  # noqa: PTH102
        with pytest.raises(ToolError, match="changed by somebody else"):
            replace_file(place, b"new", None)
    assert names(workspace) == ["a"]


def test_a_change_in_between_is_not_overwritten(workspace: Path) -> None:
    (workspace / "a").write_text("old", encoding="utf-8")
    with open_place(View(workspace), "a", for_writing=True) as place:
        found = place.look()
        (workspace / "a").write_text("somebody else's", encoding="utf-8")
        with pytest.raises(ToolError, match="changed by somebody else at this moment"):
            replace_file(place, b"mine", found)
    assert (workspace / "a").read_text(encoding="utf-8") == "somebody else's"
    assert names(workspace) == ["a"]
