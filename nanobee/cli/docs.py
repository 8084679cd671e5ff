"""The command line's documentation, made from the app: `python -m nanobee.cli.docs > docs/cli.md`."""

from collections.abc import Iterator
from typing import Any

import typer

from nanobee.cli.app import app

HEAD = """\
# Command line

Made from the code by `python -m nanobee.cli.docs`; do not edit.
"""


def build_docs() -> str:
    """The whole page in Markdown."""
    return "\n".join([HEAD, *_command(typer.main.get_command(app), "nanobee")])


def _command(command: Any, name: str) -> Iterator[str]:
    yield f"## `{name}`\n"
    yield " ".join((command.help or "").split()) + "\n"
    options = [_option(param) for param in command.params]
    if options:
        yield "\n".join(options) + "\n"
    for inner_name, inner in getattr(command, "commands", {}).items():
        yield from _command(inner, f"{name} {inner_name}")


def _option(param: Any) -> str:
    if param.param_type_name == "argument":
        return f"- `{param.metavar}`: {param.help or ''}"
    names = ", ".join(sorted(param.opts, key=len))
    value = "" if param.is_flag else f" {param.metavar}"
    default = (
        ""
        if param.is_flag or param.default is None
        else f" Default: `{getattr(param.default, 'value', param.default)}`."
    )
    variable = f" Variable: `{param.envvar}`." if param.envvar else ""
    return f"- `{names}{value}`: {param.help or ''}{default}{variable}"


if __name__ == "__main__":
    typer.echo(build_docs(), nl=False)
