"""Reading a session file from a line on."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanobee.bus.lines import Line
from nanobee.sessions.forward import read_forward, read_takebacks


def write(path: Path, count: int, *, size: int = 200, broken: frozenset[int] = frozenset()) -> Path:
    rows = []
    for seq in range(1, count + 1):
        line = Line(seq, datetime(2026, 10, 3, tzinfo=UTC), None, "message", {"role": "user", "content": "x" * size})
        rows.append("{broken" if seq in broken else line.to_json())
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("after", [0, 1, 777, 1998, 1999, 2000, 5000])
def test_the_lines_behind_a_number_come_in_order(after: int, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", 2000)
    assert [line.seq for line in read_forward(path, after)] == list(range(after + 1, 2001))


def test_broken_lines_are_skipped_wherever_halving_meets_them(tmp_path: Path) -> None:
    broken = frozenset(range(400, 1600))
    path = write(tmp_path / "s.jsonl", 2000, broken=broken)
    assert [line.seq for line in read_forward(path, 390)] == [*range(391, 400), *range(1600, 2001)]
    assert [line.seq for line in read_forward(path, 1700)] == list(range(1701, 2001))


def test_what_takes_lines_back_is_found_far_behind_them(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", 2000)
    at = datetime(2026, 10, 3, tzinfo=UTC)
    with path.open("a", encoding="utf-8") as file:
        file.write(Line(2001, at, None, "forgotten", {"seqs": [3]}).to_json() + "\n")
        file.write(Line(2002, at, None, "message", {"content": 'fake "kind":"undone"'}).to_json() + "\n")
        file.write(Line(2003, at, None, "undone", {"from": 5, "through": 6}).to_json() + "\n")
    assert [(line.seq, line.kind) for line in read_takebacks(path, 0)] == [(2001, "forgotten"), (2003, "undone")]
    assert [line.seq for line in read_takebacks(path, 2001)] == [2003]


def test_no_file_and_an_empty_file_have_no_lines(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    assert list(read_forward(tmp_path / "empty.jsonl", 0)) == []
    assert list(read_takebacks(tmp_path / "none.jsonl", 0)) == []
