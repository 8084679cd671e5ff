"""Where the models behind the Anthropic Messages API differ: one table, by family and version."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

DEFAULT_MAX_TOKENS = 32_000
"""How long an answer may be where nobody says; thinking counts."""

_NAME = re.compile(
    r"claude-(?P<family>[a-z]+)-(?:preview|(?P<major>\d+))(?:[.-](?P<minor>\d{1,2})(?!\d))?", re.IGNORECASE
)
_OLD_NAME = re.compile(r"claude-(?P<major>3)(?:[.-](?P<minor>\d))?-(?P<family>[a-z]+)", re.IGNORECASE)


class Off(StrEnum):
    """How thinking is turned off."""

    OMITTED = "omitted"
    """It is off unless it is asked for."""
    DISABLED = "disabled"
    BETWEEN_TOOLS = "between_tools"
    """Notes between tool calls stay."""
    NEVER = "never"
    """It cannot be; the lowest effort comes nearest."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What one model takes."""

    max_tokens: int
    """The longest answer."""
    off: Off
    is_adaptive: bool = False
    """It decides itself how much to think, guided by an effort."""
    takes_budget: bool = False
    """Thinking can be given a fixed budget; without `is_adaptive` it must."""
    thinks_by_default: bool = False
    takes_temperature: bool = False
    takes_forced_call: bool = True
    takes_schema: bool = True
    takes_images: bool = True
    binds_thinking: bool = False
    """Its thinking goes back only as long as nothing before it has changed; else it must be allowed to drop it."""


_ANY = ""
_TABLE: Sequence[tuple[str, tuple[int, int], Traits]] = (
    (
        "fable|mythos",
        (5, 1),
        Traits(128_000, Off.NEVER, True, thinks_by_default=True, takes_forced_call=False, binds_thinking=True),
    ),
    ("fable|mythos", (0, 0), Traits(128_000, Off.NEVER, True, thinks_by_default=True)),
    (
        "opus",
        (5, 5),
        Traits(128_000, Off.NEVER, True, thinks_by_default=True, takes_forced_call=False, binds_thinking=True),
    ),
    (
        "sonnet",
        (5, 5),
        Traits(128_000, Off.BETWEEN_TOOLS, True, thinks_by_default=True, takes_forced_call=False, binds_thinking=True),
    ),
    (_ANY, (5, 5), Traits(128_000, Off.DISABLED, True, thinks_by_default=True, binds_thinking=True)),
    (_ANY, (5, 0), Traits(128_000, Off.DISABLED, True, thinks_by_default=True)),
    (_ANY, (4, 7), Traits(128_000, Off.OMITTED, True)),
    (_ANY, (4, 6), Traits(128_000, Off.OMITTED, True, takes_budget=True, takes_temperature=True)),
    (_ANY, (4, 5), Traits(64_000, Off.OMITTED, takes_budget=True, takes_temperature=True)),
    (_ANY, (4, 0), Traits(32_000, Off.OMITTED, takes_budget=True, takes_temperature=True, takes_schema=False)),
    (_ANY, (3, 7), Traits(32_000, Off.OMITTED, takes_budget=True, takes_temperature=True, takes_schema=False)),
    (_ANY, (3, 5), Traits(8_192, Off.OMITTED, takes_temperature=True, takes_schema=False)),
    (_ANY, (0, 0), Traits(4_096, Off.OMITTED, takes_temperature=True, takes_schema=False)),
)
"""The first row whose family fits and whose version is not newer than the model's."""

_STRANGER = Traits(
    8_192,
    Off.DISABLED,
    takes_budget=True,
    takes_temperature=True,
    takes_forced_call=False,
    takes_schema=False,
    takes_images=False,
)
"""Other makers' models that speak this API."""


def find_traits(model: str) -> Traits:
    """What the model of that name takes."""
    found = _OLD_NAME.search(model) or _NAME.search(model)
    if found is None:
        return _STRANGER
    version = (int(found["major"] or 0), int(found["minor"] or 0))
    family = found["family"].lower()
    return next(traits for families, since, traits in _TABLE if re.search(families, family) and version >= since)
