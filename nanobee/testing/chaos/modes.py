"""Modes: the ways in which messages pass through a gateway, and the points that they pass."""

from enum import StrEnum


class Mode(StrEnum):
    """What happens to the messages of a round."""

    PLAIN = "plain"
    """One completion, one answer."""
    TOOLS = "tools"
    """File tools, an edit that shows when it is made twice, and the `message` tool."""
    MULTI_PART = "multi-part"
    """Answers too long for one platform message."""
    STREAMED = "streamed"
    """Answers shown while they grow, as a message that is edited."""
    SUSPENDED = "suspended"
    """The model asks questions, which are answered after a kill."""
    STEERED = "steered"
    """Messages are taken into the turn that runs."""
    STOPPED = "stopped"
    """`/stop` in the middle of a turn, `/resume` for what waited."""


_EVERYWHERE = (
    "receive.stored",
    "receive.committed",
    "claim.stored",
    "finish.stored",
    "finish.committed",
    "sending.committed",
    "send.done",
    "sent.stored",
    "lines.appended",
    "lines.synced",
)
_RECORD = ("record.stored", "record.committed")
_MORE = {
    Mode.TOOLS: _RECORD,
    Mode.STREAMED: ("stream.shown", "stream.committed"),
    Mode.SUSPENDED: ("suspend.stored", "suspend.committed", *_RECORD),
    Mode.STEERED: ("steer.stored", *_RECORD),
    Mode.STOPPED: ("stop.stored", "stop.committed"),
}
POINTS: dict[Mode, tuple[str, ...]] = {mode: (*_EVERYWHERE, *_MORE.get(mode, ())) for mode in Mode}
"""The checkpoints that each mode passes."""
NEVER_PASSED = ("resolve.stored",)
"""The channel of these rounds hands every message in complete."""
