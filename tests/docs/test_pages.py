"""Rules for every text that people read."""

from pathlib import Path
from urllib.parse import unquote

import pytest

from nanobee.config import AgentSettings, AnthropicSettings, ModelSettings, OpenAISettings, Settings
from nanobee.config_memory import MemorySettings
from nanobee.config_source import load_settings
from nanobee.providers.local import LocalSettings
from nanobee_telegram import TelegramSettings
from tests.docs.pages import read_anchors, read_blocks, read_links

PAGES = (
    "README.md",
    "README.zh-CN.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/chaos.md",
    "docs/cli.md",
    "docs/configuration.md",
    "docs/memory.md",
)


@pytest.mark.parametrize("name", PAGES)
def test_each_link_leads_somewhere(source_root: Path, name: str) -> None:
    page = source_root / name
    for link in read_links(page):
        if link.startswith("https://"):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name}: {link}"
        if anchor:
            assert anchor in read_anchors(target), f"{name}: {link}"


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/configuration.md"])
def test_each_configuration_is_accepted_as_it_stands(source_root: Path, name: str, tmp_path: Path) -> None:
    snippets = [block.text for block in read_blocks(source_root / name, "yaml")]
    assert snippets
    file = tmp_path / "config.yaml"
    for snippet in snippets:
        file.write_text(snippet, encoding="utf-8")
        settings = load_settings(file, {"HOME": str(tmp_path)})
        assert settings.models or settings.channels


@pytest.mark.parametrize(
    "settings",
    [
        Settings,
        ModelSettings,
        AgentSettings,
        MemorySettings,
        OpenAISettings,
        AnthropicSettings,
        LocalSettings,
        TelegramSettings,
    ],
)
def test_each_key_of_the_configuration_is_explained_with_its_default(
    source_root: Path, settings: type[Settings]
) -> None:
    page = (source_root / "docs" / "configuration.md").read_text(encoding="utf-8")
    for name, field in settings.model_fields.items():
        if name in ("kind", "max_calls", "allow_from"):  # in the text
            assert f"`{name}`" in page
            continue
        rows = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert rows, f"{settings.__name__}.{name} is not in docs/configuration.md"
        shown = {row.split(" | ")[1] for row in rows}
        default = field.get_default(call_default_factory=True)
        if isinstance(default, bool | int | float | str):
            assert f"`{word(default)}`" in shown, f"{settings.__name__}.{name}"


def word(default: bool | float | str) -> str:
    """A default as YAML writes it."""
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)
