"""The typer app: the root command and its subcommands."""

from typing import Annotated

import typer

import nanobee
from nanobee.cli.bus import bus
from nanobee.cli.channels import channels
from nanobee.cli.chaos import chaos
from nanobee.cli.faults import CommandGroup
from nanobee.cli.gateway import gateway
from nanobee.cli.init import init
from nanobee.cli.memory import memory
from nanobee.cli.models import models
from nanobee.cli.sessions import sessions
from nanobee.cli.sessions_files import export, prune, redact, remove
from nanobee.cli.status import status
from nanobee.cli.terminal import cli

app = typer.Typer(
    name="nanobee",
    cls=CommandGroup,
    help="A gateway between people's chats and a language model.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(cli)
app.command()(gateway)
app.command()(init)
app.command()(status)
app.command()(channels)
app.add_typer(models, name="models")
app.add_typer(bus, name="bus")
sessions.command("export")(export)
sessions.command("rm")(remove)
sessions.command("prune")(prune)
sessions.command("redact")(redact)
app.add_typer(sessions, name="sessions")
app.add_typer(memory, name="memory")
app.command()(chaos)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"nanobee {nanobee.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A gateway between people's chats and a language model."""
