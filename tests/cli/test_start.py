"""What starting the command costs: it imports what it needs, and tries no connection."""

import subprocess
import sys

import pytest

HEAVY = {
    *("httpx", "aiohttp", "httpcore", "ssl", "asyncio", "anyio", "sqlite3", "ruamel", "filelock"),
    *("rich", "telegram", "prompt_toolkit", "xllamacpp", "nanobee_telegram", "nanobee_terminal"),
    *("nanobee.config", "nanobee.gateway"),
}
VALIDATION = {"pydantic", "pydantic_core", "importlib.metadata"}
"""Typer brings it in for the options of a command."""
RUN = """
import sys
sys.addaudithook(lambda event, args: event.startswith("socket.") and sys.exit("a socket was used"))
from nanobee.cli import main
sys.argv = ["nanobee", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sorted(sys.modules), file=sys.stderr)
"""
COMMANDS = [
    "cli",
    "gateway",
    "init",
    "status",
    "channels",
    "models",
    "models ls",
    "models get",
    "bus ls",
    "bus retry",
    "sessions ls",
]


def run_help(*arguments: str) -> set[str]:
    """The modules that were imported when the text stood there."""
    command = [sys.executable, "-c", RUN, *arguments]
    result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert "nanobee" in result.stdout
    modules = set(result.stderr.split())
    assert "nanobee.cli.app" in modules
    return modules


@pytest.mark.parametrize("option", ["--help", "-h", "--version"])
def test_o50_d_help_imports_no_sdk_no_http_no_rich_and_no_pydantic(option: str) -> None:
    assert not run_help(option) & (HEAVY | VALIDATION)


@pytest.mark.parametrize("command", COMMANDS)
def test_o50_d_help_of_a_command_imports_nothing_that_only_running_it_needs(command: str) -> None:
    assert not run_help(*command.split(), "--help") & HEAVY


def test_o50_d_the_package_imports_nothing_of_its_own() -> None:
    code = "import sys; before = set(sys.modules); import nanobee; print(*(set(sys.modules) - before))"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert result.stdout.split() == ["nanobee"]


def test_o50_d_help_works_without_the_packages_of_unused_channels() -> None:
    code = f"import sys; sys.modules.update(dict.fromkeys({sorted(HEAVY)}))\n{RUN}"
    command = [sys.executable, "-c", code, "--help"]
    result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert "gateway" in result.stdout
