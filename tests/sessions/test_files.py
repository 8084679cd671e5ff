"""Session files: appended, read from the tail, and good for their good lines whatever happened to them."""

import json
import logging
from pathlib import Path

import pytest

from nanobee.bus.lines import Line, NewLine
from nanobee.sessions.files import SessionFiles
from nanobee.sessions.session import MAX_LINES
from nanobee.sessions.store import SessionStore
from nanobee.sessions.tail import read_backwards

KEY = "test:1"


def line(seq: int, text: str = "", kind: str = "message") -> str:
    return json.dumps(
        {
            "seq": seq,
            "at": "2026-01-01T00:00:00.000Z",
            "turn": None,
            "kind": kind,
            "role": "user",
            "content": text or str(seq),
        }
    )


def write(files: SessionFiles, data: bytes) -> Path:
    path = files.path(KEY)
    path.write_bytes(data)
    return path


def good(count: int) -> bytes:
    return "".join(f"{line(seq)}\n" for seq in range(1, count + 1)).encode()


def contents(files: SessionFiles) -> list[object]:
    return [found.data["content"] for found in files.read_backwards(KEY)][::-1]


DAMAGES = {
    "a_torn_last_line": (good(10) + b'{"seq":11,"at":"2026', 10),
    "b_garbage_in_line_5": (good(10).replace(b'"seq": 5', b'\xff\xfe"se'), 9),
    "c_nul_bytes_at_the_end": (good(10) + b"\0" * 64, 10),
    "d_byte_order_mark": (b"\xef\xbb\xbf" + good(10), 10),
    "e_every_line_broken": (b"no\nlines\nat all", 0),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_o13_good_lines_are_used_and_new_ones_stay_readable_after(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, count = DAMAGES[damage]
    files = SessionFiles(tmp_path)
    path = write(files, data)
    assert len(contents(files)) == count
    seq = files.last_seq(KEY)
    assert seq == (0 if damage.startswith("e") else 10)
    files.append([(KEY, line(seq + 1, "new 1")), (KEY, line(seq + 2, "new 2"))])

    again = SessionFiles(tmp_path)
    assert contents(again)[-2:] == ["new 1", "new 2"]
    assert len(contents(again)) == count + 2
    assert path.read_bytes().startswith(data)
    side = path.with_name(path.name + ".bad")
    assert side.exists() is (damage[0] != "d")
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) <= 1 + (damage[0] in "ac")


def test_bad_bytes_are_kept_aside_once_and_whole(tmp_path: Path) -> None:
    import base64

    files = SessionFiles(tmp_path)
    path = write(files, good(1) + b"\xff\x00bad\n" + line(2).encode() + b"\n")
    for _ in range(3):
        contents(files)
    [entry] = path.with_name(path.name + ".bad").read_text().splitlines()
    assert base64.b64decode(json.loads(entry)["base64"]) == b"\xff\x00bad"
    assert json.loads(entry)["offset"] == len(good(1))


def test_lines_come_back_over_any_block_border(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes("".join(f"{line(seq, 'é' * seq)}\n" for seq in range(1, 30)).encode())
    for block in range(1, 200, 7):
        found = [each for each in read_backwards(path, block_bytes=block) if isinstance(each, Line)]
        assert [each.seq for each in found] == list(range(29, 0, -1))


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"{}",
        b'{"seq":"1","at":"2026-01-01T00:00:00Z","turn":null,"kind":"x"}',
        b'{"seq":1,"at":"2026-01-01T00:00:00","turn":null,"kind":"x"}',
        b'{"seq":1,"at":5,"turn":null,"kind":"x"}',
        b'{"seq":true,"at":"2026-01-01T00:00:00Z","turn":null,"kind":"x"}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_session_line_costs_itself_only(text: bytes, tmp_path: Path) -> None:
    files = SessionFiles(tmp_path)
    write(files, line(1).encode() + b"\n" + text + b"\n" + line(2).encode() + b"\n")
    assert contents(files) == ["1", "2"]


def test_unknown_kinds_and_fields_are_kept(tmp_path: Path) -> None:
    files = SessionFiles(tmp_path)
    write(files, line(1, kind="of_the_future").encode() + b"\n")
    [found] = files.read_backwards(KEY)
    assert json.loads(found.to_json()) == json.loads(line(1, kind="of_the_future"))


def test_a_session_that_cannot_be_written_gets_no_later_line_and_is_not_reported_safe(tmp_path: Path) -> None:
    files = SessionFiles(tmp_path)
    path = files.path(KEY)
    path.mkdir()
    files.append([(KEY, line(1))])
    path.rmdir()
    files.append([(KEY, line(2)), ("test:2", line(1))])
    assert not path.exists()
    assert files.sync([KEY, "test:2"]) == {"test:2"}


def test_listing_gives_the_original_keys(tmp_path: Path) -> None:
    files = SessionFiles(tmp_path)
    keys = sorted(["test:a_b", "test:A:b", "test:" + "ü" * 300])
    for key in keys:
        files.append([(key, line(1))])
    (files.root / "stray.jsonl.bad").write_text("x")
    assert files.keys() == keys


class JournalOf:
    def __init__(self, *lines: Line) -> None:
        self.lines = lines

    async def journal(self, session_key: str) -> tuple[Line, ...]:
        return self.lines


async def test_a_session_is_its_file_and_what_only_the_journal_has(tmp_path: Path) -> None:
    files = SessionFiles(tmp_path)
    write(files, good(3))
    store = SessionStore(files, JournalOf(Line.from_json(line(3)), Line.from_json(line(4))))
    session = await store.load(KEY)
    assert [each.seq for each in session.lines] == [1, 2, 3, 4]
    assert await store.load(KEY) is session
    store.forget(KEY)
    assert await store.load(KEY) is not session


async def test_loading_goes_back_to_the_last_reset_only(tmp_path: Path) -> None:
    files = SessionFiles(tmp_path)
    write(files, good(5) + line(6, kind="reset").encode() + b"\n" + line(7).encode() + b"\n")
    session = await SessionStore(files, JournalOf()).load(KEY)
    assert [each.seq for each in session.lines] == [6, 7]


async def test_what_the_journal_still_has_from_before_a_reset_does_not_come_back(tmp_path: Path) -> None:
    files = SessionFiles(tmp_path)
    write(files, good(2) + line(3, kind="reset").encode() + b"\n")
    journal = JournalOf(*(Line.from_json(text) for text in (line(1), line(2), line(3, kind="reset"))))
    session = await SessionStore(files, journal).load(KEY)
    assert [each.seq for each in session.lines] == [3]


async def test_o15_loading_a_long_session_parses_its_tail_only(tmp_path: Path) -> None:
    files = SessionFiles(tmp_path)
    garbage = b"not read\n" * 10
    write(files, garbage + "".join(f"{line(seq)}\n" for seq in range(1, 20_001)).encode())
    session = await SessionStore(files, JournalOf()).load(KEY)
    assert len(session.lines) <= MAX_LINES
    assert session.lines[-1].seq == 20_000
    assert not files.path(KEY).with_name(files.path(KEY).name + ".bad").exists()


def test_a_line_writes_no_half_characters(tmp_path: Path) -> None:
    new = NewLine("message", {"content": "a\ud83d b"})
    from datetime import UTC, datetime

    text = Line(1, datetime.now(UTC), None, new.kind, new.data).to_json()
    text.encode("utf-8")
    assert Line.from_json(text).data["content"] == "a? b"
