import os
import re
from pathlib import Path

from nanobee.tools.files_list import MAX_ENTRIES
from tests.tools.conftest import CallTool


async def listed(call: CallTool, **arguments: object) -> str:
    return (await call("list_dir", **arguments)).result.content


async def test_a_folder_is_listed_in_order_with_kinds_and_sizes(call: CallTool, workspace: Path) -> None:
    (workspace / "b.md").write_text("x" * 1234, encoding="utf-8")
    (workspace / "a").mkdir()
    (workspace / ".hidden").touch()
    (workspace / "link").symlink_to("/etc/passwd")
    assert await listed(call) == ".hidden  0\na/\nb.md  1,234\nlink@"
    assert await listed(call, path="a") == "[the folder is empty]"
    assert await listed(call, path=str(workspace)) == await listed(call, path="")


async def test_a_big_folder_comes_in_parts(call: CallTool, workspace: Path) -> None:
    expected = [f"{number:04}" for number in range(2 * MAX_ENTRIES + 3)]
    for name in expected:
        (workspace / name).touch()
    found: list[str] = []
    offset: int | None = 1
    while offset is not None:
        *lines, last = (await listed(call, offset=offset)).splitlines()
        told = re.fullmatch(r"\[cut: [\d,]+ of 403 entries; read on with offset=(\d+)\]", last)
        offset = int(told[1]) if told else None
        found += [line.split()[0] for line in (lines if told else [*lines, last])]
    assert found == expected
    assert await listed(call, offset=404) == "[nothing there: the folder has 403 entries]"


async def test_odd_names_do_no_harm(call: CallTool, workspace: Path) -> None:
    (workspace / "two\nlines\x1b[1m").touch()
    (workspace / os.fsdecode(b"caf\xe9")).touch()
    (workspace / "会议.md").touch()
    assert await listed(call) == "caf\ufffd  0\ntwo\ufffdlines\ufffd[1m  0\n会议.md  0"


async def test_what_is_no_folder_is_told(call: CallTool, workspace: Path) -> None:
    (workspace / "file").touch()
    os.mkfifo(workspace / "pipe")
    assert "not a directory" in await listed(call, path="file")
    assert "not a directory" in await listed(call, path="pipe")
    assert "no such file or directory" in await listed(call, path="missing")
    assert "outside the workspace" in await listed(call, path="..")
    assert "offset counts from 1" in await listed(call, offset=0)
