"""What a search of a big memory costs, beside ripgrep on the same text.

    python -m benchmarks.memory [--megabytes 100] [--sessions 10000] [--limit-rows 1200] [--rg PROGRAM]

Writes a HISTORY.md of that size and so many sessions into a temporary folder, builds the index, and looks for words
that are in few and in many entries, in English and in Chinese. Then a turn's own share of memory is timed with
the big memory and with an empty one: the prompt and what is recalled. Exits with 1 when a search touches more rows
than the limit, misses what it should find, or a turn costs more than the limit.
"""

import argparse
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nanobee.bus.lines import Line
from nanobee.clock import Clock
from nanobee.memory.finder import Finder
from nanobee.memory.lock import WriterLock
from nanobee.memory.memory import Memories
from nanobee.memory.recall import recall
from nanobee.memory.scope import OWNER_SCOPE, Scopes
from nanobee.memory.search import Query
from nanobee.sessions.files import SessionFiles
from nanobee.system_prompt import SystemPrompt

NEEDLES = {"zanzibar": 40, "烤鸭": 40, "北京": 400}
"""Words, and in how many entries each is hidden."""
COMMON = ("mountain", "weather")
TURN_LIMIT_SECONDS = 0.05
"""What memory may add to a turn, however much is remembered."""
REPEAT = 7
HAN = (
    "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分"
    "对成会可主发年动同工也能下过子说产种面而方后多定行学法所民得经"
)


@dataclass(frozen=True, slots=True)
class World:
    """A memory to measure."""

    root: Path
    memories: Memories
    finder: Finder

    @classmethod
    def create(cls, root: Path) -> "World":
        scopes = Scopes(root / "workspace", ("bench:1",), ("terminal",))
        memories = Memories(scopes, WriterLock(root / "state"), Clock())
        return cls(root, memories, Finder(memories, SessionFiles(root / "state"), root / "state"))

    @property
    def history(self) -> Path:
        return self.memories.of(OWNER_SCOPE).history.path


def fill(world: World, megabytes: int, sessions: int, dice: random.Random) -> int:
    """Write the history and the sessions; returns the number of entries."""
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(3, 9))) for _ in range(20_000)]
    world.history.parent.mkdir(parents=True)
    size, count = 0, 0
    with world.history.open("w", encoding="utf-8") as file:
        while size < megabytes * 1_000_000:
            text = " ".join(dice.choices(words, k=22)) + " " + "".join(dice.choices(HAN, k=18))
            if count % 3 == 0:
                text += f" the {dice.choice(COMMON)} was fine"
            at = datetime(2026, 1, 1) + timedelta(minutes=count)
            source = f"terminal:s{count % max(sessions, 1)} seq {count}–{count}"
            row = f"[{at:%Y-%m-%d %H:%M}] {text}{hidden(count)} [{source}]\n\n"
            size += len(row.encode())
            count += 1
            file.write(row)
    at = datetime(2026, 9, 1, tzinfo=UTC)
    for number in range(sessions):
        lines = [
            Line(seq, at, "t", "message", {"role": role, "content": " ".join(dice.choices(words, k=12))}).to_json()
            for seq, role in ((1, "user"), (2, "assistant"))
        ]
        world.finder.files.append([(f"terminal:s{number}", line) for line in lines])
    return count


def hidden(count: int) -> str:
    """The needles of one entry."""
    found = [word for word, often in NEEDLES.items() if count % 1_000 == 0 and count // 1_000 < often]
    return "".join(f" {word}" for word in found)


def timed(work: Callable[[], object]) -> float:
    """The median of some repetitions, in seconds."""
    times = []
    for _ in range(REPEAT):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def search_all(world: World, rg: str | None, limit_rows: int) -> bool:
    """The table of searches; False where one fails."""
    is_good = True
    print(f"{'query':<24} {'found':>6} {'rows':>6} {'index':>10} {'ripgrep':>10}")
    for query in (*NEEDLES, "鸭", *COMMON, "mountain zanzibar", "nowhereatall"):
        matches = world.finder.find_now(OWNER_SCOPE, Query(query, limit=20)).matches
        ours = timed(lambda query=query: world.finder.find_now(OWNER_SCOPE, Query(query, limit=20)))  # type: ignore[misc]
        command = [rg, "--count", "--fixed-strings", query, str(world.history)] if rg else []
        theirs = timed(lambda command=command: subprocess.run(command, capture_output=True, check=False)) if rg else 0.0  # type: ignore[misc]
        wanted = query in NEEDLES or query in COMMON or query == "鸭"
        is_good &= matches.rows_touched <= limit_rows and (bool(matches.found) or not wanted)
        beside = f"{theirs * 1000:>7.1f} ms" if rg else "-"
        print(f"{query:<24} {len(matches.found):>6} {matches.rows_touched:>6} {ours * 1000:>7.1f} ms {beside:>10}")
    return is_good


def turn_seconds(world: World) -> float:
    """What memory adds to a turn: the prompt, and what is recalled for a message."""
    prompt = SystemPrompt(world.memories.scopes.workspace, world.memories.clock, world.memories)

    def turn() -> None:
        prompt.build("terminal:s1")
        recall(world.finder.index(OWNER_SCOPE), "What did we say about the weather in Zanzibar last March?", Clock())

    return timed(turn)


def measure(root: Path, megabytes: int, sessions: int, limit_rows: int, rg: str | None) -> bool:
    """Everything; False where a limit is passed."""
    world, empty = World.create(root / "big"), World.create(root / "empty")
    began = time.perf_counter()
    entries = fill(world, megabytes, sessions, random.Random(1))
    print(
        f"{megabytes} MB of history in {entries:,} entries, {sessions:,} sessions ({time.perf_counter() - began:.0f} s)"
    )
    began, cpu = time.perf_counter(), time.process_time()
    world.finder.update(OWNER_SCOPE, 3600)
    print(f"index built in {time.perf_counter() - began:.0f} s ({time.process_time() - cpu:.0f} s CPU)")
    empty.finder.update(OWNER_SCOPE, 60)
    is_good = search_all(world, rg, limit_rows)
    big, small = turn_seconds(world), turn_seconds(empty)
    print(f"memory's share of a turn: {big * 1000:.1f} ms, with nothing remembered {small * 1000:.1f} ms")
    return is_good and big <= TURN_LIMIT_SECONDS


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.memory", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--limit-rows", type=int, default=1_200, help="that one search may look at")
    parser.add_argument("--rg", default=shutil.which("rg"), help="ripgrep, to compare with")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="nanobee-bench-") as folder:
        is_good = measure(Path(folder), options.megabytes, options.sessions, options.limit_rows, options.rg)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
