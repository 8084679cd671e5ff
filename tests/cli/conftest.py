"""Runs the real command in a process of its own, with a home folder of its own."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process

from nanobee.testing.model_server import ModelServer

LIMIT_SECONDS = 30.0
COMMAND = (sys.executable, "-c", "from nanobee.cli import main; main()")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Nanobee:
    """The command `nanobee` of one user."""

    home: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """The default configuration."""
        return self.home / ".nanobee" / "config.yaml"

    @property
    def state(self) -> Path:
        """The default state folder."""
        return self.home / ".nanobee" / "state"

    @property
    def environment(self) -> dict[str, str]:
        """What the command sees."""
        inherited = {
            name: os.environ[name] for name in ("PATH", "NANOBEE_CACHE", "COVERAGE_PROCESS_START") if name in os.environ
        }
        return {**inherited, "HOME": str(self.home), "PYTHONWARNINGS": "error::ResourceWarning", **self.variables}

    def configure(self, text: str) -> None:
        """Write the default configuration."""
        self.file.parent.mkdir(mode=0o700, exist_ok=True)
        self.file.write_text(text, encoding="utf-8")
        self.file.chmod(0o600)

    async def run(self, *arguments: str, stdin: bytes = b"", **variables: str) -> Ended:
        """Run to the end."""
        environment = {**self.environment, **variables}
        with anyio.fail_after(LIMIT_SECONDS):
            done = await anyio.run_process([*COMMAND, *arguments], input=stdin, check=False, env=environment)
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    async def start(self, *arguments: str) -> Process:
        """Start, and return at once."""
        command = [*COMMAND, *arguments]
        return await anyio.open_process(command, env=self.environment, stdin=subprocess.DEVNULL)


@pytest.fixture
def nanobee(tmp_path: Path) -> Nanobee:
    home = tmp_path / "home"
    home.mkdir()
    return Nanobee(home)


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as running:
        yield running


def provider(server: ModelServer) -> str:
    """The part of a configuration that names the server's model."""
    return (
        f"providers: {{main: {{kind: openai, base_url: '{server.base_url}', api_key: sk-canary-7f3a9c51d2e8}}}}\n"
        "agent: {model: main/test-model}\n"
    )
