"""Rules for the source that no linter knows."""

import tomllib
from pathlib import Path

import pytest

MAX_LINES = 400
GRAB_BAGS = {"utils", "helpers", "common", "base", "misc"}


@pytest.fixture
def modules(source_root: Path) -> list[Path]:
    found = [
        path
        for folder in ("nanobee", "channels", "benchmarks", "tests")
        for path in (source_root / folder).rglob("*.py")
    ]
    assert len(found) > 20
    return found


def test_no_module_is_longer_than_the_limit(modules: list[Path]) -> None:
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in modules}
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def test_no_module_is_a_grab_bag(modules: list[Path]) -> None:
    assert [path for path in modules if path.stem in GRAB_BAGS or path.parent.name in GRAB_BAGS] == []


def test_no_import_package_is_called_channels(source_root: Path) -> None:
    """A top-level import package of that name would overwrite another project's."""
    assert not (source_root / "channels" / "__init__.py").exists()
    project = tomllib.loads((source_root / "pyproject.toml").read_text(encoding="utf-8"))
    assert "channels" not in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]


def test_every_channel_folder_is_shipped_linted_and_found(source_root: Path) -> None:
    project = tomllib.loads((source_root / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {path.parent.name for path in (source_root / "channels").glob("*/__init__.py")}
    shipped = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    found = project["project"]["entry-points"]["nanobee.channels"].values()
    assert {f"channels/{name}" for name in folders} == {name for name in shipped if name.startswith("channels/")}
    assert folders == {target.partition(":")[0] for target in found}
    assert folders == set(project["tool"]["importlinter"]["root_packages"]) - {"nanobee"}
    assert all((source_root / "channels" / name / "py.typed").is_file() for name in folders)
