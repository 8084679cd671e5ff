"""Kinds of provider found by entry point: ours like a stranger's, and a broken one breaks itself only."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nanobee.chat import ChatMessage, CompletionRequest
from nanobee.config import AgentSettings, PluginSettings, Settings
from nanobee.config_source import load_settings
from nanobee.errors import ConfigError
from nanobee.providers.discover import choose_model
from nanobee.providers.kinds import PROVIDERS
from nanobee.providers.model import Model

ACME = """
from nanobee.chat import Completion
from nanobee.config import ProviderSettings
from nanobee.phrases import Phrase
from nanobee.providers.kind import ProviderKind
from nanobee.providers.model import Model
from nanobee.providers.provider import ignore_delta

NO_MOOD = Phrase("has no mood {mood}", "没有 {mood} 这种心情")


class AcmeSettings(ProviderSettings):
    mood: str = "calm"


class AcmeProvider:
    def __init__(self, mood):
        self.mood = mood

    async def complete(self, request, on_delta=ignore_delta):
        return Completion(f"{self.mood}: {request.messages[-1].content}", model=request.model)

    async def aclose(self):
        pass


class AcmeKind(ProviderKind[AcmeSettings]):
    settings_type = AcmeSettings

    def create_model(self, entry, model_name):
        if entry.settings.mood == "none":
            raise entry.refuse(NO_MOOD, "mood", mood="none")
        provider = AcmeProvider(entry.settings.mood)
        return Model(provider, entry.label(model_name), model_name, note=entry.note(model_name))

    async def list_usual_models(self, entry):
        return ("acme-1",)
"""

Install = Callable[[str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a package with one kind, `acme`, on the path, as pip would."""
    monkeypatch.syspath_prepend(tmp_path)

    def install_one(source: str) -> None:
        info = tmp_path / "nanobee_acme-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nanobee-acme\nVersion: 1\n", encoding="utf-8")
        entry = "[nanobee.providers]\nacme = nanobee_acme:AcmeKind\n"
        (info / "entry_points.txt").write_text(entry, encoding="utf-8")
        (tmp_path / "nanobee_acme.py").write_text(source, encoding="utf-8")
        importlib.invalidate_caches()

    yield install_one
    sys.modules.pop("nanobee_acme", None)


def settings_of(model: str | None = "corp/acme-2", **section: object) -> Settings:
    entry = PluginSettings.model_validate({"kind": "acme", **section})
    return Settings(providers={"corp": entry}, agent=AgentSettings(model=model))


async def choose(settings: Settings) -> Model:
    return await choose_model(settings, {}, servers=())


def test_the_built_in_kinds_are_found_by_entry_point() -> None:
    assert {"anthropic", "local", "openai"} <= set(PROVIDERS.kinds())
    for kind in ("anthropic", "local", "openai"):
        assert PROVIDERS.load(kind).settings_type.model_fields.keys() >= {"kind", "max_calls"}


async def test_a_strangers_kind_answers_like_our_own(install: Install) -> None:
    install(ACME)
    model = await choose(settings_of(mood="merry"))
    assert (model.label, model.note) == ("corp/acme-2", "corp/acme-2 answers.")
    completion = await model.provider.complete(CompletionRequest(model.name, (ChatMessage("user", "hi"),)))
    assert completion.content == "merry: hi"


async def test_a_kind_may_know_its_usual_model(install: Install) -> None:
    install(ACME)
    assert (await choose(settings_of(model=None))).label == "corp/acme-1"


async def test_finding_kinds_imports_none_of_them(install: Install) -> None:
    install("raise SystemExit('imported')")
    assert "acme" in PROVIDERS.kinds()
    assert "nanobee_acme" not in sys.modules


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("1 / 0", "the model provider acme (nanobee_acme:AcmeKind) is broken: ZeroDivisionError"),
        ("import no_such_sdk", "the model provider acme needs the package no_such_sdk"),
        ("class AcmeKind: ...", "is no subclass of nanobee.providers.kind.ProviderKind"),
    ],
)
async def test_a_broken_kind_is_refused_at_its_place(install: Install, source: str, reason: str) -> None:
    install(source)
    with pytest.raises(ConfigError) as caught:
        await choose(settings_of())
    (problem,) = caught.value.problems
    assert problem.path == "providers.corp.kind"
    assert reason in problem.reason


async def test_a_kinds_own_refusal_names_the_file_and_the_line(install: Install, tmp_path: Path) -> None:
    install(ACME)
    file = tmp_path / "config.yaml"
    text = "language: zh\nproviders:\n  corp:\n    kind: acme\n    mood: {mood}\nagent: {{model: corp/acme-2}}\n"
    for mood, reason in (("none", "没有 none 这种心情"), ("7", "此处需要文本，但写的是数字；请加引号")):
        file.write_text(text.format(mood=mood), encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            await choose(load_settings(file, {}))
        (problem,) = caught.value.problems
        assert (problem.source, problem.line, problem.path) == (str(file), 5, "providers.corp.mood")
        assert problem.reason == reason
