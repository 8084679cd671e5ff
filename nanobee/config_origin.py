"""Origin: which file and line, or which environment variable, each setting came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nanobee.errors import ConfigProblem
from nanobee.phrases import Language

KeyPath = tuple[str | int, ...]
"""Keys and list positions from the top of the configuration down to one value."""

MAX_SHOWN_KEY_CHARS = 32
MAX_SHOWN_KEY_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Mark:
    """Where one value stands."""

    source: str
    """A file's path, or the name of an environment variable."""
    line: int | None = None
    """First line is 1."""
    is_loose: bool = False
    """The value is text from the environment; the field that takes it decides its type."""


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The marks of a configuration, seen from one section of it.

    Settings carry their origin so that a fault found later (by a plugin, at start) still names
    file and line. Any two are equal: where a value stands is no part of what it is.
    """

    marks: Mapping[KeyPath, Mark] = field(default_factory=dict)
    prefix: KeyPath = ()
    language: Language = "en"
    warnings: tuple[str, ...] = ()
    """What is no reason to refuse the start, but the owner should know. For the log."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Origin)

    def at(self, *keys: str | int) -> "Origin":
        """The origin of the section below `keys`."""
        return Origin(self.marks, (*self.prefix, *keys), self.language)

    def mark(self, path: KeyPath) -> Mark:
        """Where the value at `path` stands, or else the nearest section around it."""
        whole = (*self.prefix, *path)
        for length in range(len(whole), -1, -1):
            if (mark := self.marks.get(whole[:length])) is not None:
                return mark
        return Mark("settings")

    def is_loose(self, path: KeyPath) -> bool:
        """Whether exactly this value is text from the environment."""
        mark = self.marks.get((*self.prefix, *path))
        return mark is not None and mark.is_loose

    def problem(self, path: KeyPath, reason: str) -> ConfigProblem:
        """A problem with the value at `path`. `reason` must not hold the value."""
        mark = self.mark(path)
        return ConfigProblem(mark.source, format_path((*self.prefix, *path)), reason, mark.line)


def format_path(path: KeyPath) -> str:
    """`channels.telegram.allow_from[0]`; what does not look like a key is shown as `?`."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            text += ("." if text else "") + (key if is_showable(key) else "?")
    return text


def is_showable(key: str) -> bool:
    """Whether a key may be printed: a slipped colon can make a key of a secret."""
    is_word = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    max_digits = MAX_SHOWN_KEY_DIGITS if key == key.lower() else 0
    return is_word and len(key) <= MAX_SHOWN_KEY_CHARS and sum(map(str.isdigit, key)) <= max_digits
