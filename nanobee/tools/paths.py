"""Paths that a model names: led from the workspace's root downward, and never out of it.

Each component is opened by the descriptor of the directory before it and without following
links; a link's target is read and walked in the same way. So nothing that is swapped for a link
between the check and the use leads outside: there is no check apart from the use.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from nanobee.errors import ToolError
from nanobee.tools.view import MEMORY, View

READ_ONLY_NAMES = ("tools", "skills", "agents", "AGENTS.md", "SOUL.md", "HEARTBEAT.md")
"""What steers the agent, at the workspace's root: not the agent's to write."""
MAX_STEPS = 500
"""Directories that are opened to follow one path; links and `..` start it anew."""
MAX_LINKS = 40
"""Links that are followed for one path, as the kernel has it."""
MAX_SHOWN_CHARS = 200
"""How much of a path stands in an error."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Identity = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path leads: a name in an open directory. The name is no link, or was none when it was looked at."""

    directory: int
    """Descriptor, open as long as the `open_place` that gave it."""
    name: str
    """`.` where the path is the workspace itself."""
    path: str
    """Relative to the workspace, links resolved, for people."""
    hidden: tuple[str, ...] = ()
    """Names in this directory that do not exist for who asks, in any case; here they are case-folded."""

    def look(self) -> os.stat_result | None:
        """What stands there, None for nothing; a link is not followed."""
        try:
            return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self, flags: int, mode: int = 0o666) -> int:
        """Open it without following a link that has come there since."""
        return os.open(self.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=self.directory)


@contextmanager
def open_place(view: View, path: str, *, for_writing: bool = False, creates_parents: bool = False) -> Iterator[Place]:
    """Follow `path` inside a workspace, as one conversation sees it.

    An `OSError` in the body becomes a `ToolError` as well.

    `~` is the home of nanobee's user; an absolute path must lie under the workspace; nothing is decoded.

    Raises:
        ToolError: it leads outside, through something that is no directory, to what does not exist
            in this view, or, for writing, to what steers the agent.
    """
    walk = _Walk(view, path, for_writing, creates_parents)
    try:
        yield walk.lead()
    except OSError as error:
        raise ToolError(_describe(error, path)) from None
    finally:
        walk.close()


class _Walk:
    """One path on its way down; holds one directory open at a time, besides the root."""

    def __init__(self, view: View, path: str, for_writing: bool, creates_parents: bool) -> None:
        if "\x00" in path:
            raise ToolError("a path cannot hold a NUL character")
        self._path = path
        self._shown = path[:MAX_SHOWN_CHARS]
        self._creates_parents = creates_parents
        self._links = self._steps = 0
        self._done: list[str] = []
        try:
            self._root = os.open(view.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ToolError(f"the workspace cannot be opened ({os.strerror(error.errno or 0)})") from None
        self._here = self._root
        self._guard = _Guard(self._root, self._shown) if for_writing else None
        self._view = view
        self._veil = _Veil(self._root, view)
        self._left: list[str] = []

    def close(self) -> None:
        """Close what is open; the place that was led to is no longer good."""
        self._go_to(self._root)
        os.close(self._root)

    def lead(self) -> Place:
        """Go as far as the last component."""
        self._left = self._components(self._path)
        while self._left:
            name = self._left.pop(0)
            if name == "..":
                self._go_up()
                continue
            if self._guard:
                self._guard.check_name((*self._done, name))
            if not self._done:
                self._veil.check_name(name)
                if name.casefold() == MEMORY:
                    name = MEMORY
                    self._enter_scope()
            if target := self._read_link(name):
                self._follow(target)
            elif self._left:
                self._go_down(name)
            else:
                if self._guard:
                    self._guard.check_entry(name, self._here)
                self._veil.check_entry(name, self._here)
                return Place(self._here, name, "/".join((*self._done, name)))
        return Place(self._here, ".", "/".join(self._done) or ".", () if self._done else tuple(self._veil.hidden))

    def _enter_scope(self) -> None:
        """Go where the conversation's own `memory` stands, which has the same name there."""
        assert self._view.memory is not None
        for name in self._view.memory.parts[:-1]:
            if self._creates_parents:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=self._here)
            self._go_to(os.open(name, _DIRECTORY, dir_fd=self._here))

    def _components(self, path: str) -> list[str]:
        """The components below the root."""
        if path == "~" or path.startswith("~/"):
            path = str(Path.home()) + path[1:]
        if path.startswith("/"):
            path = self._below_root(path)
        return [part for part in path.split("/") if part not in ("", ".")]

    def _below_root(self, path: str) -> str:
        """What of an absolute path stands under the root, under whichever name the root goes."""
        root = os.fstat(self._root)
        pure = Path(path)
        for ancestor in (pure, *pure.parents):
            is_root = ancestor == self._view.root
            if not is_root:
                try:
                    is_root = os.path.samestat(ancestor.stat(), root)
                except OSError:
                    continue
            if is_root:
                return str(pure.relative_to(ancestor))
        raise self._outside()

    def _go_up(self) -> None:
        if not self._done:
            raise self._outside()
        # Not the parent that the kernel knows: a directory may have been moved since it was opened.
        self._left = [*self._done[:-1], *self._left]
        self._restart()

    def _follow(self, target: str) -> None:
        self._links += 1
        if self._links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.startswith("/"):
            self._left = [*self._components(target), *self._left]
            self._restart()
        else:
            self._left = [*(part for part in target.split("/") if part not in ("", ".")), *self._left]

    def _read_link(self, name: str) -> str | None:
        try:
            return os.readlink(name, dir_fd=self._here)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def _go_down(self, name: str) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise ToolError(f"{self._shown}: the path is too long")
        if self._creates_parents:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self._here)
        self._go_to(os.open(name, _DIRECTORY, dir_fd=self._here))
        self._done.append(name)
        self._veil.check_directory(self._here)
        if self._guard:
            self._guard.check_directory(self._here)

    def _restart(self) -> None:
        self._go_to(self._root)
        self._done = []

    def _go_to(self, directory: int) -> None:
        if self._here != self._root:
            os.close(self._here)
        self._here = directory

    def _outside(self) -> ToolError:
        return ToolError(f"{self._shown}: outside the workspace; file tools work inside it, by paths relative to it")


