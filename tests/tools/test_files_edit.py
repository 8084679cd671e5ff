from pathlib import Path

import pytest

from nanobee.tools.encoding import SAMPLE_BYTES
from tests.tools.conftest import CallTool


async def edit(call: CallTool, path: str, old: str, new: str, **more: object) -> str:
    return (await call("edit_file", path=path, old_text=old, new_text=new, **more)).result.content


async def shown(call: CallTool, path: str) -> str:
    return (await call("read_file", path=path)).result.content


@pytest.mark.parametrize(
    ("raw", "old", "new", "edited"),
    [
        (b"one\r\n\ttwo\r\nthree\r\n", "one\n\ttwo\n", "one\n\t2\n", b"one\r\n\t2\r\nthree\r\n"),
        (b"one\r\ntwo\nthree\r\nfour", "two\nthree", "2\n3", b"one\r\n2\n3\r\nfour"),
        (b"one\ntwo", "two", "2", b"one\n2"),
        (b"one\ntwo\n", "two\n", "2", b"one\n2"),
        (b"\xef\xbb\xbfone\r\ntwo\r\n", "one", "1", b"\xef\xbb\xbf1\r\ntwo\r\n"),
        (
            "标题\r\n会议在九点\r\n".encode("gbk"),
            "会议在九点",
            "会议在十点\n带报告",
            "标题\r\n会议在十点\r\n带报告\r\n".encode("gbk"),
        ),
        (b"\xff\xfe" + "会议\n".encode("utf-16-le"), "会", "开会", b"\xff\xfe" + "开会议\n".encode("utf-16-le")),
        (b"caf\xe9 one\nok\xff\n", "one", "deux é", b"caf\xe9 deux \xc3\xa9\nok\xff\n"),
    ],
)
async def test_o48_an_edit_of_what_was_shown_changes_nothing_else(
    call: CallTool, workspace: Path, raw: bytes, old: str, new: str, edited: bytes
) -> None:
    (workspace / "a.txt").write_bytes(raw)
    assert old in await shown(call, "a.txt")
    assert (await edit(call, "a.txt", old, new)).startswith("Edited a.txt (line ")
    assert (workspace / "a.txt").read_bytes() == edited
    (workspace / "a.txt").write_bytes(raw)
    assert (await edit(call, "a.txt", old, new, replace_all=True)).startswith("Edited a.txt (line ")
    assert (workspace / "a.txt").read_bytes() == edited


async def test_o48_a_text_that_occurs_twice_is_refused_unless_all_are_meant(call: CallTool, workspace: Path) -> None:
    raw = b"x = 1\r\ny = 2\r\nx = 1\r\n"
    (workspace / "a.py").write_bytes(raw)
    assert "occurs 2 times (lines 1, 3)" in await edit(call, "a.py", "x = 1\n", "x = 3\n")
    assert (workspace / "a.py").read_bytes() == raw
    assert await edit(call, "a.py", "x = 1\n", "x = 3\n", replace_all=True) == (
        "Edited a.py (2 places, first at line 1)."
    )
    assert (workspace / "a.py").read_bytes() == b"x = 3\r\ny = 2\r\nx = 3\r\n"


async def test_o48_an_edit_is_applied_once(call: CallTool, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    await edit(call, "a.txt", "one\ntwo", "one\n1.5\ntwo")
    assert (workspace / "a.txt").read_bytes() == b"one\r\n1.5\r\ntwo\r\n"
    assert "does not occur" in await edit(call, "a.txt", "one\ntwo", "one\n1.5\ntwo")
    assert (workspace / "a.txt").read_bytes() == b"one\r\n1.5\r\ntwo\r\n"


async def test_the_mode_is_kept(call: CallTool, workspace: Path) -> None:
    (workspace / "run.sh").write_text("echo a\n", encoding="utf-8")
    (workspace / "run.sh").chmod(0o755)
    await edit(call, "run.sh", "a", "b")
    assert (workspace / "run.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"\x89PNG\r\n\x1a\nold", "is a PNG image, not text; it cannot be edited"),
        (b"old" + b"x" * SAMPLE_BYTES, "edit_file takes up to"),
        (b"\xff\xfeo\x00l\x00d\x00\x00", "is not sound utf-16-le"),
        ("会议会议会议".encode("gbk")[:-1] + b"", "is not sound gb18030"),
    ],
)
async def test_what_cannot_be_edited_safely_is_refused(call: CallTool, workspace: Path, raw: bytes, told: str) -> None:
    (workspace / "a").write_bytes(raw)
    assert told in await edit(call, "a", "old", "new")
    assert (workspace / "a").read_bytes() == raw


async def test_an_edit_does_not_make_a_file_too_long_for_the_next(call: CallTool, workspace: Path) -> None:
    (workspace / "a").write_text("aaaa", encoding="utf-8")
    assert "would grow to" in await edit(call, "a", "a", "x" * (SAMPLE_BYTES // 2), replace_all=True)
    assert (workspace / "a").read_text(encoding="utf-8") == "aaaa"


async def test_where_nothing_can_be_edited_is_told(call: CallTool, workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("rules", encoding="utf-8")
    (workspace / "d").mkdir()
    assert "read-only for tools" in await edit(call, "AGENTS.md", "rules", "none")
    assert (workspace / "AGENTS.md").read_text(encoding="utf-8") == "rules"
    assert "is a directory" in await edit(call, "d", "a", "b")
    assert "no such file" in await edit(call, "new/x.md", "a", "b")
    assert not (workspace / "new").exists()
