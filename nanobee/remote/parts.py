"""Parts: what a terminal is given to show, and what it tells of it, with or without a socket between."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from nanobee.messages import LivePart, OutboundPart


@dataclass(frozen=True, slots=True)
class Send:
    """A part to show; it is answered by `Shown` or `Failed`."""

    part: OutboundPart
    kind: Literal["send"] = "send"


@dataclass(frozen=True, slots=True)
class Live:
    """The whole text so far of an answer under way; the latest one is enough."""

    part: LivePart
    text: str
    kind: Literal["live"] = "live"


@dataclass(frozen=True, slots=True)
class Shown:
    """A part stands on the client's screen."""

    part_id: int
    platform_ids: tuple[str, ...]
    kind: Literal["shown"] = "shown"


class Outcome(StrEnum):
    """How the showing of a part failed."""

    NOT_SENT = "not_sent"
    UNKNOWN = "unknown"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Failed:
    """A part could not be shown."""

    part_id: int
    outcome: Outcome
    reason: str
    kind: Literal["failed"] = "failed"
