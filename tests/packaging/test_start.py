"""What a start imports: nothing that a switched-off part would need."""

import subprocess
import sys

import pytest

HEAVY = {
    *("httpx", "httpcore", "h11", "httpx_aiohttp", "aiohttp", "requests", "urllib3"),
    *("telegram", "prompt_toolkit", "xllamacpp", "nanobee_telegram", "nanobee_terminal"),
}
IMPORT = "import nanobee"
HELP = """
import sys
from importlib.metadata import entry_points
(command,) = entry_points(group="console_scripts", name="nanobee")
sys.argv = ["nanobee", "--help"]
try:
    command.load()()
except SystemExit as end:
    assert not end.code, end.code
"""
SHOW_MODULES = "import sys; print(*sorted(sys.modules), file=sys.stderr)"


@pytest.mark.parametrize("source", [IMPORT, HELP], ids=["import", "help"])
def test_a_start_imports_no_sdk_no_model_and_no_http_library(source: str) -> None:
    command = [sys.executable, "-c", f"{source}\n{SHOW_MODULES}"]
    result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    modules = {name.partition(".")[0] for name in result.stderr.split()}
    assert "nanobee" in modules
    assert not modules & HEAVY
