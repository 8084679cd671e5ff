"""Processes that race for one state folder, some of them killed: never do two hold it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROUNDS = 40
ENDLESS = 1_000_000
"""For those that are killed."""
SECONDS = 60
RACE = """
import os, pathlib, sys
from nanobee.bus import holder
from nanobee.errors import HeldError

holder.HOLD_SECONDS = 0.05
state, rounds = pathlib.Path(sys.argv[1]), int(sys.argv[2])
inside = state / "inside"
for _ in range(rounds):
    try:
        with holder.hold(state):
            # Whoever was killed in here left the file, and has no command line; else it is a second holder.
            other = int(inside.read_text() or 0) if inside.exists() else 0
            command = pathlib.Path(f"/proc/{other}/cmdline")
            if other and command.exists() and command.read_bytes():
                print("two at once", other, os.getpid(), flush=True)
            inside.write_text(str(os.getpid()))
            assert holder.holder_pid(state) == os.getpid()
            print("held", flush=True)
            inside.unlink()
    except HeldError:
        print("refused", flush=True)
"""


def test_of_processes_that_race_and_are_killed_never_two_hold_the_folder(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}

    def start(rounds: int) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", RACE, str(tmp_path), str(rounds)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    racers = [start(ENDLESS), start(ENDLESS), start(ROUNDS), start(ROUNDS)]
    for racer in racers[:2]:
        assert racer.stdout is not None
        for _ in range(5):
            racer.stdout.readline()
        racer.send_signal(signal.SIGKILL)
    said = "".join(racer.communicate(timeout=SECONDS)[0] for racer in racers)
    assert "two at once" not in said
    assert said.count("held") > ROUNDS // 2
    assert [racer.returncode for racer in racers] == [-signal.SIGKILL] * 2 + [0] * 2
