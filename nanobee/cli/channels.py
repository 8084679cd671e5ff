"""`nanobee channels`: which kinds are installed, and which instances are configured."""

import json

import typer

from nanobee.cli.options import ConfigOption, JsonOption
from nanobee.cli.running import load


def channels(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show the installed and configured channels."""
    from nanobee.phrases import Phrase
    from nanobee.plugins import find_channels

    settings = load(config)
    kinds = {kind: _fault(kind) for kind in find_channels()}
    if as_json:
        configured = {name: section.kind for name, section in settings.channels.items()}
        typer.echo(json.dumps({"kinds": kinds, "configured": configured}, ensure_ascii=False, indent=2))
        return
    typer.echo(Phrase("Installed kinds:", "已安装的类型：").say(settings.language))
    for kind, fault in kinds.items():
        typer.echo(f"  {kind}" if fault is None else f"  {kind}: {fault}")
    typer.echo(Phrase("Configured channels:", "已配置的渠道：").say(settings.language))
    for name, section in settings.channels.items():
        typer.echo(f"  {name} ({section.kind})")
    if not settings.channels:
        typer.echo("  " + Phrase("none", "无").say(settings.language))


def _fault(kind: str) -> str | None:
    """Why the kind cannot be used, None where it can."""
    from nanobee.errors import PluginError
    from nanobee.plugins import load_channel

    try:
        load_channel(kind)
    except PluginError as error:
        return str(error)
    return None
