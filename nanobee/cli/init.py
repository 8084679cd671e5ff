"""`nanobee init`: a first configuration and a workspace, over nothing that is there."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nanobee.cli.options import ConfigOption

if TYPE_CHECKING:
    from nanobee.config import Settings

STARTER = Path(__file__).with_name("starter.yaml")


def init(config: ConfigOption = None) -> None:
    """Write a first configuration and the workspace.

    What is there stays as it is.
    """
    from nanobee.config_source import config_path, load_settings
    from nanobee.workspace import create_file, init_workspace, make_private_folder

    file = config_path(config, os.environ)
    is_new = create_file(file, STARTER.read_bytes())
    settings = load_settings(file, os.environ)
    created = init_workspace(settings.workspace)
    make_private_folder(settings.state)
    _tell(settings, file, is_new, created)


def _tell(settings: "Settings", file: Path, is_new: bool, created: list[Path]) -> None:
    from nanobee.phrases import Phrase

    def say(en: str, zh: str, **fields: object) -> None:
        typer.echo(Phrase(en, zh).say(settings.language, **fields))

    if is_new:
        say("configuration: {file} (written)", "配置：{file}（已写入）", file=file)
    else:
        say("configuration: {file} (kept as it is)", "配置：{file}（保持不变）", file=file)
    if created:
        names = ", ".join(str(path.relative_to(settings.workspace)) for path in created)
        say(
            "workspace: {folder} (written: {names})",
            "工作区：{folder}（已写入：{names}）",
            folder=settings.workspace,
            names=names,
        )
    else:
        say("workspace: {folder} (kept as it is)", "工作区：{folder}（保持不变）", folder=settings.workspace)
    say("state: {folder}", "状态：{folder}", folder=settings.state)
    say("Next: `nanobee cli` chats here.", "接下来：`nanobee cli` 在此聊天。")
    if not settings.channels:
        say(
            "For Telegram, write a channel into the configuration, then run `nanobee gateway`.",
            "要使用 Telegram，请在配置中写入渠道，然后运行 `nanobee gateway`。",
        )
