"""write_file: a whole file at once, or not at all."""

import os
import stat
from contextlib import suppress

from nanobee.errors import ToolError
from nanobee.tools.decorator import tool
from nanobee.tools.paths import Place, open_place, refuse_unless_regular
from nanobee.tools.tool import ToolContext

MAX_WRITE_BYTES = 8 * 1024 * 1024
"""The longest file that is written in one call."""


@tool(idempotent=True)
def write_file(context: ToolContext, path: str, content: str) -> str:
    """Write a text file of the workspace: make it, with its folders, or replace all that is in it.

    Args:
        path: Relative to the workspace.
        content: The whole new content.
    """
    raw = content.encode("utf-8", "replace")
    if len(raw) > MAX_WRITE_BYTES:
        raise ToolError(f"{len(raw):,} bytes are too many for one file; {MAX_WRITE_BYTES:,} are allowed")
    with open_place(context.view, path, for_writing=True, creates_parents=True) as place:
        found = place.look()
        if found is not None:
            refuse_unless_regular(found, place.path)
        replace_file(place, raw, found)
        return f"{'Wrote' if found is None else 'Replaced'} {place.path} ({len(raw):,} bytes)."


def replace_file(place: Place, raw: bytes, found: os.stat_result | None) -> None:
    """Put a file with these bytes in place in one step, on disk when this returns; `found` is what stood there.

    Mode and owner stay as they were. A link or second name of the old file is left alone.

    Raises:
        ToolError: the old file is marked read-only, or another one has come there since.
        OSError: the disk refuses; the old file stands as it was.
    """
    if found is not None and not stat.S_IMODE(found.st_mode) & 0o222:
        raise ToolError(f"{place.path}: the file is marked read-only")
    temporary = Place(place.directory, f".nanobee-{os.urandom(8).hex()}.tmp", place.path)
    # A private file stays private while it is written, too.
    descriptor = temporary.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if found is None else 0o600)
    try:
        try:
            _write(descriptor, raw)
            if found is not None:
                with suppress(OSError):
                    os.fchown(descriptor, found.st_uid, found.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & 0o777)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if not _is_same(found, place.look()):
            raise ToolError(f"{place.path}: was changed by somebody else at this moment; read it again")
        os.replace(temporary.name, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary.name, dir_fd=place.directory)
        raise
    with suppress(OSError):
        # Not every file system can; the file is in place all the same.
        os.fsync(place.directory)


def _write(descriptor: int, raw: bytes) -> None:
    left = memoryview(raw)
    while left:
        left = left[os.write(descriptor, left) :]


def _is_same(before: os.stat_result | None, now: os.stat_result | None) -> bool:
    if before is None or now is None:
        return before is now
    return _version(before) == _version(now)


def _version(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
