"""What the READMEs say is so, in both languages."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

from nanobee.cli.app import app
from nanobee.config import OpenAISettings, Settings
from nanobee.config_source import load_settings, validate_section
from nanobee.gateway import create_channels
from nanobee.messages import PartKind
from nanobee.providers.catalog import HOSTED_SERVICES, LOCAL_SERVERS
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.model_server import ModelServer
from tests.docs.pages import README_NAMES, read_blocks, read_commands, read_tree

VARIABLES = {
    "TELEGRAM_TOKEN": "123456789:AAE-token-of-nobody",
    "OPENAI_API_KEY": "sk-key-of-nobody",
}
"""What the READMEs tell people to set."""


@pytest.fixture(params=README_NAMES)
def readme(source_root: Path, request: pytest.FixtureRequest) -> Path:
    return source_root / str(request.param)


def load(text: str, folder: Path, **variables: str) -> Settings:
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file, {"HOME": str(folder), **variables})


def test_each_configuration_is_accepted_as_it_stands(readme: Path, tmp_path: Path) -> None:
    snippets = [block.text for block in read_blocks(readme, "yaml")]
    assert len(snippets) == 2
    for snippet in snippets:
        settings = load(snippet, tmp_path, **VARIABLES)
        create_channels(settings)
        for name, section in settings.providers.items():
            validate_section(OpenAISettings, section, f"providers.{name}")


def test_the_telegram_configuration_admits_its_owner_and_nobody_else(readme: Path, tmp_path: Path) -> None:
    (snippet,) = [block.text for block in read_blocks(readme, "yaml") if "telegram" in block.text]
    settings = load(snippet, tmp_path, **VARIABLES)
    channel = create_channels(settings)["telegram"]
    assert [f"telegram:{sender}" for sender in channel.settings.allow_from] == list(settings.owner)
    assert channel.settings.token.get_secret_value() == VARIABLES["TELEGRAM_TOKEN"]


def test_the_tree_lists_what_is_there_and_every_module(readme: Path, source_root: Path) -> None:
    listed = [path for path, _ in read_tree(readme)]
    assert [path for path in listed if not (source_root / path).exists()] == [], "listed, but not there"
    found = {
        path.relative_to(source_root)
        for folder in ("nanobee", "channels")
        for path in (source_root / folder).rglob("*.py")
        if path.name != "__init__.py"
    }
    assert sorted(map(str, found - {Path(path) for path in listed})) == [], f"there, but not in the tree of {readme}"
    assert len(listed) == len(set(listed))


def test_both_trees_list_the_same_in_the_same_order(source_root: Path) -> None:
    english, chinese = ([path for path, _ in read_tree(source_root / name)] for name in README_NAMES)
    assert english == chinese


def test_both_languages_have_the_same_sections_blocks_and_commands(source_root: Path) -> None:
    english, chinese = (source_root / name for name in README_NAMES)
    assert read_commands(english) == read_commands(chinese)
    assert [block.language for block in read_blocks(english)] == [block.language for block in read_blocks(chinese)]
    assert count_headings(english) == count_headings(chinese)


def count_headings(page: Path) -> Mapping[int, int]:
    lines = page.read_text(encoding="utf-8").splitlines()
    return {level: sum(line.startswith("#" * level + " ") for line in lines) for level in (1, 2, 3)}


def nanobee_calls(page: Path) -> list[list[str]]:
    """The arguments of each call of nanobee in the page's shell lines."""
    words = [command.split() for command in read_commands(page)]
    return [call[1:] for call in words if call[0].rpartition("/")[2] == "nanobee"]


@pytest.mark.parametrize("name", [*README_NAMES, "CONTRIBUTING.md"])
def test_each_nanobee_command_exists(source_root: Path, name: str) -> None:
    calls = nanobee_calls(source_root / name)
    assert calls
    root = typer.main.get_command(app)
    for call in calls:
        command = root
        for word in call:
            command = getattr(command, "commands", {})[word]
        assert not getattr(command, "commands", None), f"nanobee {' '.join(call)} is a group"


def test_the_plain_lines_are_what_the_scripts_do(readme: Path, source_root: Path) -> None:
    """Whoever changes the scripts is led to the README."""
    commands = read_commands(readme)
    environment, run, test = (
        (source_root / "scripts" / name).read_text(encoding="utf-8") for name in ("environment", "run", "test")
    )
    for options in ("--require-hashes --only-binary :all: -r", "--no-deps --no-build-isolation --editable ."):
        assert options in environment
        assert sum(options in command for command in commands) == 2
    for line, script in ((".venv/bin/nanobee models get", run), (".venv/bin/nanobee cli", run)):
        assert line in script
        assert line in commands
    checks = next(command for command in commands if command.startswith("ruff check")).split(" && ")
    assert [
        check for check in checks if f'"$bin/{check.split()[0]}" {check.partition(" ")[2]}'.strip() not in test
    ] == []
    assert test.count('step "$bin/') - len(checks) == 3, "models get, pytest and build"


@dataclass(frozen=True, slots=True)
class Offers:
    """What a running gateway offers."""

    commands: frozenset[str]
    tools: frozenset[str]


@pytest.fixture
async def offers(tmp_path: Path) -> Offers:
    async with ModelServer() as server, GatewayRig(tmp_path, server.base_url).open() as (_, channel):
        await channel.say("/help")
        await channel.say("hello")
        await channel.wait_sent(1, kind=PartKind.ANSWER)
        (shown,) = channel.sent_to(kind=PartKind.NOTICE)
        (request,) = server.requests
    return Offers(
        commands=frozenset(line.partition(":")[0] for line in shown.text.splitlines()),
        tools=frozenset(tool["function"]["name"] for tool in request.json["tools"]),
    )


@pytest.fixture
def text(readme: Path) -> str:
    return readme.read_text(encoding="utf-8")


def test_the_table_of_shell_commands_is_that_of_the_program(text: str) -> None:
    rows = {line.split("`")[1].split()[1]: line for line in text.splitlines() if line.startswith("| `nanobee ")}
    root = typer.main.get_command(app)
    commands = getattr(root, "commands", {})
    assert rows.keys() == commands.keys()
    for name, command in commands.items():
        below = getattr(command, "commands", {})
        missing = [each for each in below if not re.search(rf"`{each}\b", rows[name])]
        assert missing == [], f"nanobee {name}"


async def test_the_table_of_commands_is_that_of_a_running_gateway(text: str, offers: Offers) -> None:
    rows = [line for line in text.splitlines() if line.startswith("| `/")]
    assert {row.split("`")[1].split()[0] for row in rows} == offers.commands


async def test_every_tool_of_a_running_gateway_is_named(text: str, offers: Offers) -> None:
    assert {name for name in offers.tools if f"`{name}`" not in text} == set()


def test_every_service_and_server_that_is_looked_for_is_named(text: str) -> None:
    names = [f"`{service.key_variables[0]}`" for service in HOSTED_SERVICES]
    names += [server.title for server in LOCAL_SERVERS]
    assert [name for name in names if name not in text] == []
