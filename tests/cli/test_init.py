"""`nanobee init`, and the configurations that come with nanobee."""

import re
import stat
from pathlib import Path

import pytest

from nanobee.cli.init import STARTER
from nanobee.config import OpenAISettings, Settings
from nanobee.config_source import load_settings, validate_section
from nanobee.plugins import load_channel
from tests.cli.conftest import Nanobee

REFERENCES = {"OPENAI_API_KEY": "sk-example-0000000000", "TELEGRAM_TOKEN": "123456:example"}


async def test_init_writes_a_configuration_and_a_workspace(nanobee: Nanobee) -> None:
    ended = await nanobee.run("init")
    assert ended.code == 0, ended.err
    assert f"configuration: {nanobee.file} (written)" in ended.out
    assert "nanobee cli" in ended.out
    assert ended.err == ""
    assert stat.S_IMODE(nanobee.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(nanobee.state.stat().st_mode) == 0o700
    assert (nanobee.home / ".nanobee" / "workspace" / "AGENTS.md").is_file()


async def test_init_overwrites_nothing(nanobee: Nanobee) -> None:
    nanobee.configure("language: zh\nworkspace: mine\n")
    (nanobee.file.parent / "mine").mkdir()
    (nanobee.file.parent / "mine" / "SOUL.md").write_text("me", encoding="utf-8")
    first, second = await nanobee.run("init"), await nanobee.run("init")
    assert (first.code, second.code) == (0, 0)
    assert f"配置：{nanobee.file}（保持不变）" in first.out
    assert "SOUL.md" not in first.out
    assert "AGENTS.md" in first.out
    assert "AGENTS.md" not in second.out
    assert nanobee.file.read_text(encoding="utf-8") == "language: zh\nworkspace: mine\n"
    assert (nanobee.file.parent / "mine" / "SOUL.md").read_text(encoding="utf-8") == "me"


async def test_init_on_a_wrong_configuration_makes_nothing(nanobee: Nanobee) -> None:
    nanobee.configure("workspce: mine\n")
    ended = await nanobee.run("init")
    assert (ended.code, ended.out) == (2, "")
    assert "did you mean workspace?" in ended.err
    assert list(nanobee.file.parent.iterdir()) == [nanobee.file]


async def test_init_where_nothing_can_be_written_is_one_line(nanobee: Nanobee) -> None:
    (nanobee.home / ".nanobee").write_text("in the way", encoding="utf-8")
    ended = await nanobee.run("init")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == f"{nanobee.file} cannot be written: Not a directory\n"


async def test_init_takes_another_file(nanobee: Nanobee, tmp_path: Path) -> None:
    ended = await nanobee.run("init", "--config", str(tmp_path / "b" / "my.yaml"))
    assert ended.code == 0, ended.err
    assert (tmp_path / "b" / "my.yaml").is_file()
    assert not nanobee.file.exists()


def test_the_first_configuration_means_the_defaults(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert load_settings(STARTER, environ) == load_settings(None, environ)


def test_the_first_configuration_is_right_with_its_comments_taken_in(tmp_path: Path) -> None:
    text = re.sub(r"(?m)^# ?(?=owner:|providers:|agent:|channels:|  +\w+:)", "", STARTER.read_text(encoding="utf-8"))
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    settings = load_settings(tmp_path / "config.yaml", {"HOME": str(tmp_path), **REFERENCES})
    check_sections(settings)
    assert settings.owner == ("telegram:12345",)
    assert settings.agent.model == "main/gpt-4o-mini"


@pytest.mark.parametrize("name", ["owner", "providers", "agent", "channels"])
def test_the_example_has_every_section(source_root: Path, name: str) -> None:
    settings = load_settings(source_root / "config.example.yaml", {"HOME": "/home/me", **REFERENCES})
    check_sections(settings)
    assert name in settings.model_fields_set
    assert settings.origin.warnings == ()


def check_sections(settings: Settings) -> None:
    """Each section is right by its own plugin's model."""
    assert settings.providers
    assert settings.channels
    for name, section in settings.channels.items():
        model_type = load_channel(section.kind).settings_type
        assert validate_section(model_type, section, f"channels.{name}").allow_from == ("12345",)
    validate_section(OpenAISettings, settings.providers["main"], "providers.main")


def test_the_example_needs_its_references(source_root: Path) -> None:
    text = (source_root / "config.example.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"(?m)^[^#\n]*\$\{(\w+)\}", text)) == set(REFERENCES)