class _Veil:
    """Keeps everybody from what does not exist in their view, whatever name it goes by."""

    def __init__(self, root: int, view: View) -> None:
        self.hidden = {name.casefold() for name in view.hidden}
        self._identities = _identities(root, view.veiled)

    def check_name(self, name: str) -> None:
        """Refuse the names at the root, in any case."""
        if name.casefold() in self.hidden:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    def check_directory(self, directory: int) -> None:
        """Refuse a directory that is one of them under another name."""
        self._check(os.fstat(directory))

    def check_entry(self, name: str, directory: int) -> None:
        """Refuse an entry that is one of them under another name."""
        with suppress(FileNotFoundError):
            self._check(os.stat(name, dir_fd=directory, follow_symlinks=False))

    def _check(self, found: os.stat_result) -> None:
        if (found.st_dev, found.st_ino) in self._identities:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def _identities(root: int, names: Iterable[str]) -> set[Identity]:
    """What stands under these names at the root."""
    found = set()
    for name in names:
        with suppress(OSError):
            stat_result = os.stat(name, dir_fd=root)
            found.add((stat_result.st_dev, stat_result.st_ino))
    return found


class _Guard:
    """Keeps writers from what steers the agent, whatever name it goes by."""

    def __init__(self, root: int, shown: str) -> None:
        self._shown = shown
        self._names = {name.casefold() for name in READ_ONLY_NAMES}
        self._identities = _identities(root, READ_ONLY_NAMES)

    def check_name(self, parts: tuple[str, ...]) -> None:
        """Refuse the names themselves, in any case: file systems may not tell cases apart."""
        if parts[0].casefold() in self._names:
            raise self._refusal()
        if parts[0].casefold() == MEMORY:
            raise ToolError(f"{self._shown}: memory is written with memory_save and memory_forget")

    def check_directory(self, directory: int) -> None:
        """Refuse a directory that is one of them under another name."""
        self._check(os.fstat(directory))

    def check_entry(self, name: str, directory: int) -> None:
        """Refuse a file that is one of them under another name."""
        try:
            self._check(os.stat(name, dir_fd=directory, follow_symlinks=False))
        except FileNotFoundError:
            return

    def _check(self, found: os.stat_result) -> None:
        if (found.st_dev, found.st_ino) in self._identities:
            raise self._refusal()

    def _refusal(self) -> ToolError:
        return ToolError(
            f"{self._shown}: read-only for tools, because it steers the agent"
            f" (so are {', '.join(READ_ONLY_NAMES)}). Tell the user what should be changed there instead."
        )


def refuse_unless_regular(found: os.stat_result, path: str) -> None:
    """Refuse what is no ordinary file: opening a pipe or a device may block or do something.

    Raises:
        ToolError: it names what stands there.
    """
    if stat.S_ISREG(found.st_mode):
        return
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{path}: is a directory; list_dir shows what is in it")
    kind = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a link"}
    raise ToolError(f"{path}: is {kind.get(stat.S_IFMT(found.st_mode), 'a device')}, not a file")


def refuse_shared(found: os.stat_result, path: str) -> None:
    """Refuse to show a file that has a second name, for that may stand outside the workspace.

    Raises:
        ToolError: it has more than one hard link.
    """
    if found.st_nlink > 1:
        raise ToolError(f"{path}: has another hard link, maybe outside the workspace; only a copy of it can be read")


def _describe(error: OSError, path: str) -> str:
    shown = path[:MAX_SHOWN_CHARS]
    match error.errno:
        case errno.ENOENT:
            return f"{shown}: no such file or directory; list_dir shows what is there"
        case errno.ENOTDIR:
            return f"{shown}: leads through something that is not a directory"
        case errno.ELOOP:
            return f"{shown}: leads through links that go in circles, or was changed while it was opened"
        case errno.EACCES | errno.EPERM:
            return f"{shown}: permission denied"
        case _:
            return f"{shown}: {os.strerror(error.errno or errno.EIO)}"
