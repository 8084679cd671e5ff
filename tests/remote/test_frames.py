"""What goes over the socket is read back as it was written, and nothing else is taken for it."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobee.channel import Arrival, Lane, Receipt
from nanobee.messages import Address, Attachment, InboundMessage, LivePart, OutboundPart, PartKind
from nanobee.remote.frames import (
    VERSION,
    Frame,
    Hello,
    Leave,
    NotReceived,
    Receive,
    Received,
    Refusal,
    Refused,
    Said,
    Welcome,
    decode_frame,
    encode_frame,
)
from nanobee.remote.parts import Failed, Live, Outcome, Send, Shown

ADDRESS = Address("terminal", "a:b%", "7")
PICTURE = Attachment("image", "x.png", "media/x.png", "image/png", 12)
MESSAGE = InboundMessage(ADDRESS, "local", "hi\n\x00 ü 😀", datetime.now(UTC), "Ann", "s1", "s0", "quoted", (PICTURE,))
PART = OutboundPart(7, ADDRESS, "text", PartKind.QUESTION, 1, 3, "t1", "s1", (PICTURE,), "t1/final/1", 4, ("m1", "m2"))
FRAMES: list[Frame] = [
    Hello(VERSION, ADDRESS.session_key),
    Hello(VERSION, ADDRESS.session_key, wakes=True),
    Receive(3, (Said("e1", "local", Lane.CONTROL, MESSAGE), Said("e2", "local", Lane.USER, MESSAGE))),
    Shown(7, ("7",)),
    Failed(7, Outcome.NOT_SENT, "closed"),
    Leave(),
    Welcome(12, "main/x"),
    Refused(12, Refusal.FULL),
    Received(3, (Receipt.STORED, Receipt.DUPLICATE, Receipt.FULL)),
    NotReceived(3, "the disk is full"),
    Send(PART),
    Live(LivePart(ADDRESS, "t1", 2, "s1", "read_file x", ("m1",)), "so far"),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_a_frame_is_one_line_and_comes_back_as_it_was(frame: Frame) -> None:
    line = encode_frame(frame)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode_frame(line) == frame


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    frame = Live(LivePart(ADDRESS, "t"), text)
    assert decode_frame(encode_frame(frame)) == frame


def test_a_lone_surrogate_costs_that_character_only() -> None:
    assert decode_frame(encode_frame(NotReceived(1, "a\ud800b"))) == NotReceived(1, "a?b")


def test_an_arrival_comes_back_without_its_raw_event() -> None:
    arrival = Arrival("e1", ADDRESS.session_key, "local", Lane.USER, {"raw": 1}, source_id="s1", message=MESSAGE)
    back = Said.from_arrival(arrival).to_arrival()
    assert back == Arrival("e1", ADDRESS.session_key, "local", Lane.USER, {}, source_id="s1", message=MESSAGE)


def test_an_arrival_that_only_its_own_channel_could_complete_is_not_handed_on() -> None:
    with pytest.raises(ValueError, match="whole messages"):
        Said.from_arrival(Arrival("e1", "terminal:x", "local", Lane.USER, {}))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"kind":"unheard of"}',
        b'{"kind":["hello"]}',
        b'{"kind":"hello","version":"x","session_key":"a:b"}',
        b'{"kind":"hello","version":1}',
        b'{"kind":"shown","part_id":1}',
        b'{"kind":"failed","part_id":1,"outcome":"perhaps","reason":""}',
        b'{"kind":"receive","number":1,"said":[{"event_key":"e"}]}',
        b'{"kind":"send","part":{"id":1}}',
        b'{"kind":"leave"',
        b"[" * 100_000,
    ],
)
def test_what_is_no_frame_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="validation error"):
        decode_frame(line)


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(line: bytes) -> None:
    try:
        decode_frame(line)
    except ValueError:
        return
    raise AssertionError("taken for a frame")


def test_fields_of_a_later_version_are_skipped() -> None:
    assert decode_frame(b'{"kind":"leave","why":"because"}') == Leave()
