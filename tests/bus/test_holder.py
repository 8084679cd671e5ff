"""The holder's lock on a state folder."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nanobee.bus import file_system
from nanobee.bus.holder import PID_NAME, hold, holder_pid
from nanobee.errors import HeldError, StateError

HOLD = """
import pathlib, sys
from nanobee.bus.holder import hold
with hold(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def start_holder(state: Path) -> "subprocess.Popen[str]":
    """Another process that holds the folder."""
    command = [sys.executable, "-c", HOLD, str(state)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_second_process_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with start_holder(tmp_path) as holder:
        with pytest.raises(HeldError, match=f"in use by process {holder.pid}") as refused, hold(tmp_path):
            pass
        assert refused.value.pid == holder.pid
        assert holder_pid(tmp_path) == holder.pid
        holder.communicate(timeout=30)


def test_a_folder_that_was_left_in_order_is_free(tmp_path: Path) -> None:
    with start_holder(tmp_path) as holder:
        holder.communicate(timeout=30)
    assert holder_pid(tmp_path) is None
    with hold(tmp_path):
        assert holder_pid(tmp_path) == os.getpid()
    assert not (tmp_path / PID_NAME).exists()


def test_a_killed_holder_leaves_the_folder_free_at_once(tmp_path: Path) -> None:
    with start_holder(tmp_path) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait(timeout=30)
        assert holder_pid(tmp_path) is None
        with hold(tmp_path):
            assert holder_pid(tmp_path) == os.getpid()


def test_a_pid_file_that_cannot_be_read_still_tells_that_the_folder_is_held(tmp_path: Path) -> None:
    with start_holder(tmp_path) as holder:
        (tmp_path / PID_NAME).write_text("no number", encoding="ascii")
        with pytest.raises(HeldError, match="in use by another process") as refused, hold(tmp_path):
            pass
        assert refused.value.pid is None
        holder.communicate(timeout=30)


def test_a_folder_that_does_not_exist_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    state = tmp_path / "deep" / "state"
    assert holder_pid(state) is None
    with hold(state):
        assert state.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_is_a_state_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="ascii")
    with pytest.raises(StateError, match="cannot be used"), hold(tmp_path / "file" / "state"):
        pass


def test_a_folder_on_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mounts"
    table.write_text(f"1 0 0:1 / {tmp_path.resolve()} rw - nfs4 server:/x rw\n", encoding="utf-8")
    monkeypatch.setattr(file_system, "MOUNTS", table)
    state = tmp_path / "state"
    with pytest.raises(StateError, match=r"network file system \(nfs4\)") as refused, hold(state):
        pass
    assert str(state) in str(refused.value)
    assert list(state.iterdir()) == []
