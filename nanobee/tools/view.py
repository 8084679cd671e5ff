"""View: what of the workspace exists for the file tools of one conversation.

The memory of each conversation looks like `memory/` to it. Another one's is not there: not to be
read, listed or written, under whatever name.
"""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

MEMORY = "memory"
"""The folder at the root under which a conversation finds its own memory."""
SCOPES = "scopes"
"""The folder at the root that holds the memories of others than the owner; it exists for no tool."""
OWNERS_FILES = ("USER.md",)
"""At the root, and there for the owner's private chats only."""


@dataclass(frozen=True, slots=True)
class View:
    """One conversation's workspace. Who says nothing else sees no memory at all."""

    root: Path
    """The workspace."""
    memory: PurePosixPath | None = None
    """Where its `memory/` really stands, below the root; None where it has none."""
    is_private: bool = False
    """It is a private chat of the owner."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """Names at the root that do not exist for it."""
        names = [SCOPES, *(() if self.is_private else OWNERS_FILES)]
        return tuple(names if self.memory is not None else [*names, MEMORY])

    @property
    def veiled(self) -> tuple[str, ...]:
        """Names at the root behind which stands what it must not reach by another way."""
        return self.hidden if self.memory in (None, PurePosixPath(MEMORY)) else (*self.hidden, MEMORY)
