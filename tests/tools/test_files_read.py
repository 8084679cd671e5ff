import os
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio import fail_after

from nanobee.tools.files_read import MAX_READ_CHARS, MAX_SCAN_BYTES
from nanobee.tools.registry import MAX_RESULT_CHARS
from tests.tools.conftest import CallTool

MAX_PEAK_BYTES = 24 * 1024 * 1024


@pytest.fixture
def peak() -> Iterator[None]:
    """The test's own memory stays small, whatever is in the file."""
    tracemalloc.start()
    try:
        yield
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < MAX_PEAK_BYTES


async def read(call: CallTool, **arguments: object) -> str:
    with fail_after(30):
        result = (await call("read_file", **arguments)).result
    assert not result.is_error, result.content
    assert len(result.content) <= MAX_RESULT_CHARS
    return result.content


async def refused(call: CallTool, **arguments: object) -> str:
    with fail_after(30):
        result = (await call("read_file", **arguments)).result
    assert result.is_error, result.content
    return result.content


async def test_a_file_is_shown_as_it_is(call: CallTool, workspace: Path) -> None:
    (workspace / "a.md").write_text("one\n\ttwo\n\n三 é\u2028x\x0c\n", encoding="utf-8")
    assert await read(call, path="a.md") == "one\n\ttwo\n\n三 é\u2028x\x0c\n"


async def test_a_last_line_without_end_stays_so(call: CallTool, workspace: Path) -> None:
    (workspace / "a.md").write_text("one\ntwo", encoding="utf-8")
    assert await read(call, path="a.md") == "one\ntwo"


async def test_line_ends_are_shown_alike(call: CallTool, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\nthree\r\n")
    assert await read(call, path="a.txt") == "one\ntwo\nthree\n"


async def test_an_empty_file_is_told(call: CallTool, workspace: Path) -> None:
    (workspace / "a.md").touch()
    assert await read(call, path="a.md") == "[the file is empty]"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"limit": 2}, "1\n2\n[cut: n.txt goes on (20 bytes in all); read on with offset=3]"),
        ({"offset": 4, "limit": 2}, "4\n5\n[cut: n.txt goes on (20 bytes in all); read on with offset=6]"),
        ({"offset": 9, "limit": 2}, "9\n0\n"),
        ({"offset": 9}, "9\n0\n"),
        ({"offset": 11}, "[nothing there: the file has 10 lines]"),
        ({"offset": 10**9}, "[nothing there: the file has 10 lines]"),
        ({"offset": "10", "limit": "1"}, "0\n"),
        ({"offset": 10, "column": 2}, "\n"),
    ],
)
async def test_a_range_of_lines_is_shown(
    call: CallTool, workspace: Path, arguments: dict[str, object], shown: str
) -> None:
    (workspace / "n.txt").write_text("1\n2\n3\n4\n5\n6\n7\n8\n9\n0\n", encoding="utf-8")
    assert await read(call, path="n.txt", **arguments) == shown


@pytest.mark.parametrize("wrong", [{"offset": 0}, {"limit": 0}, {"column": -1}])
async def test_ranges_count_from_one(call: CallTool, workspace: Path, wrong: dict[str, object]) -> None:
    (workspace / "a.md").touch()
    assert "count from 1" in await refused(call, path="a.md", **wrong)


async def test_reading_on_as_told_gives_the_whole_file(call: CallTool, workspace: Path) -> None:
    text = "".join(f"{number}: {'中x' * (number % 700)}\n" for number in range(400)) + "z" * 40_000 + "\nend"
    (workspace / "long.txt").write_text(text, encoding="utf-8")
    parts, where, rounds = [], {"offset": 1, "column": 1}, 0
    while where:
        shown = await read(call, path="long.txt", limit=100, **where)
        told = re.search(r"\n\[cut: .*; read on with offset=(\d+)(?:, column=(\d+))?", shown)
        body = shown[: told.start()] if told else shown
        where = {"offset": int(told[1]), "column": int(told[2] or 1)} if told else {}
        # The note stands on a line of its own: after a cut inside a line, that line's end is not the file's.
        parts.append(body if told is None or where["column"] > 1 else body + "\n")
        rounds += 1
        assert rounds < 100
    assert "".join(parts) == text
    assert rounds > 10


@pytest.mark.usefixtures("peak")
async def test_o45_a_sparse_file_of_5_gb_is_named_as_binary(call: CallTool, workspace: Path) -> None:
    with (workspace / "huge").open("wb") as file:
        file.truncate(5 * 1024**3)
    assert "is a binary file (5,368,709,120 bytes), not text" in await refused(call, path="huge")


@pytest.mark.usefixtures("peak")
async def test_o45_of_a_huge_text_only_a_part_is_read(call: CallTool, workspace: Path) -> None:
    with (workspace / "huge.log").open("wb") as file:
        file.write(b"line of text\n" * 400_000)
        file.truncate(5 * 1024**3)
    shown = await read(call, path="huge.log")
    assert shown.startswith("line of text\n" * 500)
    assert shown.endswith("[cut: huge.log goes on (5,368,709,120 bytes in all); read on with offset=501]")
    told = await read(call, path="huge.log", offset=10**12)
    assert told == f"[cut: read_file looks at the first {MAX_SCAN_BYTES:,} bytes only; huge.log has 5,368,709,120]"


