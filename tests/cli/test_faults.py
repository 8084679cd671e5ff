"""How errors end a command: a line and an exit code, no traceback."""

import pytest
import typer
from typer.testing import CliRunner, Result

from nanobee.cli.faults import CommandGroup, show_crash
from nanobee.errors import ConfigError, ConfigProblem, HeldError, NanobeeError, ProviderError
from nanobee.secrets import remember_secrets

PROBLEM = ConfigProblem("f.yaml", "a.b", "is wrong", 3)


def run(error: BaseException) -> Result:
    app = typer.Typer(cls=CommandGroup, rich_markup_mode=None, pretty_exceptions_enable=False)

    @app.command()
    def fail() -> None:
        raise error

    @app.callback()
    def root() -> None: ...

    return CliRunner().invoke(app, ["fail"])


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ConfigError([PROBLEM]), 2, "f.yaml:3: a.b: is wrong\n"),
        (ConfigError([PROBLEM, PROBLEM]), 2, "f.yaml:3: a.b: is wrong\nf.yaml:3: a.b: is wrong\n"),
        (NanobeeError("it broke"), 1, "it broke\n"),
        (HeldError("held by 7", 7), 1, "held by 7\n"),
        (ExceptionGroup("g", [ExceptionGroup("h", [ProviderError("down")])]), 1, "down\n"),
        (ExceptionGroup("g", [ProviderError("down"), ConfigError([PROBLEM])]), 2, "down\nf.yaml:3: a.b: is wrong\n"),
        (KeyboardInterrupt(), 130, ""),
        (BaseExceptionGroup("g", [ProviderError("down"), KeyboardInterrupt()]), 130, ""),
    ],
)
def test_an_error_ends_the_command_with_its_line_and_code(error: BaseException, code: int, text: str) -> None:
    result = run(error)
    assert result.exit_code == code
    assert result.stderr == text
    assert result.stdout == ""


@pytest.mark.parametrize("error", [ZeroDivisionError(), ExceptionGroup("g", [ProviderError("x"), ZeroDivisionError()])])
def test_a_fault_of_ours_is_not_hidden(error: Exception) -> None:
    result = run(error)
    assert result.exit_code == 1
    assert result.exception is error


def test_an_error_shows_no_secret() -> None:
    remember_secrets(["faults-canary-1"])
    assert run(NanobeeError("with faults-canary-1 in it")).stderr == "with [secret] in it\n"


def test_a_crash_is_reported_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    remember_secrets(["faults-canary-1"])
    try:
        raise ValueError("with faults-canary-1 in it")
    except ValueError as error:
        show_crash(ValueError, error, error.__traceback__)
    report = capsys.readouterr().err
    assert report.startswith("Traceback (most recent call last)")
    assert report.endswith("ValueError: with [secret] in it\n")
