"""The status file: whole, without secrets, and read back as it was."""

import json
import stat
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from nanobee.errors import StateError
from nanobee.logs import MAX_RECENT, RecentError
from nanobee.secrets import remember_secrets
from nanobee.status import FILE_NAME, MAX_TEXT_CHARS, ChannelReport, GatewayStatus, read_status, write_status

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def build(*errors: RecentError, **channels: ChannelReport) -> GatewayStatus:
    return GatewayStatus(7, AT, AT + timedelta(hours=1), "main/x", channels, errors)


def test_a_status_is_read_back_as_it_was(tmp_path: Path) -> None:
    status = build(
        RecentError(AT, "nanobee.gateway", "it broke"),
        telegram=ChannelReport("telegram", "down", "no network", AT),
        web=ChannelReport("web", "starting"),
    )
    write_status(tmp_path, status)
    assert read_status(tmp_path) == status


def test_there_is_none_at_first(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    assert read_status(tmp_path / "no" / "folder") is None


def test_a_new_status_replaces_the_old_one_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write_status(tmp_path, build())
    write_status(tmp_path, build(web=ChannelReport("web", "up")))
    status = read_status(tmp_path)
    assert status is not None
    assert list(status.channels) == ["web"]
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_times_are_written_in_utc(tmp_path: Path) -> None:
    local = AT.astimezone(timezone(timedelta(hours=8)))
    write_status(tmp_path, GatewayStatus(7, local, local, "m"))
    assert json.loads((tmp_path / FILE_NAME).read_text(encoding="utf-8"))["started_at"] == "2026-01-02T03:04:05Z"


def test_no_secret_and_no_flood_gets_into_the_file(tmp_path: Path) -> None:
    remember_secrets(["status-canary-1"])
    errors = [RecentError(AT, "w", f"{number} status-canary-1 " + "x" * 1000) for number in range(MAX_RECENT * 2)]
    write_status(tmp_path, build(*errors, t=ChannelReport("t", "down", "status-canary-1" * 99)))
    text = (tmp_path / FILE_NAME).read_text(encoding="utf-8")
    assert "status-canary-1" not in text
    status = read_status(tmp_path)
    assert status is not None
    assert [error.text.split()[0] for error in status.errors] == [str(n) for n in range(MAX_RECENT, MAX_RECENT * 2)]
    assert len(status.channels["t"].detail) <= MAX_TEXT_CHARS


def test_a_lone_surrogate_does_not_stop_the_writing(tmp_path: Path) -> None:
    write_status(tmp_path, build(RecentError(AT, "w", "a\udc80b")))
    status = read_status(tmp_path)
    assert status is not None
    assert status.errors[0].text == "a?b"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", "null", '{"pid": "x"}', "\x00", '{"pid":1,"channels":{},"errors":[1]}']
)
def test_a_damaged_status_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text, encoding="utf-8")
    with pytest.raises(StateError, match="cannot be read"):
        read_status(tmp_path)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot be written"):
        write_status(tmp_path / "no", build())
