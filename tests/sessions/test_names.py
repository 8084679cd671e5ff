"""Session keys as file names: reversible, and two keys never share a file."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobee.sessions.names import key_of_path, path_of_key

LOOKALIKES = [
    "ws:a_b",
    "ws:a:b",
    "ws:a/b",
    "ws:A_B",
    "ws:a_b ",
    "ws:" + "x" * 300,
    "ws:" + "é" * 300,
    "ws:🐝",
    "ws:a%5fb",
]


def test_o14_keys_that_differ_in_punctuation_or_case_only_get_files_of_their_own() -> None:
    paths = [str(path_of_key(key)) for key in LOOKALIKES]
    assert len({path.lower() for path in paths}) == len(LOOKALIKES)
    assert [key_of_path(PurePosixPath(path)) for path in paths] == LOOKALIKES


@given(st.text(st.characters(), max_size=400))
def test_any_key_comes_back_from_a_path_that_every_file_system_takes(key: str) -> None:
    path = path_of_key(key)
    assert key_of_path(path) == key
    assert all(len(part) <= 255 and part not in (".", "..") for part in path.parts)
    assert str(path) == str(path).lower()
    assert str(path).isascii()


@pytest.mark.parametrize("name", ["notes.txt", "A.jsonl", "a%zz.jsonl", "a%.jsonl", "folder/a.jsonl", "%c3.jsonl"])
def test_a_file_that_no_key_makes_is_no_session(name: str) -> None:
    assert key_of_path(PurePosixPath(name)) is None
