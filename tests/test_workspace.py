"""The workspace: made out of the template, over nothing that is there."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import nanobee.workspace
from nanobee.errors import StateError
from nanobee.workspace import create_file, init_workspace, make_private_folder, template_root

TEMPLATE = {
    *("AGENTS.md", "SOUL.md", "USER.md", "HEARTBEAT.md", "memory/MEMORY.md"),
    *("skills/README.md", "tools/README.md", "agents/README.md"),
}


def files(folder: Path) -> dict[str, str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in found}


def test_a_new_workspace_is_the_template(tmp_path: Path) -> None:
    created = init_workspace(tmp_path / "a" / "ws")
    assert {str(path.relative_to(tmp_path / "a" / "ws")) for path in created} == TEMPLATE
    assert set(files(tmp_path / "a" / "ws")) == TEMPLATE
    assert files(tmp_path / "a" / "ws")["SOUL.md"] == (template_root() / "SOUL.md").read_text(encoding="utf-8")


def test_a_workspace_is_private(tmp_path: Path) -> None:
    init_workspace(tmp_path / "ws")
    for path in (tmp_path / "ws", tmp_path / "ws" / "memory", tmp_path / "ws" / "USER.md"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "SOUL.md").write_text("mine", encoding="utf-8")
    (tmp_path / "USER.md").write_text("", encoding="utf-8")
    (tmp_path / "AGENTS.md").symlink_to("gone")
    (tmp_path / "memory" / "MEMORY.md").write_text("facts", encoding="utf-8")
    created = init_workspace(tmp_path)
    assert {path.name for path in created} == {"HEARTBEAT.md", "README.md"}
    assert (tmp_path / "SOUL.md").read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "USER.md").read_text(encoding="utf-8") == ""
    assert (tmp_path / "AGENTS.md").is_symlink()
    assert not (tmp_path / "gone").exists()
    assert (tmp_path / "memory" / "MEMORY.md").read_text(encoding="utf-8") == "facts"


def test_a_second_time_creates_nothing_and_leaves_no_trace(tmp_path: Path) -> None:
    init_workspace(tmp_path)
    before = files(tmp_path)
    assert init_workspace(tmp_path) == []
    assert files(tmp_path) == before


def test_two_processes_make_one_workspace(tmp_path: Path) -> None:
    code = "import pathlib, sys, nanobee.workspace as w; print(len(w.init_workspace(pathlib.Path(sys.argv[1]))))"
    command = [sys.executable, "-c", code, str(tmp_path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
    counts = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sum(counts) == len(TEMPLATE)
    assert set(files(tmp_path)) == TEMPLATE


def test_the_template_itself_is_refused() -> None:
    with pytest.raises(StateError, match="template folder itself"):
        init_workspace(template_root())


def test_a_file_in_the_place_of_the_workspace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ws").write_text("x", encoding="utf-8")
    with pytest.raises(StateError, match="cannot be made: Not a directory"):
        init_workspace(tmp_path / "ws")
    with pytest.raises(StateError, match="cannot be made"):
        make_private_folder(tmp_path / "ws" / "state")
    with pytest.raises(StateError, match="cannot be written"):
        create_file(tmp_path / "ws" / "file", b"")


def test_a_file_is_created_whole_or_not_at_all(tmp_path: Path) -> None:
    assert create_file(tmp_path / "a" / "f", b"one") is True
    assert create_file(tmp_path / "a" / "f", b"two") is False
    assert (tmp_path / "a" / "f").read_bytes() == b"one"
    assert list((tmp_path / "a").iterdir()) == [tmp_path / "a" / "f"]


def test_a_file_system_without_hard_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: object, target: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert create_file(tmp_path / "f", b"one") is True
    assert create_file(tmp_path / "f", b"two") is False
    assert (tmp_path / "f").read_bytes() == b"one"
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600


def test_an_installed_package_brings_its_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "nanobee"
    (package / "_workspace").mkdir(parents=True)
    monkeypatch.setattr(nanobee.workspace, "__file__", str(package / "workspace.py"))
    with pytest.raises(StateError, match="install nanobee again"):
        template_root()
    (package / "_workspace" / "AGENTS.md").write_text("x", encoding="utf-8")
    assert template_root() == package / "_workspace"
