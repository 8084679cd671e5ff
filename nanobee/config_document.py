"""Document: a configuration's values before validation, with the place of each and every fault so far."""

from dataclasses import dataclass, field

from nanobee.config_origin import KeyPath, Mark, Origin
from nanobee.errors import ConfigProblem
from nanobee.phrases import Phrase

Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]
"""What a configuration holds."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault that was found before the values are validated."""

    mark: Mark
    path: KeyPath
    phrase: Phrase
    fields: dict[str, object] = field(default_factory=dict)

    def problem(self, origin: Origin) -> ConfigProblem:
        """The fault in the language of `origin`."""
        place = Origin({self.path: self.mark})
        return place.problem(self.path, self.phrase.say(origin.language, **self.fields))


@dataclass(slots=True)
class Document:
    """A configuration before validation, with all that is wrong with it so far."""

    source: str
    values: dict[str, Value] = field(default_factory=dict)
    marks: dict[KeyPath, Mark] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def blame(self, path: KeyPath, phrase: Phrase, line: int | None = None, **fields: object) -> None:
        """Note a fault at `path`."""
        mark = Mark(self.source, line) if line is not None else Origin(self.marks).mark(path)
        self.faults.append(Fault(mark, path, phrase, fields))


def is_unicode(text: str) -> bool:
    """Whether `text` can be written as UTF-8; a lone surrogate cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
