import json
from datetime import UTC, datetime

import pytest

from nanobee.errors import (
    ContextLengthError,
    ProviderAuthError,
    ProviderError,
    RateLimitError,
    RequestRefusedError,
    ServerFaultError,
)
from nanobee.messages import Json
from nanobee.providers.faults import Refusal, quote_server, read_error, read_refusal, read_retry_after, sort_refusal

KEY = "sk-canary-0123456789"


def sort(status: int, body: Json = None, retry_after: float | None = None) -> ProviderError:
    return sort_refusal(read_refusal(status, json.dumps(body).encode(), retry_after), "Provider main", KEY)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, RequestRefusedError),
        (400, RequestRefusedError),
        (401, ProviderAuthError),
        (402, RateLimitError),
        (403, ProviderAuthError),
        (404, RequestRefusedError),
        (405, RequestRefusedError),
        (408, ServerFaultError),
        (413, ContextLengthError),
        (422, RequestRefusedError),
        (429, RateLimitError),
        (500, ServerFaultError),
        (502, ServerFaultError),
        (503, ServerFaultError),
        (529, ServerFaultError),
    ],
)
def test_o08_a_status_alone_sorts_an_error(status: int, kind: type[ProviderError]) -> None:
    assert type(sort(status)) is kind


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, {"code": "context_length_exceeded", "type": "invalid_request_error"}, ContextLengthError),
        (400, {"code": 400, "type": "exceed_context_size_error"}, ContextLengthError),
        (500, {"code": 500, "type": "exceed_context_size_error"}, ContextLengthError),
        (413, {"code": "rate_limit_exceeded"}, RateLimitError),
        (403, {"code": "insufficient_quota"}, RateLimitError),
        (400, {"type": "invalid_authentication_error"}, ProviderAuthError),
        (400, {"code": "something_new", "type": "invalid_request_error"}, RequestRefusedError),
    ],
)
def test_a_code_sorts_before_the_status(status: int, error: Json, kind: type[ProviderError]) -> None:
    assert type(sort(status, {"error": error})) is kind


@pytest.mark.parametrize("message", ["maximum context length is 8192", "rate limit", "invalid api key", "overloaded"])
def test_the_words_of_a_message_sort_nothing(message: str) -> None:
    assert type(sort(400, {"error": {"message": message}})) is RequestRefusedError


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "no such model"}},
        {"error": "no such model"},
        [{"error": {"message": "no such model"}}],
        {"object": "error", "message": "no such model", "code": 404},
        {"detail": "no such model"},
    ],
)
def test_a_servers_own_words_are_found_in_every_shape(body: Json) -> None:
    assert str(sort(404, body)) == "Provider main refuses this request (404): no such model"


@pytest.mark.parametrize(
    "body", [None, [], {}, "text", 5, {"error": None}, {"error": 5}, {"detail": [{"loc": []}]}, [5]]
)
def test_a_body_of_any_shape_is_survived(body: Json) -> None:
    assert str(sort(422, body)) == "Provider main refuses this request (422)."


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"<html>", b'{"error": {"mess', b"[" * 100_000])
def test_a_body_that_is_no_json_is_survived(body: bytes) -> None:
    assert read_refusal(404, body) == Refusal(404)


def test_an_error_inside_a_stream_is_sorted_by_its_code() -> None:
    assert type(sort_refusal(read_error({"code": 429, "message": "slow"}), "P")) is RateLimitError
    assert type(sort_refusal(read_error({"code": "rate_limit_exceeded"}), "P")) is RateLimitError
    assert type(sort_refusal(read_error({"code": True}), "P")) is ServerFaultError
    assert type(sort_refusal(read_error("out of memory"), "P")) is ServerFaultError


def test_the_key_is_in_no_text() -> None:
    for status in (400, 401, 429, 500):
        assert KEY not in str(sort(status, {"error": {"message": f"you sent {KEY} to us"}}))
    assert "sk-" not in str(sort(401, {"error": {"message": "Incorrect API key provided: sk-can***789"}}))


@pytest.mark.parametrize(
    ("message", "quote"),
    [
        ("plain  words\n\nof a server\x00\x1b[31m", "plain words of a server [31m"),
        ("a < b and 3 > 2", "a < b and 3 > 2"),
        ("<html><body>no</body></html>", ""),
        ("see <!DOCTYPE html>", ""),
        ("x" * 201, "x" * 199 + "…"),
    ],
)
def test_o06_a_quote_is_one_short_line_without_markup(message: str, quote: str) -> None:
    assert quote_server(message) == quote


def test_o06_a_huge_message_makes_a_short_text() -> None:
    assert len(str(sort(400, {"error": {"message": "word " * 100_000}}))) < 500


def now() -> datetime:
    return datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "3600"}, 3600.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 -0000"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_o08_the_servers_wait_is_read_from_seconds_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert read_retry_after(headers, now) == seconds


@pytest.mark.parametrize("status", [429, 503])
def test_o08_the_servers_wait_goes_with_the_error(status: int) -> None:
    error = sort(status, None, 7.0)
    assert isinstance(error, RateLimitError | ServerFaultError)
    assert error.retry_after_seconds == 7.0
