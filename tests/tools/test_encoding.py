import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobee.tools.encoding import detect_encoding, name_binary

CHINESE = "会议纪要：明天上午九点在三楼开会，请带上季度报告。\n"


@pytest.mark.parametrize(
    ("raw", "codec", "mark"),
    [
        (b"", "utf-8", b""),
        (b"plain\n", "utf-8", b""),
        (CHINESE.encode(), "utf-8", b""),
        (CHINESE.encode()[:10], "utf-8", b""),
        (b"\xef\xbb\xbfmarked", "utf-8", b"\xef\xbb\xbf"),
        (CHINESE.encode("gbk"), "gb18030", b""),
        (b"mostly ASCII \xc4\xe3\xba\xc3", "gb18030", b""),
        (CHINESE.encode("gbk")[:11], "gb18030", b""),
        (CHINESE.encode() + b"\xe4\xbd" + CHINESE.encode(), "utf-8", b""),
        (CHINESE.encode()[1:], "utf-8", b""),
        (b"caf\xe9 au lait", "utf-8", b""),
        (b"\xff\xfe" + CHINESE.encode("utf-16-le"), "utf-16-le", b"\xff\xfe"),
        (b"\xfe\xff" + CHINESE.encode("utf-16-be"), "utf-16-be", b"\xfe\xff"),
    ],
)
def test_an_encoding_is_told_from_the_bytes(raw: bytes, codec: str, mark: bytes) -> None:
    encoding = detect_encoding(raw)
    assert (encoding.codec, encoding.mark) == (codec, mark)


@pytest.mark.parametrize("codec", ["utf-8", "gbk", "gb18030"])
def test_text_comes_back_as_it_was(codec: str) -> None:
    raw = CHINESE.encode(codec)
    encoding = detect_encoding(raw)
    assert encoding.decode(raw) == CHINESE
    assert encoding.encode(CHINESE) == raw


@given(st.binary(max_size=200))
def test_no_byte_is_lost_where_utf_8_is_assumed(raw: bytes) -> None:
    encoding = detect_encoding(raw)
    if encoding.codec == "utf-8":
        assert encoding.encode(encoding.decode(raw)) == raw


@given(st.binary(max_size=200), st.integers(min_value=1, max_value=7))
def test_reading_in_blocks_never_fails(raw: bytes, size: int) -> None:
    decoder = detect_encoding(raw).create_decoder()
    text = "".join(decoder.decode(raw[at : at + size]) for at in range(0, len(raw), size))
    assert isinstance(text + decoder.decode(b"", final=True), str)


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b"\x89PNG\r\n\x1a\n" + b"\x00" * 9, "a PNG image"),
        (b"\xff\xd8\xff\xe0JFIF", "a JPEG image"),
        (b"%PDF-1.7\n", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive or Office document"),
        (b"text, then\x00", "a binary file"),
        (b"\x01\x02\x03\x04\x05\x06\x07\x0e", "a binary file"),
        (b"", None),
        (b"\tplain \x1b[1mtext\x1b[0m\r\n", None),
        (CHINESE.encode("gbk"), None),
        (b"\xff\xfea\x00", None),
        (b"\xff\xfe\x80 caf\xe9", None),
    ],
)
def test_binary_is_named(raw: bytes, name: str | None) -> None:
    assert name_binary(raw) == name
