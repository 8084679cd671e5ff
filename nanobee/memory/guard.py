"""Guard: whether an update of MEMORY.md may be taken as it is, and what to make of it where it may not."""

from collections.abc import Sequence
from dataclasses import dataclass

from nanobee.memory.entries import bullet_text, facts, is_fact
from nanobee.memory.memory_file import append_fact
from nanobee.memory.words import overlap, tokens

KEPT_OVERLAP = 0.6
"""Of a fact's tokens that stand in the update, from which on the fact is taken to be in it, in whatever words."""
MAX_LOST_SHARE = 0.3
"""Of the facts' text that an update may lose without being asked about it."""
MAX_CONFIRMED_SHARE = 0.5
"""Of the facts' text that an update may lose at all."""
MAX_SHOWN_FACTS = 60


@dataclass(frozen=True, slots=True)
class Loss:
    """What an update does not say any more."""

    facts: tuple[str, ...]
    share: float
    """Of the text of all facts: 0 to 1."""


def find_loss(base: str, update: str) -> Loss:
    """The facts of `base` that are not in `update`."""
    known = facts(base.split("\n"))
    there = frozenset(tokens(update))
    lost = tuple(fact for fact in known if overlap(fact, there) < KEPT_OVERLAP)
    total = sum(map(len, known))
    return Loss(lost, sum(map(len, lost)) / total if total else 0.0)


def fits(base: str, update: str, max_chars: int) -> bool:
    """Whether it is short enough; one that only shortens what was too long already is."""
    return len(update) <= max(max_chars, len(base) if update != base else 0)


def needs_asking(base: str, update: str, max_chars: int) -> bool:
    """Whether the model must be asked again before this is believed."""
    return find_loss(base, update).share > MAX_LOST_SHARE or not fits(base, update, max_chars)


def settle(base: str, update: str, max_chars: int) -> str:
    """What MEMORY.md becomes after the model has been asked again and gave this.

    An update that still loses too much only adds its new facts; one that is still too long adds
    none, and is in HISTORY.md alone.
    """
    if find_loss(base, update).share > MAX_CONFIRMED_SHARE:
        update = _add_only(base, update)
    return update if fits(base, update, max_chars) else base


def _add_only(base: str, update: str) -> str:
    there = frozenset(tokens(base))
    for line in filter(is_fact, update.split("\n")):
        fact = bullet_text(line)
        if overlap(fact, there) < 1.0:
            base = append_fact(base, fact)
    return base


def list_facts(lost: Sequence[str]) -> str:
    """The facts for the model, one a line."""
    shown = [f"- {fact}" for fact in lost[:MAX_SHOWN_FACTS]]
    more = len(lost) - len(shown)
    return "\n".join(shown + ([f"(and {more} more)"] if more else []))
