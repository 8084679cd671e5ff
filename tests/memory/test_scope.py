"""Whose memory a session reads."""

from pathlib import Path

import pytest

from nanobee.config_memory import MemoryScope
from nanobee.memory.scope import OWNER_SCOPE, Scopes


@pytest.fixture
def scopes(tmp_path: Path) -> Scopes:
    return Scopes(tmp_path, ("telegram:12345", "web:ann:x"), ("terminal",))


@pytest.mark.parametrize("key", ["telegram:12345", "terminal:main", "terminal:any", "web:ann%3Ax:session-7"])
def test_the_owners_private_chats_share_one(key: str, scopes: Scopes) -> None:
    assert scopes.of(key) == OWNER_SCOPE
    assert scopes.root(scopes.of(key)) == scopes.workspace / "memory"


@pytest.mark.parametrize(
    "key",
    [
        "telegram:-100",
        "telegram:123456",
        "telegram:1234",
        "feishu:12345",
        "web:ann",
        "web:bob",
        "cron:12345",
        "owner:1",
    ],
)
def test_everybody_else_has_their_own(key: str, scopes: Scopes) -> None:
    scope = scopes.of(key)
    assert not scope.is_private
    assert scope.key == key
    assert scope.folder.parts[0] == "scopes"


def test_reserved_channels_are_nobodys_private_chat(tmp_path: Path) -> None:
    assert not Scopes(tmp_path, ("cron:1",)).of("cron:1").is_private


def test_the_topics_of_a_group_share_the_groups(scopes: Scopes) -> None:
    assert scopes.of("telegram:-100:158") == scopes.of("telegram:-100:7") == scopes.of("telegram:-100")


def test_where_each_chat_has_its_own_the_terminal_keeps_the_main_one(tmp_path: Path) -> None:
    scopes = Scopes(tmp_path, ("telegram:1",), ("terminal",), MemoryScope.CHAT)
    assert scopes.of("terminal:main") == OWNER_SCOPE
    assert (scopes.of("telegram:1").key, scopes.of("telegram:1").is_private) == ("telegram:1", True)


def test_o14_chats_that_differ_in_punctuation_or_case_never_share_a_folder(scopes: Scopes) -> None:
    keys = [f"ws:{chat}" for chat in ("a_b", "a%3Ab", "a/b", "A_B", "a_b ", "a" * 300, "🐝", "..", ".", "memory", "~")]
    folders = [str(scopes.of(key).folder).casefold() for key in keys]
    names = [scopes.of(key).file_name.casefold() for key in keys]
    assert len(set(folders)) == len(set(names)) == len(keys)
    assert not any("/../" in folder or "/./" in folder for folder in folders)
    for key in keys:
        scopes.root(scopes.of(key)).mkdir(parents=True)
    assert sorted(scope.key for scope in scopes.all()) == sorted(["owner", *keys])
