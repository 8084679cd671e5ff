"""Status: what a running gateway tells about itself, as a file in its state folder."""

import errno
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from nanobee.errors import StateError
from nanobee.logs import MAX_RECENT, RecentError
from nanobee.secrets import redact

FILE_NAME = "status.json"
PROBE_BYTES = 16 * 1024
MAX_TEXT_CHARS = 300
"""Of one error or detail: it is a line for people."""


@dataclass(frozen=True, slots=True)
class ChannelReport:
    """How one channel instance is."""

    kind: str
    state: str
    detail: str = ""
    last_event_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class GatewayStatus:
    """How a gateway is, or was when it last wrote."""

    pid: int
    started_at: datetime
    updated_at: datetime
    model: str
    """`provider/model`, as people read it."""
    channels: Mapping[str, ChannelReport] = field(default_factory=dict)
    errors: tuple[RecentError, ...] = ()
    """The last ones, oldest first."""


def write_status(state: Path, status: GatewayStatus) -> None:
    """Replace the state folder's status by this one, at once and without secrets.

    Raises:
        StateError: the file cannot be written.
    """
    try:
        descriptor, temporary = tempfile.mkstemp(dir=state, prefix=f".{FILE_NAME}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
                json.dump(_to_json(status), file, ensure_ascii=False, indent=1)
            Path(temporary).replace(state / FILE_NAME)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StateError(f"the status in {state} cannot be written: {error.strerror}") from error


def check_disk(state: Path) -> None:
    """See whether the state folder's disk takes anything, with a file that has no name and is gone at once.

    Raises:
        StateError: it does not; a gateway acknowledges nothing until it does.
    """
    try:
        with tempfile.TemporaryFile(dir=state, buffering=0) as file:
            if file.write(bytes(PROBE_BYTES)) != PROBE_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except (FileNotFoundError, PermissionError):
        return  # nothing was set up here yet, or it is somebody else's
    except OSError as error:
        raise StateError(f"{state} cannot be written: {error.strerror}") from error


def read_status(state: Path) -> GatewayStatus | None:
    """The last status that was written into the state folder, None where none was.

    Raises:
        StateError: there is one, but it cannot be read.
    """
    path = state / FILE_NAME
    try:
        return _from_json(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise StateError(f"{path} cannot be read") from None


def _to_json(status: GatewayStatus) -> dict[str, object]:
    return {
        "pid": status.pid,
        "started_at": _to_text(status.started_at),
        "updated_at": _to_text(status.updated_at),
        "model": redact(status.model),
        "channels": {
            name: {
                "kind": report.kind,
                "state": report.state,
                "detail": redact(report.detail)[:MAX_TEXT_CHARS],
                "last_event_at": _to_text(report.last_event_at),
            }
            for name, report in status.channels.items()
        },
        "errors": [
            {"at": _to_text(error.at), "where": error.where, "text": redact(error.text)[:MAX_TEXT_CHARS]}
            for error in status.errors[-MAX_RECENT:]
        ],
    }


def _from_json(whole: Mapping[str, object]) -> GatewayStatus:
    channels, errors, pid = whole["channels"], whole["errors"], whole["pid"]
    if not (isinstance(channels, dict) and isinstance(errors, list) and isinstance(pid, int)):
        raise TypeError("not a status")
    return GatewayStatus(
        pid=pid,
        started_at=_at(whole["started_at"]),
        updated_at=_at(whole["updated_at"]),
        model=str(whole["model"]),
        channels={name: _report(report) for name, report in channels.items()},
        errors=tuple(RecentError(_at(each["at"]), str(each["where"]), str(each["text"])) for each in errors),
    )


def _report(report: Mapping[str, object]) -> ChannelReport:
    last = report["last_event_at"]
    return ChannelReport(
        kind=str(report["kind"]),
        state=str(report["state"]),
        detail=str(report["detail"]),
        last_event_at=None if last is None else _at(last),
    )


def _at(text: object) -> datetime:
    at = datetime.fromisoformat(str(text))
    return at.astimezone(UTC)


def _to_text(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
