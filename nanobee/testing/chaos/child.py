"""Child: the real gateway as a process of its own, and its deaths."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
from anyio.abc import Process

from nanobee.bus.checkpoints import VARIABLE
from nanobee.testing.chaos.errors import ChaosError

STOP_SECONDS = 25.0
"""How long a SIGTERM may take; more than the gateway's own limits together."""
DEATH_SECONDS = 5.0
LOG_TAIL_BYTES = 2_000
_COMMAND = (sys.executable, "-c", "from nanobee.cli import main; main()", "gateway", "--config")


class Child:
    """One gateway at a time, on one folder."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "gateway.log"
        self._environment = _environment(folder)
        self._process: Process | None = None

    async def start(self, config: Path, checkpoint: str | None) -> None:
        """Start a life; with `checkpoint` (`name:times`) it ends itself there."""
        armed = {} if checkpoint is None else {VARIABLE: checkpoint}
        with self._log.open("ab") as log:
            self._process = await anyio.open_process(
                [*_COMMAND, str(config)],
                env={**self._environment, **armed},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is ours: it must not end a life that is being accounted for
            )

    @property
    def has_ended(self) -> bool:
        """Whether it has died, by itself or not."""
        return self._process is None or self._process.returncode is not None

    @property
    def was_killed(self) -> bool:
        """Whether a SIGKILL ended it."""
        return self._process is not None and self._process.returncode == -9

    async def kill(self) -> None:
        """SIGKILL, and wait for the death."""
        if self._process is None:
            return
        if not self.has_ended:
            self._process.kill()
        with anyio.fail_after(DEATH_SECONDS, shield=True):
            await self._process.wait()

    def ask_to_stop(self) -> None:
        """SIGTERM."""
        if self._process is not None and not self.has_ended:
            self._process.terminate()

    async def stop(self) -> None:
        """SIGTERM, and wait for the end.

        Raises:
            ChaosError: it does not end.
        """
        self.ask_to_stop()
        if self._process is not None:
            with anyio.move_on_after(STOP_SECONDS):
                await self._process.wait()
            if not self.has_ended:
                await self.kill()
                raise ChaosError(f"the gateway did not obey SIGTERM within {STOP_SECONDS:.0f} s\n{self.log_tail()}")

    def fail(self) -> ChaosError:
        """The error for an end that nobody asked for."""
        code = None if self._process is None else self._process.returncode
        return ChaosError(f"the gateway ended by itself with code {code}; the end of its log:\n{self.log_tail()}")

    def log_tail(self) -> str:
        """The end of the log of all lives."""
        raw = self._log.read_bytes() if self._log.exists() else b""
        return raw[-LOG_TAIL_BYTES:].decode("utf-8", "replace")


def _environment(folder: Path) -> dict[str, str]:
    """The user's environment without their settings, keys and proxies."""
    kept = {name: value for name, value in os.environ.items() if not _is_left_out(name.upper())}
    return {**kept, "HOME": str(folder)}


def _is_left_out(name: str) -> bool:
    return name.startswith(("NANOBEE_", "XDG_")) or name.endswith(("_API_KEY", "_PROXY"))
