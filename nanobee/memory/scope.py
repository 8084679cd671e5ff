"""Scope: whose memory a conversation reads and writes.

The owner's private chats share one memory, `memory/` in the workspace. Every group and every other
person has its own, in `scopes/<coded key>/memory/`. A scope is known from the session key alone, so
that a background job, which has no message at hand, comes to the same as a turn.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from nanobee.config_memory import MemoryScope
from nanobee.messages import RESERVED_CHANNELS, decode_key_part
from nanobee.sessions.names import SUFFIX, key_of_path, path_of_key
from nanobee.tools.view import MEMORY, SCOPES, View

OWNER_KEY = "owner"
"""Of the owner's scope; every other key has a colon."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One memory."""

    key: str
    """`owner`, or `channel:chat_id` of the chat whose it is."""
    folder: PurePosixPath
    """Its root, relative to the workspace."""
    is_private: bool = False
    """Whether only the owner talks there."""

    @property
    def is_owner(self) -> bool:
        """Whether it is that of the owner's private chats."""
        return self.key == OWNER_KEY

    @property
    def file_name(self) -> str:
        """A name for files of this scope outside the workspace, safe on any file system."""
        return _coded(self.key).as_posix().replace("/", "~")


OWNER_SCOPE = Scope(OWNER_KEY, PurePosixPath(MEMORY), is_private=True)


def _coded(key: str) -> PurePosixPath:
    return PurePosixPath(path_of_key(key).as_posix().removesuffix(SUFFIX))


@dataclass(frozen=True, slots=True)
class Scopes:
    """Finds the scope of each session."""

    workspace: Path
    owners: Collection[str] = ()
    """`channel:sender_id` of the owner, which is also the key of their private chat."""
    terminals: Collection[str] = ()
    """Names of the channels that only the owner can reach."""
    mode: MemoryScope = MemoryScope.PERSON

    def of(self, session_key: str) -> Scope:
        """The scope of a session; the threads of a chat share their chat's."""
        channel, _, rest = session_key.partition(":")
        chat = rest.partition(":")[0]
        if channel in self.terminals:
            return OWNER_SCOPE
        is_private = f"{channel}:{decode_key_part(chat)}" in self.owners and channel not in RESERVED_CHANNELS
        if is_private and self.mode is MemoryScope.PERSON:
            return OWNER_SCOPE
        scope = self.named(f"{channel}:{chat}")
        return replace(scope, is_private=is_private)

    def view(self, session_key: str) -> View:
        """What of the workspace exists for a session's file tools."""
        scope = self.of(session_key)
        return View(self.workspace, scope.folder, scope.is_private)

    def named(self, key: str) -> Scope:
        """The scope of that key."""
        if key == OWNER_KEY:
            return OWNER_SCOPE
        return Scope(key, PurePosixPath(SCOPES) / _coded(key) / MEMORY)

    def root(self, scope: Scope) -> Path:
        """The folder of its files, which may not exist yet."""
        return self.workspace / scope.folder

    def all(self) -> list[Scope]:
        """The owner's, then all others that have a folder, by key."""
        top = self.workspace / SCOPES
        keys = []
        for folder in top.rglob(MEMORY) if top.is_dir() else ():
            coded = folder.parent.relative_to(top).as_posix()
            key = key_of_path(PurePosixPath(coded + SUFFIX)) if folder.is_dir() else None
            if key is not None:
                keys.append(key)
        return [OWNER_SCOPE, *(self.named(key) for key in sorted(keys))]
