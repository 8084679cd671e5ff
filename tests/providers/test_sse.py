import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobee.errors import MalformedAnswerError
from nanobee.providers import sse
from nanobee.providers.sse import ServerEvent, SseDecoder


def decode(*chunks: bytes) -> list[ServerEvent]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.finish()


def data_of(*chunks: bytes) -> list[str]:
    return [event.data for event in decode(*chunks)]


def test_events_come_in_order() -> None:
    assert data_of(b"data: a\n\ndata: b\n\n") == ["a", "b"]


@pytest.mark.parametrize("comment", [b":\n", b": ping\n", b": ping\n\n", b":\r\n\r\n"])
def test_o04_comments_give_nothing(comment: bytes) -> None:
    assert data_of(comment + b"data: a\n\n" + comment) == ["a"]


def test_o04_a_comment_with_a_blank_line_after_an_event_with_an_id_gives_nothing() -> None:
    assert data_of(b"id: 7\ndata: a\n\n: ping\n\n: ping\n\n") == ["a"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_o04_every_line_end_is_understood(end: bytes) -> None:
    assert data_of(b"data: a", end, end, b"data: b", end + end) == ["a", "b"]


def test_o04_a_crlf_cut_in_two_is_one_line_end() -> None:
    assert data_of(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == ["a\nb"]


def test_o04_an_event_is_given_out_before_the_second_half_of_its_line_end() -> None:
    assert SseDecoder().feed(b"data: a\r\n\r") == [ServerEvent("", "a")]


def test_o04_the_space_after_the_colon_may_be_missing() -> None:
    assert data_of(b"data:a\n\ndata:  b\n\n") == ["a", " b"]


def test_o04_a_named_event_tells_its_name() -> None:
    assert decode(b"event: ping\ndata: {}\n\ndata: a\n\n") == [ServerEvent("ping", "{}"), ServerEvent("", "a")]


@pytest.mark.parametrize(
    "empty", [b"event: ping\n\n", b"data:\n\n", b"data\n\n", b"id: 1\n\n", b"retry: 9\n\n", b"\n\n"]
)
def test_o04_an_event_without_data_gives_nothing(empty: bytes) -> None:
    assert data_of(empty + b"data: a\n\n") == ["a"]


def test_o04_a_character_cut_in_two_comes_out_whole() -> None:
    text = "data: 好\n\n".encode()
    for at in range(len(text)):
        assert data_of(text[:at], text[at:]) == ["好"]


def test_several_data_lines_are_one_event() -> None:
    assert data_of(b"data: a\ndata: b\n\n") == ["a\nb"]


def test_the_last_event_needs_no_blank_line() -> None:
    assert data_of(b"data: a\n\ndata: b") == ["a", "b"]


def test_a_byte_order_mark_is_skipped() -> None:
    assert data_of(b"\xef\xbb", b"\xbfdata: a\n\n") == ["a"]


def test_bytes_that_are_no_text_do_not_stop_it() -> None:
    assert data_of(b"data: \xff\xfe\n\ndata: a\n\n") == ["\ufffd\ufffd", "a"]


@pytest.mark.parametrize("chunk", [b"data: xxxxxxxx", b"data: xxxxxxx\n", b": xxxxxxxxxxxx\n"])
def test_an_event_without_end_is_refused(chunk: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    decoder = SseDecoder()
    for _ in range(1000 // len(chunk)):
        decoder.feed(chunk)
    with pytest.raises(MalformedAnswerError):
        decoder.feed(chunk)


def test_many_events_are_no_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    decoder = SseDecoder()
    assert sum(len(decoder.feed(b"data: xxxxxxxxxxxx\n\n")) for _ in range(1000)) == 1000


LINES = st.sampled_from(["data: 好的", "data:x", "data", ":", ": ping", "event: e", "id: 1", "", "", "nonsense"])


@given(st.lists(LINES), st.sampled_from(["\n", "\r\n", "\r"]), st.data())
def test_any_cut_of_the_bytes_gives_the_same_events(lines: list[str], end: str, data: st.DataObject) -> None:
    whole = end.join(lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    chunks = [whole[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert decode(*chunks) == decode(whole)
