"""Skips are loud, and where none is allowed each one fails the run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).resolve().parent.parent / "conftest.py"
SKIPS = {
    "test_call.py": "import pytest\ndef test_that_is_skipped(): pytest.skip('no moon')\n",
    "test_module.py": "import pytest\npytest.importorskip('no_such_module')\n",
    "test_mark.py": "import pytest\n@pytest.mark.skipif(True, reason='no sun')\ndef test_of_the_sun(): pass\n",
    "test_program.py": "def test_in_tmux(program): program('tmux')\n",
}
GOOD = {
    "test_good.py": "def test_that_passes(): assert True\n",
    "test_bug.py": "import pytest\n@pytest.mark.xfail(strict=True)\ndef test_of_a_known_bug(): assert False\n",
    "test_keys.py": "import os\ndef test(): assert not {'MY_API_KEY', 'NANOBEE_X', 'https_proxy'} & {*os.environ}\n",
}
STRANGER = "import socket\ndef test_that_calls_home(): socket.create_connection(('192.0.2.1', 9), timeout=1)\n"


def run_pytest(folder: Path, files: dict[str, str], **environment: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(CONFTEST, folder)
    for name, source in files.items():
        (folder / name).write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    command += ["--import-mode=importlib", "-c", os.devnull, "--rootdir", str(folder), str(folder)]
    env = {**os.environ, "PATH": "", **environment}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_each_skip_fails_the_run_where_none_is_allowed(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, {**SKIPS, **GOOD}, NANOBEE_NO_SKIP="1")
    assert result.returncode == 1
    assert result.stdout.count("NANOBEE_NO_SKIP=1 allows no skipped test") >= len(SKIPS)
    assert "skipped" not in result.stdout.splitlines()[-1]


def test_skips_show_their_reasons_and_the_packages_to_install_where_they_are_allowed(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, {**SKIPS, **GOOD})
    assert result.returncode == 0, result.stdout
    assert all(reason in result.stdout for reason in ("no moon", "no sun", "no_such_module", "tmux is missing"))
    assert "SYSTEM PACKAGES ARE MISSING" in result.stdout
    assert "To run them: apt-get install tmux" in result.stdout
    assert "2 passed, 4 skipped, 1 xfailed" in result.stdout.splitlines()[-1]


def test_no_test_leaves_this_machine_or_sees_the_keys_of_who_runs_it(tmp_path: Path) -> None:
    mine = {"MY_API_KEY": "sk-real", "NANOBEE_X": "1", "https_proxy": "http://proxy:3128"}
    result = run_pytest(tmp_path, {**GOOD, "test_stranger.py": STRANGER}, **mine)
    assert "tests use loopback only" in result.stdout
    assert "1 failed, 2 passed, 1 xfailed" in result.stdout.splitlines()[-1]
