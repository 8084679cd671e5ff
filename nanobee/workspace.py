"""Workspace: the user's folder, and the template that it starts from."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nanobee.errors import StateError

FOLDER_MODE = 0o700
"""What the agent writes and remembers is its owner's alone."""
FILE_MODE = 0o600


def template_root() -> Path:
    """The template's folder: in the package where nanobee is installed, else beside it in a checkout.

    Raises:
        StateError: the installation is incomplete.
    """
    package = Path(__file__).parent
    for folder in (package / "_workspace", package.parent / "workspace"):
        if (folder / "AGENTS.md").is_file():
            return folder
    raise StateError(f"the workspace template is missing from {package}: install nanobee again")


def init_workspace(workspace: Path) -> list[Path]:
    """Make the workspace out of the template; return the files that were created.

    What is there stays as it is, also when another process makes the same workspace at the same time.

    Raises:
        StateError: the folder cannot be made or written.
    """
    root = template_root()
    if workspace.resolve() == root.resolve():
        raise StateError(f"{workspace} is the template folder itself: choose another workspace")
    try:
        _make_folder(workspace)
        copies = [(source, workspace / source.relative_to(root)) for source in _files(root)]
        return [target for source, target in copies if not os.path.lexists(target) and _copy(source, target)]
    except OSError as error:
        raise StateError(f"the workspace {workspace} cannot be made: {error.strerror}") from error


def make_private_folder(folder: Path) -> None:
    """Make a folder that only its owner can enter, unless it is there.

    Raises:
        StateError: it cannot be made.
    """
    try:
        _make_folder(folder)
    except OSError as error:
        raise StateError(f"the folder {folder} cannot be made: {error.strerror}") from error


def create_file(target: Path, data: bytes) -> bool:
    """Create a private file whole; False where something stands there, a broken link too.

    Raises:
        StateError: it cannot be written.
    """
    try:
        return not os.path.lexists(target) and _create(target, data)
    except OSError as error:
        raise StateError(f"{target} cannot be written: {error.strerror}") from error


def _copy(source: Path, target: Path) -> bool:
    return _create(target, source.read_bytes())


def _create(target: Path, data: bytes) -> bool:
    _make_folder(target.parent)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _link(Path(temporary), target, data)
    except FileExistsError:
        return False
    finally:
        Path(temporary).unlink(missing_ok=True)
    return True


def _make_folder(folder: Path) -> None:
    for parent in reversed((folder, *folder.parents)):
        if not parent.is_dir():
            with suppress(FileExistsError):  # another process was faster
                parent.mkdir(mode=FOLDER_MODE)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def _link(temporary: Path, target: Path, data: bytes) -> None:
    try:
        os.link(temporary, target)  # unlike a rename, it fails where the target exists
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)


def _files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix != ".pyc" and not path.name.startswith("."):
            yield path
