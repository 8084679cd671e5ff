"""What the wheel holds: these files, no others, and nothing under a name that is not ours."""

import hashlib
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

LISTED_FILES = Path(__file__).with_name("wheel_files.txt")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).resolve().parents[2]
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture
def metadata(source_root: Path, wheel: Path) -> Message:
    name = f"nanobee_gateway-{wheel.name.split('-')[1]}.dist-info/METADATA"
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(name).decode())


def test_the_wheel_holds_the_listed_files_and_no_others(source_root: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    listed = set(LISTED_FILES.read_text(encoding="utf-8").split())
    assert not names - listed, "in the wheel, but not in tests/packaging/wheel_files.txt"
    assert not listed - names, "in tests/packaging/wheel_files.txt, but not in the wheel"


def test_the_wheel_carries_the_license_and_both_commands(source_root: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        ours = {name.partition("/")[2] for name in archive.namelist() if ".dist-info/" in name}
    assert ours == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}


def test_the_license_is_the_unmodified_apache_text(source_root: Path) -> None:
    digest = hashlib.sha256((source_root / "LICENSE").read_bytes()).hexdigest()
    assert digest == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def test_the_distribution_is_called_nanobee_gateway_and_names_its_parts(metadata: Message) -> None:
    assert metadata["Name"] == "nanobee-gateway"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(metadata.get_all("Provides-Extra", [])) >= {"telegram", "local", "all"}


def test_a_plain_install_brings_no_channel_sdk_and_no_model(metadata: Message) -> None:
    plain = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert plain
    assert not [line for line in plain if line.startswith(("python-telegram-bot", "xllamacpp"))]
