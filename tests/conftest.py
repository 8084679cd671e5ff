"""What every test has: asyncio only, an environment without keys, loopback only, and no silent skips."""

import ipaddress
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from nanobee.providers.model_file import cache_folder

_ROOT = Path(__file__).resolve().parent.parent
_IS_SOURCE_TREE = (_ROOT / "nanobee" / "__init__.py").is_file()
"""False where the tests run against an installed wheel, with the source gone."""
_NO_SKIP = os.environ.get("NANOBEE_NO_SKIP") == "1"
_PACKAGES = {"strace": "strace", "tmux": "tmux"}
"""System programs that tests use, and the Debian package that brings each; `.ci/run` installs them all."""
_missing: set[str] = set()

# A busy machine is no bug, and a run that is to be judged draws the same examples each time.
settings.register_profile(
    "nanobee", deadline=None, derandomize=_NO_SKIP, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("nanobee")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def source_root() -> Path:
    """The source tree. A test that asks for it is left out when the installed wheel is tested alone."""
    return _ROOT


@pytest.fixture
def program() -> Callable[[str], str]:
    """Gives the path of a system program, or skips the test and names the package to install."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            _missing.add(_PACKAGES[name])
            pytest.skip(f"the program {name} is missing: apt-get install {_PACKAGES[name]}")
        return path

    return find


def _is_secret_or_setting(name: str) -> bool:
    upper = name.upper()
    return (
        upper.startswith("XDG_")
        or upper.endswith(("_API_KEY", "_PROXY"))
        or (upper.startswith("NANOBEE_") and upper != "NANOBEE_CACHE")
    )


def _refuse_strangers(event: str, args: tuple[object, ...]) -> None:
    """Audit hook: a test that would leave this machine fails before a byte is sent."""
    if event not in {"socket.connect", "socket.sendto"}:
        return
    address = args[1]
    if not isinstance(address, tuple):  # a Unix socket's path
        return
    host = str(address[0])
    if host != "localhost" and not ipaddress.ip_address(host.partition("%")[0]).is_loopback:
        raise RuntimeError(f"a test tried to reach {host}; tests use loopback only")


def pytest_configure(config: pytest.Config) -> None:
    """Forget the developer's own keys, proxies and settings: no test may depend on them or spend with them.

    What a test may use of theirs is the cache with the embedded model's file.
    """
    os.environ["NANOBEE_CACHE"] = str(cache_folder().parent)  # before HOME changes
    for name in filter(_is_secret_or_setting, list(os.environ)):
        del os.environ[name]
    home = tempfile.TemporaryDirectory(prefix="nanobee-home-")
    config.add_cleanup(home.cleanup)
    os.environ["HOME"] = home.name
    sys.addaudithook(_refuse_strangers)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _IS_SOURCE_TREE:
        return
    left_out = [item for item in items if "source_root" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not (_NO_SKIP and report.skipped) or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"NANOBEE_NO_SKIP=1 allows no skipped test. {reason}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_skipped(report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _missing:
        terminalreporter.section("SYSTEM PACKAGES ARE MISSING", sep="!", red=True, bold=True)
        terminalreporter.line(
            f"Tests were skipped. To run them: apt-get install {' '.join(sorted(_missing))}", red=True
        )
