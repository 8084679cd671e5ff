"""Faults: how an error ends a command. A line for people on standard error and an exit code, no traceback."""

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import typer
from typer.core import TyperGroup

from nanobee.errors import ConfigError, NanobeeError

FAILED = 1
REFUSED = 2
"""A wrong configuration, as a wrong command line."""
INTERRUPTED = 130


class CommandGroup(TyperGroup):
    """The root of the commands."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for, and translate its error."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except NanobeeError as error:
            raise typer.Exit(_tell([error])) from None
        except BaseExceptionGroup as group:
            if any(isinstance(error, KeyboardInterrupt) for error in _leaves(group)):
                raise typer.Exit(INTERRUPTED) from None
            ours = [error for error in _leaves(group) if isinstance(error, NanobeeError)]
            if len(ours) < len(list(_leaves(group))):
                raise
            raise typer.Exit(_tell(ours)) from None


def show_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Python's own report of a fault of ours, without secrets: `sys.excepthook`."""
    import traceback

    from nanobee.secrets import redact

    typer.echo(redact("".join(traceback.format_exception(kind, error, trace))), err=True, nl=False)


def _tell(errors: list[NanobeeError]) -> int:
    from nanobee.secrets import redact

    for error in errors:
        typer.echo(redact(str(error)), err=True)
    return REFUSED if any(isinstance(error, ConfigError) for error in errors) else FAILED


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
