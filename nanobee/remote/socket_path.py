"""Socket path: where the holder of a state folder listens, and where its clients look.

A Unix socket's path may have about 100 bytes. Below a deep state folder the socket stands in a
private folder of its own under the runtime or temporary folder, and a file in the state folder
names it.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

SOCKET_NAME = "holder.sock"
RECORD_NAME = "holder.sock.path"
"""Names a socket that stands elsewhere."""
MAX_PATH_BYTES = 100
"""Linux takes 107, macOS 103."""
FOLDER_PREFIX = "nanobee-"


def find_socket(state: Path) -> Path | None:
    """Where a holder listens, or did until it was killed; None where nothing can be there."""
    path = state.absolute() / SOCKET_NAME
    if not is_too_long(path):
        return path if path.exists() else None
    recorded = _read_record(state)
    return recorded if recorded is not None and recorded.exists() else None


@contextmanager
def socket_place(state: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """A path for the holder's socket while the block runs; what a dead holder left is taken away.

    Raises:
        OSError: no place could be made.
    """
    _forget(state)
    path = state.absolute() / SOCKET_NAME
    try:
        if is_too_long(path):
            path = _make_place_elsewhere(environ)
            (state / RECORD_NAME).write_bytes(os.fsencode(path) + b"\n")
        yield path
    finally:
        _forget(state)


def is_too_long(path: Path) -> bool:
    """Whether no socket can stand at the path."""
    return len(os.fsencode(path)) > MAX_PATH_BYTES


def _read_record(state: Path) -> Path | None:
    try:
        path = Path(os.fsdecode((state / RECORD_NAME).read_bytes().removesuffix(b"\n")))
    except OSError:
        return None
    is_ours = path.is_absolute() and path.name == SOCKET_NAME and path.parent.name.startswith(FOLDER_PREFIX)
    return path if is_ours else None


def _forget(state: Path) -> None:
    """Take the socket away, and where it stood elsewhere its folder and its record too."""
    path = state.absolute() / SOCKET_NAME
    recorded = _read_record(state)
    for each in (path, recorded):
        with suppress(OSError):
            if each is not None and each.is_socket():
                each.unlink()
    if recorded is not None:
        with suppress(OSError):
            recorded.parent.rmdir()
    with suppress(OSError):
        (state / RECORD_NAME).unlink()


def _make_place_elsewhere(environ: Mapping[str, str]) -> Path:
    for root in filter(None, (environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp")):
        with suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=root))
            if not is_too_long(folder / SOCKET_NAME):
                return folder / SOCKET_NAME
            folder.rmdir()
    raise OSError("no folder for temporary files has a path that is short enough for a socket")
