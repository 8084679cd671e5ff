"""A gateway that is killed again and again while it remembers holds each range once, and loses no line."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from nanobee.bus.checkpoints import MEMORY_NAMES, VARIABLE
from nanobee.bus.lines import Line
from nanobee.memory.guard import MAX_CONFIRMED_SHARE, find_loss
from nanobee.sessions.files import SessionFiles
from nanobee.sessions.forward import read_forward
from tests.memory.mortal_gateway import settings_of
from tests.memory.test_consolidation import ranges

CHATS = 5
TURNS = 1000
MAX_STARTS = 120
END_SECONDS = 120.0
"""How long a start that nobody kills may take."""


def start(root: Path, seed: int, checkpoint: str | None) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, **({VARIABLE: checkpoint} if checkpoint else {})}
    command = [sys.executable, "-m", "tests.memory.mortal_gateway", str(root), str(CHATS), str(TURNS), str(seed)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def kills(dice: random.Random) -> Iterator[tuple[str | None, float]]:
    """How each start dies: at a checkpoint, or after some time."""
    for name in MEMORY_NAMES:
        for count in (1, 2, 4):
            yield f"{name}:{count}", END_SECONDS
            yield None, dice.uniform(0.5, 2.0)


def run(root: Path, seed: int) -> int:
    """Start until all is done; returns how many starts were killed."""
    dice = random.Random(seed)
    plan = kills(dice)
    for number in range(MAX_STARTS):
        checkpoint, seconds = next(plan, (None, END_SECONDS))
        process = start(root, seed * 1000 + number, checkpoint)
        try:
            _, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            continue
        if process.returncode == 0:
            return number
        assert process.returncode == -9, errors.decode()
    raise AssertionError("it never came to an end")


@pytest.mark.parametrize("seed", [1])
def test_a_thousand_turns_under_kills_hold_each_range_once_and_lose_no_line(seed: int, tmp_path: Path) -> None:
    deaths = run(tmp_path, seed)
    assert deaths >= 5, "a fast machine is done before more of the plan's kills"
    memory = tmp_path / "workspace" / "memory"
    history = (memory / "HISTORY.md").read_text(encoding="utf-8")
    files = SessionFiles(settings_of(tmp_path, CHATS).state)
    entries = ranges(history)
    for chat in range(CHATS):
        key = f"memory:{chat}"
        lines = list(read_forward(files.path(key), 0))
        assert [line.seq for line in lines] == list(range(1, len(lines) + 1)), "no line is lost or doubled"
        said = [str(line.data["content"]).split(" and")[0].strip() for line in lines if line.data.get("role") == "user"]
        assert said == [f"chat {chat} message {number}" for number in range(TURNS // CHATS)]
        own = [(first, last) for session, first, last in entries if session == key]
        assert own, "something was remembered"
        assert all(before[1] < after[0] for before, after in pairwise(own)), "in order, and each once"
        check_cover(lines, own)
    check_facts(memory)
    days = "".join(path.read_text(encoding="utf-8") for path in (memory / "daily").iterdir())
    notes = Counter(line.rpartition("[")[2] for line in days.split("\n") if line.startswith("- "))
    assert max(notes.values()) == 1
    assert {source.strip("]") for source in notes} <= {f"{key} seq {first}–{last}" for key, first, last in entries}


def check_cover(lines: list[Line], own: list[tuple[int, int]]) -> None:
    """Everything that was said up to the pointer is in exactly one range."""
    covered = {seq for first, last in own for seq in range(first, last + 1)}
    assert sum(last - first + 1 for first, last in own) == len(covered)
    through = max(int(str(line.data["through"])) for line in lines if line.kind == "consolidated")
    assert {line.seq for line in lines if line.kind == "message" and line.seq <= through} <= covered
    assert max(last for _, last in own) <= through


def check_facts(memory: Path) -> None:
    """No version loses more than the guard allows; merges in between may only add."""
    versions = [json.loads(row) for row in (memory / ".versions.jsonl").read_text(encoding="utf-8").split("\n") if row]
    assert len(versions) > 5
    assert versions[-1]["text"] == (memory / "MEMORY.md").read_text(encoding="utf-8")
    for before, after in pairwise(versions):
        assert find_loss(before["text"], after["text"]).share <= MAX_CONFIRMED_SHARE
    sources = [version["source"] for version in versions]
    assert len(set(sources)) == len(sources), "no update was applied twice"