async def test_o45_an_endless_device_behind_a_link_is_refused(call: CallTool, workspace: Path) -> None:
    (workspace / "zero").symlink_to("/dev/zero")
    assert "outside the workspace" in await refused(call, path="zero")
    assert "outside the workspace" in await refused(call, path="/dev/zero")


@pytest.mark.parametrize("name", ["pipe", "to-pipe"])
async def test_o45_a_pipe_does_not_block(call: CallTool, workspace: Path, name: str) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "to-pipe").symlink_to("pipe")
    for tool, arguments in (
        ("read_file", {}),
        ("edit_file", {"old_text": "a", "new_text": "b"}),
        ("write_file", {"content": "x"}),
    ):
        with fail_after(10):
            result = (await call(tool, path=name, **arguments)).result
        assert result.content == "Error: pipe: is a pipe, not a file"
        assert result.is_error


@pytest.mark.usefixtures("peak")
async def test_o45_a_line_of_1_mb_comes_in_parts(call: CallTool, workspace: Path) -> None:
    (workspace / "one-line.json").write_text("x" * 1_000_000 + "\nsecond\n", encoding="utf-8")
    shown = await read(call, path="one-line.json")
    note = (
        "[cut: one-line.json goes on (1,000,008 bytes in all); read on with offset=1, column=16001;"
        " line 1 is cut here, offset=2 leaves out the rest of it]"
    )
    assert shown == "x" * MAX_READ_CHARS + "\n" + note
    assert await read(call, path="one-line.json", offset=2) == "second\n"
    assert await read(call, path="one-line.json", column=1_000_000) == "x\nsecond\n"


async def test_o45_a_picture_is_shown_by_reference_and_its_bytes_are_no_text(call: CallTool, workspace: Path) -> None:
    (workspace / "p.txt").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + os.urandom(5_000))
    outcome = await call("read_file", path="p.txt")
    assert outcome.result.content == "p.txt is a picture (5,016 bytes); it is shown with the user's message."
    assert [(each.kind, each.path, each.mime_type) for each in outcome.attachments] == [("image", "p.txt", "image/png")]


async def test_o45_a_binary_that_is_no_picture_is_named(call: CallTool, workspace: Path) -> None:
    (workspace / "p.bin").write_bytes(b"\x7fELF" + bytes(5_000))
    assert "not text" in await refused(call, path="p.bin")


async def test_o45_invalid_utf_8_is_replaced_and_said(call: CallTool, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes(b"caf\xe9 \xff\n" + "ok é\n".encode())
    assert await read(call, path="a.txt") == (
        "caf\ufffd \ufffd\nok é\n[2 bytes are not valid UTF-8 and are shown as \ufffd]"
    )


async def test_a_real_replacement_character_is_not_called_invalid(call: CallTool, workspace: Path) -> None:
    (workspace / "a.txt").write_text("\ufffd\n", encoding="utf-8")
    assert await read(call, path="a.txt") == "\ufffd\n"


async def test_a_character_on_a_block_border_stays_whole(call: CallTool, workspace: Path) -> None:
    text = "x" * 65_535 + "中文\r\n" + "y" * 65_530 + "\r\n"
    (workspace / "a.txt").write_bytes(text.encode())
    assert await read(call, path="a.txt", column=65_530, limit=1) == (
        "x" * 6 + "中文\n[cut: a.txt goes on (131,075 bytes in all); read on with offset=2]"
    )


async def test_other_encodings_are_shown_as_text(call: CallTool, workspace: Path) -> None:
    (workspace / "gbk.txt").write_bytes("会议在九点\r\n".encode("gbk"))
    (workspace / "utf16.txt").write_bytes(b"\xff\xfe" + "会议\r\n".encode("utf-16-le"))
    assert await read(call, path="gbk.txt") == "会议在九点\n[the file is stored as gb18030; edit_file keeps that]"
    assert await read(call, path="utf16.txt") == "会议\n[the file is stored as utf-16-le; edit_file keeps that]"


async def test_a_hard_link_is_not_shown(call: CallTool, workspace: Path) -> None:
    outside = workspace.parent / "secret"
    outside.write_text("canary-6b1f", encoding="utf-8")
    (workspace / "link").hardlink_to(outside)
    for tool, arguments in (("read_file", {}), ("edit_file", {"old_text": "c", "new_text": "b"})):
        result = (await call(tool, path="link", **arguments)).result
        assert "another hard link" in result.content
        assert "canary" not in result.content


async def test_a_folder_and_a_missing_file_are_told(call: CallTool, workspace: Path) -> None:
    (workspace / "d").mkdir()
    assert "is a directory; list_dir shows what is in it" in await refused(call, path="d")
    assert "is a directory" in await refused(call, path=".")
    assert "no such file" in await refused(call, path="e")
    assert "no such file" in await refused(call, path="e/f")
