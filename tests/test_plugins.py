"""Channels found by entry point: known without import, and a broken one breaks itself only."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nanobee.errors import PluginError
from nanobee.plugins import find_channels, load_channel

GOOD = """
from nanobee.channel import Channel
from nanobee.config import ChannelSettings

class GoodChannel(Channel[ChannelSettings]):
    settings_type = ChannelSettings

    async def run(self, inbox): ...
    async def send(self, part): return ()
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a distribution with one module and its entry points on the path."""
    monkeypatch.syspath_prepend(tmp_path)
    names: list[str] = []

    def install_one(name: str, source: str, extras: tuple[str, ...] = (), **kinds: str) -> None:
        names.append(name)
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        lines = [
            "Metadata-Version: 2.1",
            f"Name: {name}",
            "Version: 1",
            *(f"Provides-Extra: {each}" for each in extras),
        ]
        (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
        entries = "\n".join(f"{kind} = {value}" for kind, value in kinds.items())
        (info / "entry_points.txt").write_text(f"[nanobee.channels]\n{entries}\n", encoding="utf-8")
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        importlib.invalidate_caches()

    yield install_one
    for name in names:
        sys.modules.pop(name, None)


def fault(kind: str) -> str:
    with pytest.raises(PluginError) as caught:
        load_channel(kind)
    return str(caught.value)


def test_our_own_channels_are_found_like_a_stranger_s(install: Install) -> None:
    install("stranger", GOOD, bee="stranger:GoodChannel")
    assert {"bee", "telegram", "terminal"} <= set(find_channels())
    assert load_channel("bee").__name__ == "GoodChannel"
    assert load_channel("terminal").__name__ == "TerminalChannel"


def test_finding_imports_nothing(install: Install) -> None:
    install("stranger", "raise SystemExit('imported')", bee="stranger:GoodChannel")
    assert "bee" in find_channels()
    assert "stranger" not in sys.modules


def test_an_unknown_kind_names_the_nearest(install: Install) -> None:
    assert "did you mean telegram?" in fault("telegramm")


def test_an_unknown_kind_is_not_quoted() -> None:
    text = fault("canary-7f3a")
    assert "canary" not in text
    assert "there are: telegram, terminal" in text


@pytest.mark.parametrize(
    "source", ["1 / 0", "def (", "import sys; sys.modules[__name__] = None", "raise ImportError('x')"]
)
def test_a_broken_package_breaks_itself_only(install: Install, source: str, caplog: pytest.LogCaptureFixture) -> None:
    install("broken", source, wasp="broken:Wasp")
    install("stranger", GOOD, bee="stranger:GoodChannel")
    assert "the channel wasp (broken:Wasp) is broken" in fault("wasp")
    assert "Traceback" in caplog.text
    assert load_channel("bee").__name__ == "GoodChannel"


def test_a_package_without_its_class_is_broken(install: Install) -> None:
    install("hollow", "", wasp="hollow:Wasp")
    assert "AttributeError" in fault("wasp")


def test_a_missing_module_of_its_own_is_a_fault_of_the_package(install: Install) -> None:
    install("hollow", "import hollow.inside", wasp="hollow:Wasp")
    assert "is broken: ModuleNotFoundError" in fault("wasp")


@pytest.mark.parametrize("source", ["Wasp = 5", "class Wasp: ..."])
def test_what_is_no_channel_is_refused(install: Install, source: str) -> None:
    install("odd", source, wasp="odd:Wasp")
    assert "is no subclass of nanobee.channel.Channel" in fault("wasp")


def test_a_missing_sdk_names_the_extra_that_brings_it(install: Install) -> None:
    install("hive", "import no_such_sdk.client", extras=("wasp", "all"), wasp="hive:Wasp")
    assert fault("wasp") == 'the channel wasp needs the package no_such_sdk: pip install "hive[wasp]"'


def test_a_missing_sdk_without_an_extra_is_named(install: Install) -> None:
    install("hive", "import no_such_sdk", wasp="hive:Wasp")
    assert fault("wasp") == "the channel wasp needs the package no_such_sdk"


def test_two_packages_for_one_kind_are_refused(install: Install) -> None:
    install("first", GOOD, bee="first:GoodChannel")
    install("second", GOOD, bee="second:GoodChannel")
    assert "more than one package offers the channel bee (first:GoodChannel, second:GoodChannel)" in fault("bee")


def test_one_package_found_twice_counts_once(install: Install, tmp_path: Path) -> None:
    install("first", GOOD, bee="first:GoodChannel")
    (tmp_path / "again-1.dist-info").mkdir()
    for name in ("METADATA", "entry_points.txt"):
        text = (tmp_path / "first-1.dist-info" / name).read_text(encoding="utf-8")
        (tmp_path / "again-1.dist-info" / name).write_text(text.replace("Name: first", "Name: again"), encoding="utf-8")
    assert load_channel("bee").__name__ == "GoodChannel"


def test_errors_are_told_in_chinese_too() -> None:
    with pytest.raises(PluginError, match="没有已安装的包"):
        load_channel("nonesuch", "zh")
