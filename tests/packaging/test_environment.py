"""scripts/environment, with stand-ins for Python and uv that note what they are asked: no network, no installation."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

FAKE_PYTHON = """#!/bin/sh
case "$1 $2" in
*'version_info[:2]'*) echo python3.11 ;;
*version_info*) exit "${FAKE_IS_OLD:-0}" ;;
*ensurepip*) exit "${FAKE_HAS_NO_VENV:-0}" ;;
'-m venv') echo "venv" >>"$FAKE_LOG" && mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
'-m pip') shift 3 && echo "pip $*" >>"$FAKE_LOG" && exit "${FAKE_PIP_FAILS:-0}" ;;
esac
"""
FAKE_UV = """#!/bin/sh
echo "uv $*" >>"$FAKE_LOG"
for last in "$@"; do :; done
[ "$1" != venv ] || { mkdir -p "$last/bin" && : >"$last/bin/python" && chmod +x "$last/bin/python"; }
"""
TOOLS = ["sh", "cat", "chmod", "cksum", "cp", "mkdir", "rm", "sed"]
PIP = "pip -qq --disable-pip-version-check"
FROM_NOTHING = ["venv", f"{PIP} --require-hashes --only-binary :all: -r requirements/run.txt"]
FROM_NOTHING += [f"{PIP} --no-deps --no-build-isolation --editable ."]


@dataclass(frozen=True)
class Project:
    """A copy of the script in a folder of its own, and the programs that it finds."""

    folder: Path
    programs: Path
    log: Path

    def add_program(self, name: str, source: str) -> None:
        path = self.programs / name
        path.write_text(source, encoding="utf-8")
        path.chmod(0o755)

    def run(self, *more: str, code: int = 0, **variables: str) -> tuple[list[str], str]:
        """Run it; what it asked of Python and uv, and what it said."""
        self.log.write_text("", encoding="utf-8")
        command = ["scripts/environment", ".venv", "requirements/run.txt", *more]
        environ = {"PATH": str(self.programs), "FAKE_LOG": str(self.log), **variables}
        result = subprocess.run(
            command, cwd=self.folder, env=environ, capture_output=True, text=True, timeout=30, check=False
        )
        assert result.stdout == ""
        assert result.returncode == code, result.stderr
        return self.log.read_text(encoding="utf-8").splitlines(), result.stderr


@pytest.fixture
def project(source_root: Path, tmp_path: Path) -> Project:
    project = Project(tmp_path / "a b" / "clone", tmp_path / "bin", tmp_path / "log")
    (project.folder / "requirements").mkdir(parents=True)
    shutil.copytree(source_root / "scripts", project.folder / "scripts")
    (project.folder / "requirements" / "run.txt").write_text("thing==1\n", encoding="utf-8")
    (project.folder / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    project.programs.mkdir()
    for tool in TOOLS:
        (project.programs / tool).symlink_to(shutil.which(tool) or tool)
    project.add_program("python3", FAKE_PYTHON)
    return project


def test_the_first_run_installs_from_hashes_and_says_so_in_a_line(project: Project) -> None:
    asked, said = project.run()
    assert asked == FROM_NOTHING
    assert said == "nanobee: installing into .venv, once ...\n"


def test_the_second_run_does_nothing(project: Project) -> None:
    project.run()
    assert project.run() == ([], "")


@pytest.mark.parametrize("changed", ["requirements/run.txt", "pyproject.toml"])
def test_what_has_changed_is_installed_into_the_same_environment(project: Project, changed: str) -> None:
    project.run()
    (project.folder / changed).write_text("thing==2\n", encoding="utf-8")
    asked, said = project.run()
    assert asked == FROM_NOTHING[1:]
    assert said == "nanobee: installing what has changed into .venv ...\n"
    assert project.run() == ([], "")


def test_an_installation_that_failed_is_made_from_nothing(project: Project) -> None:
    asked, said = project.run(code=1, FAKE_PIP_FAILS="1")
    assert asked == FROM_NOTHING[:2]
    assert "the installation failed for the reason above; the next run tries again" in said
    assert project.run()[0] == FROM_NOTHING


def test_a_mending_that_failed_is_made_from_nothing(project: Project) -> None:
    project.run()
    (project.folder / "pyproject.toml").write_text("[tool]\n", encoding="utf-8")
    project.run(code=1, FAKE_PIP_FAILS="1")
    assert project.run()[0] == FROM_NOTHING


def test_a_moved_folder_is_installed_anew(project: Project) -> None:
    project.run()
    moved = Project(project.folder.rename(project.folder.with_name("moved")), project.programs, project.log)
    assert moved.run()[0] == FROM_NOTHING


def test_an_interpreter_that_went_away_is_replaced(project: Project) -> None:
    project.run()
    (project.folder / ".venv" / "bin" / "python").unlink()
    assert project.run()[0] == FROM_NOTHING


def test_another_interpreter_makes_another_environment(project: Project) -> None:
    project.run()
    project.add_program("my python", FAKE_PYTHON)
    chosen = str(project.programs / "my python")
    assert project.run(PYTHON=chosen)[0] == FROM_NOTHING
    assert project.run(PYTHON=chosen) == ([], "")
    assert project.run() == ([], ""), "an environment made by choice stays"


def test_a_missing_venv_module_is_one_line_with_the_package_to_install(project: Project) -> None:
    asked, said = project.run(code=1, FAKE_HAS_NO_VENV="1")
    assert asked == []
    (line,) = said.splitlines()
    assert "python3.11 has no venv module" in line
    assert "apt-get install python3.11-venv" in line
    assert not (project.folder / ".venv").exists()


def test_an_interpreter_with_venv_is_preferred_to_a_newer_one_without(project: Project) -> None:
    project.add_program("python3.13", FAKE_PYTHON.replace('"${FAKE_HAS_NO_VENV:-0}"', "1"))
    assert project.run()[0] == FROM_NOTHING


def test_an_old_python_is_one_line(project: Project) -> None:
    asked, said = project.run(code=1, FAKE_IS_OLD="1")
    assert (asked, said) == ([], "nanobee: Python 3.11 or newer is needed, and none is here.\n")


def test_a_chosen_python_that_is_old_is_one_line(project: Project) -> None:
    asked, said = project.run(code=1, PYTHON="python3", FAKE_IS_OLD="1")
    assert (asked, said) == ([], "nanobee: PYTHON=python3 is not Python 3.11 or newer.\n")


def test_uv_is_used_where_it_is_and_needs_no_venv_module(project: Project) -> None:
    project.add_program("uv", FAKE_UV)
    asked, _ = project.run(FAKE_HAS_NO_VENV="1")
    into = "uv pip install --quiet --python .venv/bin/python"
    assert asked == [
        "uv venv --quiet --no-project --python python3 .venv",
        f"{into} --require-hashes --only-binary :all: -r requirements/run.txt",
        f"{into} --no-deps --no-build-isolation --editable .",
    ]
    assert project.run() == ([], "")


def test_uv_finds_a_python_where_none_is_new_enough(project: Project) -> None:
    project.add_program("uv", FAKE_UV)
    asked, _ = project.run(FAKE_IS_OLD="1")
    assert asked[0] == "uv venv --quiet --no-project --python >=3.11 .venv"


def test_a_wheel_is_installed_instead_of_the_source(project: Project) -> None:
    asked, _ = project.run("dist/it.whl")
    assert asked[-1] == f"{PIP} --no-deps dist/it.whl"
