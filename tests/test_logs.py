"""The log: bounded, private, and without secrets."""

import logging
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import nanobee.logs
from nanobee.errors import StateError
from nanobee.logs import MAX_FILES, MAX_RECENT, QUIET, configure_logs, recent_errors
from nanobee.secrets import SecretSet

CANARY = "canary-c0ffee-1"
logger = logging.getLogger("nanobee.test")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, raises = root.handlers[:], root.level, logging.raiseExceptions
    levels = {name: logging.getLogger(name).level for name in QUIET}
    yield
    for handler in [handler for handler in root.handlers if handler not in handlers]:
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)
    logging.raiseExceptions = raises
    logging.captureWarnings(False)
    nanobee.logs.forget_logs()


def redact(text: str) -> str:
    secrets = SecretSet()
    secrets.add([CANARY])
    return secrets.redact(text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "cli.log"


def test_a_secret_is_in_no_part_of_a_record(file: Path) -> None:
    configure_logs("debug", redact, file)
    try:
        raise ValueError(f"inside {CANARY}") from KeyError(CANARY)
    except ValueError:
        logger.exception("message %s", {"token": CANARY}, stack_info=True)
    logger.debug("%s", CANARY)
    text = file.read_text(encoding="utf-8")
    assert "Traceback" in text
    assert CANARY not in text
    assert text.count("[secret]") >= 4


def test_libraries_that_log_addresses_with_tokens_are_quiet_even_at_debug(file: Path) -> None:
    configure_logs("debug", redact, file)
    for name in ("httpx", "telegram.ext", "telegram.Bot", "aiohttp.client", "httpcore.http11"):
        logging.getLogger(name).info("HTTP Request: POST https://api/bot1:unknown/getMe")
    logger.debug("heard")
    assert file.read_text(encoding="utf-8").splitlines()[0].endswith("DEBUG nanobee.test: heard")


def test_a_warning_of_python_goes_to_the_log(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", redact, file)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("look here", stacklevel=1)
    assert "look here" in file.read_text(encoding="utf-8")
    assert capsys.readouterr().err == ""


def test_the_level_is_kept(file: Path) -> None:
    configure_logs("warning", redact, file)
    logger.info("no")
    logger.warning("yes")
    assert "no" not in file.read_text(encoding="utf-8").splitlines()[0].split(": ")[-1]


def test_a_log_without_a_file_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", redact)
    logger.info("%s there", CANARY)
    assert capsys.readouterr().err.endswith("INFO nanobee.test: [secret] there\n")


def test_a_second_configuration_replaces_the_first(file: Path, tmp_path: Path) -> None:
    configure_logs("info", redact, file)
    configure_logs("info", redact, tmp_path / "other.log")
    logger.info("hello")
    assert file.read_text(encoding="utf-8") == ""
    assert (tmp_path / "other.log").read_text(encoding="utf-8").count("hello") == 1


def test_the_file_is_private_and_bounded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nanobee.logs, "MAX_FILE_BYTES", 2000)
    configure_logs("info", redact, file)
    for _ in range(200):
        logger.info("x" * 100)
    files = list(file.parent.iterdir())
    assert len(files) == MAX_FILES + 1
    assert all(path.stat().st_size <= 2000 for path in files)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)


def test_a_log_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("x", encoding="utf-8")
    with pytest.raises(StateError, match="cannot be written"):
        configure_logs("info", redact, tmp_path / "logs" / "cli.log")


def test_the_last_errors_are_kept_on_one_line_each(file: Path) -> None:
    configure_logs("error", redact, file)
    logger.warning("not this")
    try:
        raise RuntimeError(f"a\nb {CANARY}")
    except RuntimeError:
        logger.exception("it %s", "broke")
    (error,) = recent_errors()
    assert (error.where, error.text) == ("nanobee.test", "it broke: a b [secret]")
    for number in range(MAX_RECENT + 5):
        logger.error("%d", number)
    assert [error.text for error in recent_errors()] == [str(number) for number in range(5, MAX_RECENT + 5)]


def test_without_a_log_there_are_no_errors() -> None:
    assert recent_errors() == ()
