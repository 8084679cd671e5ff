"""Where the socket stands."""

from pathlib import Path
from socket import AF_UNIX, socket

import pytest

from nanobee.remote.socket_path import MAX_PATH_BYTES, RECORD_NAME, SOCKET_NAME, find_socket, is_too_long, socket_place


def make_deep(tmp_path: Path) -> Path:
    """A state folder whose path is too long for a socket."""
    state = tmp_path / ("深" * 30) / "state"
    state.mkdir(parents=True)
    assert is_too_long(state / SOCKET_NAME)
    return state


def make_shallow(short_folder: Path) -> Path:
    state = short_folder / "state"
    state.mkdir()
    assert not is_too_long(state / SOCKET_NAME)
    return state


def listen(path: Path) -> socket:
    """Something that stands at the path as a socket does."""
    listener = socket(AF_UNIX)
    listener.bind(str(path))
    return listener


def test_it_stands_in_the_state_folder_while_it_is_wanted(short_folder: Path) -> None:
    state = make_shallow(short_folder)
    with socket_place(state, {}) as path:
        assert path == state / SOCKET_NAME
        assert find_socket(state) is None
        with listen(path):
            assert find_socket(state) == path
    assert find_socket(state) is None
    assert list(state.iterdir()) == []


def test_below_a_deep_state_folder_it_stands_elsewhere_and_is_found(tmp_path: Path, short_folder: Path) -> None:
    state = make_deep(tmp_path)
    with socket_place(state, {"XDG_RUNTIME_DIR": str(short_folder)}) as path:
        assert path.is_relative_to(short_folder)
        assert path.parent.stat().st_mode & 0o777 == 0o700
        with listen(path):
            assert find_socket(state) == path
    assert list(state.iterdir()) == []
    assert list(short_folder.iterdir()) == []


def test_a_runtime_folder_that_is_too_deep_or_missing_is_passed_over(tmp_path: Path) -> None:
    state = make_deep(tmp_path)
    for runtime in (str(state), "/does/not/exist", ""):
        with socket_place(state, {"XDG_RUNTIME_DIR": runtime}) as path:
            assert len(str(path)) <= MAX_PATH_BYTES
            assert path.parent.is_dir()
        assert not path.parent.exists()


def test_what_a_killed_holder_left_is_taken_away_first(tmp_path: Path, short_folder: Path) -> None:
    shallow, deep = make_shallow(short_folder), make_deep(tmp_path)
    environ = {"XDG_RUNTIME_DIR": str(short_folder)}
    left = []
    for state in (shallow, deep):
        place = socket_place(state, environ)
        left.append(place.__enter__())  # and never left: as by kill -9
        listen(left[-1]).close()
        assert left[-1].is_socket()
        with socket_place(state, environ) as path, listen(path):
            assert find_socket(state) == path
    assert not any(path.exists() for path in left)
    assert list(short_folder.iterdir()) == [shallow]


@pytest.mark.parametrize(
    "record", [b"", b"\n", b"relative/holder.sock\n", b"\xff\xfe", b"/etc/passwd\n", b"/x/holder.sock"]
)
def test_a_record_that_we_did_not_write_is_not_followed(tmp_path: Path, record: bytes) -> None:
    state = make_deep(tmp_path)
    (state / RECORD_NAME).write_bytes(record)
    assert find_socket(state) is None
    with socket_place(state, {}) as path, listen(path):
        assert find_socket(state) == path


def test_nothing_but_sockets_is_taken_away(tmp_path: Path, short_folder: Path) -> None:
    state, precious = make_deep(tmp_path), short_folder / "nanobee-precious"
    precious.mkdir()
    (precious / SOCKET_NAME).write_text("a file", encoding="utf-8")
    (state / RECORD_NAME).write_text(f"{precious / SOCKET_NAME}\n", encoding="utf-8")
    with socket_place(state, {}):
        pass
    assert (precious / SOCKET_NAME).read_text(encoding="utf-8") == "a file"
