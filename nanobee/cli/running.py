"""Running: what `nanobee cli` and `nanobee gateway` have in common."""

import gc
import logging
import os
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from nanobee.config import Settings

logger = logging.getLogger(__name__)

START_SECONDS = 2.0
"""How long a start may go without the garbage collector."""


def prepare(settings: "Settings", level: str, log_file: Path | None) -> None:
    """Make the state folder and start the log.

    Raises:
        StateError: the folder or the log cannot be written.
    """
    from nanobee.logs import configure_logs
    from nanobee.secrets import redact
    from nanobee.workspace import make_private_folder

    make_private_folder(settings.state)
    configure_logs(level, redact, log_file)
    for warning in settings.origin.warnings:
        logger.warning("%s", warning)


def start_quickly() -> None:
    """Leave the garbage collector out of the start: it would look through all modules again and again, for nothing."""
    gc.disable()
    timer = threading.Timer(START_SECONDS, gc.enable)
    timer.daemon = True
    timer.start()


def run(settings: "Settings") -> None:
    """Run a gateway without a terminal of its own in this process until it ends."""
    import anyio

    from nanobee.gateway import run_gateway
    from nanobee.logs import recent_errors

    announce = partial(typer.echo, err=True)
    anyio.run(partial(run_gateway, settings, announce=announce, recent_errors=recent_errors))


def load(config: Path | None) -> "Settings":
    """The settings that the command line and the environment name.

    Raises:
        ConfigError: they cannot be used.
    """
    from nanobee.config_source import load_settings

    return load_settings(config, os.environ)
