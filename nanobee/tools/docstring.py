"""Docstring: what a tool's documentation tells the model, of the tool and of each parameter."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import cleandoc

_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):")
_ARGUMENT_SECTIONS = frozenset({"Args", "Arguments", "Parameters"})
_ARGUMENT = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)")


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring in sections."""

    description: str = ""
    """All that stands before the first section, paragraphs kept."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Descriptions by parameter name, each on one line."""


def parse_docstring(text: str) -> Docstring:
    """Read a docstring whose parameters stand in an `Args:` section, one `name: description` each."""
    head: list[str] = []
    arguments: list[str] = []
    section = ""
    for line in cleandoc(text).splitlines():
        if found := _SECTION.fullmatch(line.rstrip()):
            section = found[1]
        elif not section:
            head.append(line.rstrip())
        elif section in _ARGUMENT_SECTIONS and line.strip():
            arguments.append(line)
    return Docstring("\n".join(head).strip(), _read_arguments(arguments))


def _read_arguments(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    depth = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    for line in lines:
        entry = _ARGUMENT.fullmatch(line.strip())
        if entry and len(line) - len(line.lstrip()) == depth:
            name = entry[1]
            found[name] = entry[2]
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found
