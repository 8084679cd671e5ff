"""`nanobee chaos`: the proof that nothing accepted is lost, run by whoever wants to see it."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from nanobee.cli.options import JsonOption

if TYPE_CHECKING:
    from nanobee.phrases import Language

NOT_SOUND = 1
EnumT = TypeVar("EnumT", bound=StrEnum)


def chaos(
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="Rounds; each kills the gateway twice.")] = 20,
    messages: Annotated[int, typer.Option(metavar="N", min=1, max=900, help="Messages a round, in some chats.")] = 40,
    seed: Annotated[int, typer.Option(metavar="S", help="The same seed gives the same messages and kills.")] = 1,
    mode: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODE",
            help="Only rounds of this kind; may be given again: plain, tools, multi-part, streamed, suspended, "
            "steered, stopped.",
            show_default=False,
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep state and log here.", show_default=False)
    ] = None,
    falsify: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Falsify the last round's record, to see the account notice it: loss, disorder, double, effect, tool.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Kill a gateway again and again, and account for every message.

    It runs between a fake Telegram and a fake model on this machine, in a temporary folder, and needs
    no configuration. Exit code 1: a promise was broken.
    """
    from functools import partial

    import anyio

    from nanobee.testing.chaos.falsify import Falsehood
    from nanobee.testing.chaos.falsify import falsify as falsify_log
    from nanobee.testing.chaos.modes import Mode
    from nanobee.testing.chaos.report import begin_line, round_line, to_json, to_lines
    from nanobee.testing.chaos.run import Result, RoundResult, run_chaos

    modes = [_choice(Mode, name, "--mode") for name in mode or Mode]
    doctor = None if falsify is None else partial(falsify_log, falsehood=_choice(Falsehood, falsify, "--falsify"))
    result = Result(rounds, messages, seed)
    language = _language()

    def tell(done: RoundResult) -> None:
        if not as_json:
            typer.echo(round_line(done, language))

    if not as_json:
        typer.echo(begin_line(result, language))
    anyio.run(partial(run_chaos, result, tell, modes=modes, doctor=doctor, folder=folder))
    if as_json:
        typer.echo(json.dumps(to_json(result), ensure_ascii=False, indent=2))
    else:
        for line in to_lines(result, language):
            typer.echo(line)
    if not result.is_sound:
        raise typer.Exit(NOT_SOUND)


def _choice(kinds: type[EnumT], name: str, option: str) -> EnumT:
    try:
        return kinds(name)
    except ValueError:
        raise typer.BadParameter(f"{name}: one of {', '.join(kinds)}", param_hint=option) from None


def _language() -> "Language":
    """The language of the user's configuration, if there is one that can be read."""
    from nanobee.cli.running import load
    from nanobee.errors import ConfigError

    try:
        return load(None).language
    except ConfigError:
        return "en"
