"""Frames: what a holder and its clients say to each other, one JSON object a line."""

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from nanobee.channel import Arrival, Lane, Receipt
from nanobee.messages import InboundMessage
from nanobee.remote.parts import Failed, Live, Send, Shown

if TYPE_CHECKING:
    from pydantic import TypeAdapter

VERSION = 1
"""Of this protocol; a holder refuses clients of another version."""


# From a client


@dataclass(frozen=True, slots=True)
class Hello:
    """The first frame: what the client wants."""

    version: int
    session_key: str
    """The conversation that it shows, or the one in which it has changed rows."""
    wakes: bool = False
    """It only tells the holder to look at the session's rows again."""
    kind: Literal["hello"] = "hello"


@dataclass(frozen=True, slots=True)
class Said:
    """An arrival; it always holds its whole message."""

    event_key: str
    sender_id: str
    lane: Lane
    message: InboundMessage

    @classmethod
    def from_arrival(cls, arrival: Arrival) -> "Said":
        """What goes over the socket of an arrival.

        Raises:
            ValueError: it has no message: only the channel in the holder could complete it.
        """
        if arrival.message is None:
            raise ValueError("a client hands in whole messages")
        return cls(arrival.event_key, arrival.sender_id, arrival.lane, arrival.message)

    def to_arrival(self) -> Arrival:
        """The inverse."""
        return Arrival(
            event_key=self.event_key,
            session_key=self.message.address.session_key,
            sender_id=self.sender_id,
            lane=self.lane,
            raw={},
            source_id=self.message.source_id,
            message=self.message,
        )


@dataclass(frozen=True, slots=True)
class Receive:
    """Arrivals to be stored."""

    number: int
    """Counted by the client; it comes back with the receipts."""
    said: tuple[Said, ...]
    kind: Literal["receive"] = "receive"


@dataclass(frozen=True, slots=True)
class Leave:
    """The client shows nothing more; it waits until the holder closes the connection."""

    kind: Literal["leave"] = "leave"


# From the holder


@dataclass(frozen=True, slots=True)
class Welcome:
    """The answer to a hello."""

    pid: int
    model: str
    """`provider/model`, as people read it."""
    kind: Literal["welcome"] = "welcome"


class Refusal(StrEnum):
    """Why a client is not taken."""

    VERSION = "version"
    FULL = "full"
    SESSION = "session"
    """The holder shows no session of this channel to clients."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The other answer to a hello; the connection ends."""

    pid: int
    refusal: Refusal
    kind: Literal["refused"] = "refused"


@dataclass(frozen=True, slots=True)
class Received:
    """What became of arrivals: they are on disk, or were refused."""

    number: int
    receipts: tuple[Receipt, ...]
    kind: Literal["received"] = "received"


@dataclass(frozen=True, slots=True)
class NotReceived:
    """Nothing of these arrivals was stored."""

    number: int
    reason: str
    kind: Literal["not_received"] = "not_received"


Frame = Hello | Receive | Shown | Failed | Leave | Welcome | Refused | Received | NotReceived | Send | Live


@cache
def _adapter() -> "TypeAdapter[Frame]":
    from pydantic import Field, TypeAdapter  # only who talks over the socket needs the schemas

    return TypeAdapter(Annotated[Frame, Field(discriminator="kind")])


def encode_frame(frame: Frame) -> bytes:
    """The frame as one line; lone surrogates become `?`."""
    whole: dict[str, Any] = _adapter().dump_python(frame, mode="json")
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def decode_frame(line: bytes) -> Frame:
    """Read a line back; unknown fields are skipped.

    Raises:
        ValueError: it is no frame.
    """
    return _adapter().validate_json(line)
