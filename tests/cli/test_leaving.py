"""The process ends when it is told to, whatever a tool's thread does."""

import subprocess
import sys
import time

CODE = """
import threading, time, sys
from nanobee.cli.leaving import leave
if {hangs}:
    threading.Thread(target=time.sleep, args=(60,)).start()
print("said", end="")
leave({code!r})
sys.exit({code!r})
"""


def run(hangs: bool, code: object) -> subprocess.CompletedProcess[str]:
    program = CODE.format(hangs=hangs, code=code)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)


def test_a_thread_that_goes_on_does_not_hold_up_the_exit_and_nothing_said_is_lost() -> None:
    began = time.monotonic()
    for code, expected in ((0, 0), (2, 2), (None, 0)):
        done = run(True, code)
        assert (done.returncode, done.stdout) == (expected, "said")
    assert time.monotonic() - began < 50


def test_without_such_a_thread_the_exit_is_the_usual_one() -> None:
    done = run(False, 3)
    assert (done.returncode, done.stdout) == (3, "said")
