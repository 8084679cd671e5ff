"""Rules for the source that no linter knows."""

import re
import tomllib
from pathlib import Path

import pytest

MAX_LINES = {"nanobee": 400, "channels": 400, "benchmarks": 400, "tests": 800}
GRAB_BAGS = {"utils", "helpers", "common", "base"}


def list_modules(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*.py"))
    assert found, f"{folder} holds no module"
    return found


@pytest.mark.parametrize("folder", MAX_LINES)
def test_no_module_is_longer_than_the_limit(source_root: Path, folder: str) -> None:
    lengths = {
        path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in list_modules(source_root / folder)
    }
    assert {name: length for name, length in lengths.items() if length > MAX_LINES[folder]} == {}


@pytest.mark.parametrize("folder", MAX_LINES)
def test_no_module_is_a_grab_bag(source_root: Path, folder: str) -> None:
    modules = list_modules(source_root / folder)
    assert [path for path in modules if path.stem in GRAB_BAGS or path.parent.name in GRAB_BAGS] == []


def test_no_text_tells_anybody_to_install_a_stranger(source_root: Path) -> None:
    """The distribution is nanobee-gateway; the name without the suffix is somebody else's package."""
    texts = [path for pattern in ("*.md", "*.py", "*.yaml") for path in source_root.rglob(pattern)]
    ours = [
        path
        for path in texts
        if not any(part.startswith((".", "node_modules")) for part in path.relative_to(source_root).parts)
    ]
    assert len(ours) > 100
    commands = r"pip3? install|pipx install|uv add|uv tool install|uvx"
    stranger = re.compile(rf"""({commands})(\s+-\S+)*\s+["']?nanobee(?![\w-])""")
    assert [path for path in ours if stranger.search(path.read_text(encoding="utf-8"))] == []


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
