"""`nanobee chaos` as people run it: the real gateway, killed again and again."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process

from nanobee.testing.chaos.account import Account, Fault, FaultKind, Parked
from nanobee.testing.chaos.modes import POINTS, Mode
from nanobee.testing.chaos.report import to_json, to_lines
from nanobee.testing.chaos.run import Result

LIMIT_SECONDS = 110.0
COMMAND = (sys.executable, "-c", "from nanobee.cli import main; main()", "chaos")


async def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    with anyio.fail_after(LIMIT_SECONDS):
        return await anyio.run_process([*COMMAND, *arguments], check=False, env=os.environ)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
async def test_twenty_rounds_of_kills_lose_nothing_and_do_nothing_twice(seed: int) -> None:
    """Five rounds for each of four seeds: one long test would outlast the limit of a single one."""
    done = await run("--rounds", "5", "--messages", "24", "--seed", str(seed), "--json")
    result = json.loads(done.stdout)
    assert (result["faults"], result["parked"], result["failed"]) == ([], [], [])
    assert (done.returncode, done.stderr) == (0, b"")
    account = result["account"]
    assert account["received"] == account["answered"] == 5 * 24
    assert account["duplicates"] == len(result["duplicates"]) <= account["sends_under_way"]
    assert sum(result["kills"].values()) + len(result["not_passed"]) == 10
    hits = sum(count for points in result["hits"].values() for count in points.values())
    assert hits == result["kills"]["point"] >= 2


@pytest.mark.parametrize(("falsehood", "kind"), [("loss", "lost"), ("double", "double without a kill")])
async def test_a_falsified_record_ends_the_run_with_1(falsehood: str, kind: str) -> None:
    done = await run("--rounds", "1", "--messages", "8", "--mode", "plain", "--falsify", falsehood, "--json")
    result = json.loads(done.stdout)
    assert done.returncode == 1
    assert [fault["kind"] for fault in result["faults"]] == [kind]
    assert not result["is_sound"]


async def test_people_get_a_timeline_and_tables() -> None:
    done = await run("--rounds", "1", "--messages", "4", "--mode", "plain")
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0
    assert lines[1].startswith("   1 plain")
    assert "✗" in lines[1]
    assert lines[1].endswith("settled")
    assert lines[-1].startswith("Nothing was lost: 4 received = 4 answered + 0 parked")


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Short enough for a gateway's socket to stand below it."""
    with tempfile.TemporaryDirectory(prefix="nb-") as folder:
        yield Path(folder)


def read_children(process: Process) -> list[Path]:
    """The `/proc` folders of its children."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
    return [Path("/proc") / child for child in children.split()]


def list_existing(folder: Path, others: list[Path]) -> list[Path]:
    """What is in the folder, and what of the others is there."""
    return [*folder.iterdir(), *(each for each in others if each.exists())]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_run_leaves_no_gateway_and_no_folder(number: signal.Signals, short_folder: Path) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        process = await anyio.open_process(
            [*COMMAND, "--mode", "plain"], env={**os.environ, "TMPDIR": str(short_folder)}
        )
        assert process.stdout is not None
        said = b""
        while b"settled" not in said:
            said += await process.stdout.receive()
        children = read_children(process)
        process.send_signal(number)
        await process.aclose()
    assert process.returncode in (1, 130)
    assert children
    assert list_existing(short_folder, children) == []


async def test_an_unknown_mode_is_refused_with_the_known_ones() -> None:
    done = await run("--mode", "plane")
    assert done.returncode == 2
    assert b"plain" in done.stderr


def test_the_user_s_language_is_spoken() -> None:
    result = Result(1, 1, 1, by_mode={Mode.PLAIN: Account()})
    assert any("没有丢失" in line for line in to_lines(result, "zh"))


def test_parking_is_no_way_out() -> None:
    account = Account(received=100, answered=98, parked=[Parked(1, 1, "stopped"), Parked(1, 2, "stopped")])
    assert not Result(1, 100, 1, account).is_sound
    account.answered = 99
    assert Result(1, 100, 1, account).is_sound


def test_a_single_fault_makes_a_run_unsound_and_is_shown() -> None:
    account = Account(received=100, answered=100, faults=[Fault(FaultKind.DISORDER, 3, "chat 7: late")])
    result = Result(1, 100, 1, account, {Mode.PLAIN: account})
    assert not result.is_sound
    lines = list(to_lines(result, "en"))
    assert "  round 3: out of order: chat 7: late" in lines
    assert to_json(result)["faults"] == [{"kind": "out of order", "round": 3, "what": "chat 7: late"}]


def test_kills_are_reported_for_each_checkpoint_and_mode() -> None:
    result = Result(1, 1, 1, by_mode={Mode.TOOLS: Account()})
    result.hits[Mode.TOOLS, "record.stored"] = 3
    hits = to_json(result)["hits"]
    assert hits == {"tools": {point: 3 if point == "record.stored" else 0 for point in POINTS[Mode.TOOLS]}}
    assert any(line.split() == ["record.stored", "3"] for line in to_lines(result, "en"))
