"""`nanobee models`: which model answers, and the file of the embedded one."""

import os
from typing import TYPE_CHECKING

import typer

from nanobee.cli.options import ConfigOption
from nanobee.cli.running import load

if TYPE_CHECKING:
    from nanobee.config import Settings

models = typer.Typer(help="Show or fetch models.", no_args_is_help=True)


@models.command("ls")
def list_models(config: ConfigOption = None) -> None:
    """Show which model answers.

    With the configured providers and the embedded model's file.
    """
    import anyio

    from nanobee.errors import ConfigError
    from nanobee.phrases import Phrase
    from nanobee.providers.model_file import find_model

    settings = load(config)
    language = settings.language
    try:
        answering = anyio.run(_answering, settings)
    except ConfigError as error:
        answering = str(error)
    typer.echo(Phrase("answers: {label}", "回答者：{label}").say(language, label=answering))
    for name, section in settings.providers.items():
        typer.echo(
            Phrase("provider: {name} ({kind})", "提供方：{name}（{kind}）").say(language, name=name, kind=section.kind)
        )
    file = find_model(os.environ)
    if file is None:
        typer.echo(
            Phrase("embedded: not here; nanobee models get", "内置模型：尚未下载；nanobee models get").say(language)
        )
    else:
        typer.echo(Phrase("embedded: {file}", "内置模型：{file}").say(language, file=file))


async def _answering(settings: "Settings") -> str:
    from nanobee.providers.discover import choose_model

    model = await choose_model(settings, os.environ, start=False)
    await model.provider.aclose()
    return model.note or model.label


@models.command("get")
def get() -> None:
    """Fetch the embedded model."""
    from functools import partial

    from nanobee.providers.model_file import fetch_model

    fetch_model(partial(typer.echo, err=True), os.environ)
