"""The channel that CONTRIBUTING shows is the one in examples/, and works as a package of somebody else."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nanobee.config_source import load_settings
from tests.docs.pages import read_blocks

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "drop-channel"
MIN_TESTS = 15
"""The contract's, and the example's own."""


def read_block(language: str, first: str) -> str:
    (text,) = [block.text for block in read_blocks(ROOT / "CONTRIBUTING.md", language) if block.text.startswith(first)]
    return text


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example outside of this repository, as its author has it."""
    folder = tmp_path_factory.mktemp("example") / "drop-channel"
    return Path(shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", ".*")))


@pytest.fixture(scope="module")
def site(copy: Path) -> Path:
    """A folder with the example's built package in it, as an installation leaves it."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check", str(copy)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (wheel,) = (copy / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(copy.parent / "site")
    return copy.parent / "site"


def test_the_page_shows_the_example_as_it_is(source_root: Path) -> None:
    assert read_block("python", '"""A channel of files') == (EXAMPLE / "drop_channel.py").read_text(encoding="utf-8")
    assert read_block("toml", "[build-system]") == (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")
    assert read_block("python", "class TestDrop") in (EXAMPLE / "test_drop_channel.py").read_text(encoding="utf-8")


def test_the_example_passes_the_contract_and_answers_through_a_gateway(source_root: Path, copy: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "test_drop_channel.py"]
    result = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout
    passed = re.search(r"^(\d+) passed in", result.stdout, re.MULTILINE)
    assert passed is not None, result.stdout
    assert int(passed[1]) >= MIN_TESTS


def test_nanobee_finds_the_installed_example_and_takes_its_configuration(
    source_root: Path, site: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(read_block("yaml", "channels:"), encoding="utf-8")
    script = f"""
import json, sys
from pathlib import Path
from nanobee.config_source import load_settings
from nanobee.gateway import create_channels
channel = create_channels(load_settings(Path({str(config)!r}), {{"HOME": {str(tmp_path)!r}}}))["drop"]
print(json.dumps([type(channel).__name__, channel.settings.allow_from]))
"""
    env = {**os.environ, "PYTHONPATH": str(site), "HOME": str(tmp_path)}
    made = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(made.stdout) == ["DropChannel", ["ann"]]


def test_a_mistake_in_the_examples_section_names_file_line_and_key(
    source_root: Path, site: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(read_block("yaml", "channels:").replace("folder: ~/drop", "poll_seconds: often"), "utf-8")
    assert load_settings(config, {"HOME": str(tmp_path)}).channels["drop"].kind == "drop"
    env = {**os.environ, "PYTHONPATH": str(site), "HOME": str(tmp_path), "NANOBEE_CONFIG": str(config)}
    command = [sys.executable, "-c", "from nanobee.cli import main; main()", "gateway"]
    result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert f"{config}:2: channels.drop.folder: is missing" in result.stderr
    assert f"{config}:4: channels.drop.poll_seconds: a number is needed here" in result.stderr
