"""The lock files hold what pyproject.toml asks for, each with its hashes, and no address."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

LOCKS = ["run.txt", "test.txt"]


def read_pins(path: Path) -> dict[str, tuple[Version, int]]:
    """Each pinned distribution with its version and its number of hashes."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    pins: dict[str, tuple[Version, int]] = {}
    for line in lines:
        name, version = re.match(r"([\w.-]+)==([^\s;]+)", line).groups()  # type: ignore[union-attr]
        pins[canonicalize_name(name)] = (Version(version), line.count("--hash=sha256:"))
    return pins


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_hashes(source_root: Path, lock: str) -> None:
    pins = read_pins(source_root / "requirements" / lock)
    assert len(pins) > 30
    assert [name for name, (_, hashes) in pins.items() if hashes == 0] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_index_and_no_path(source_root: Path, lock: str) -> None:
    text = (source_root / "requirements" / lock).read_text(encoding="utf-8")
    assert not re.findall(r"://|--index|--extra|--find|--trusted|^-[^-]|file:|@ ", text, flags=re.MULTILINE)


def test_both_locks_pin_the_same_versions(source_root: Path) -> None:
    run, test = (read_pins(source_root / "requirements" / lock) for lock in LOCKS)
    assert run.items() <= test.items()


def test_the_locks_satisfy_the_project_file(source_root: Path) -> None:
    project = tomllib.loads((source_root / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    parts = [line for part in extras if part != "all" for line in extras[part]]
    dev = [line for line in project["dependency-groups"]["dev"] if isinstance(line, str)]
    groups = {
        "run.txt": [*project["project"]["dependencies"], *parts],
        "test.txt": [*dev, *project["build-system"]["requires"]],
    }
    for lock, lines in groups.items():
        pins = read_pins(source_root / "requirements" / lock)
        for requirement in map(Requirement, lines):
            version, _ = pins[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version, prereleases=True), f"{lock}: {requirement}"


def test_all_names_every_part(source_root: Path) -> None:
    project = tomllib.loads((source_root / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    (everything,) = map(Requirement, extras["all"])
    assert everything.extras == extras.keys() - {"all"}
