"""Options that more than one command takes."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The configuration. Default: $NANOBEE_CONFIG, else ~/.nanobee/config.yaml.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class LogLevel(StrEnum):
    """How much the log tells."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogLevelOption = Annotated[
    LogLevel,
    typer.Option(
        "--log-level",
        metavar="LEVEL",
        envvar="NANOBEE_LOG",
        case_sensitive=False,
        help="The log: debug, info, warning or error.",
    ),
]
