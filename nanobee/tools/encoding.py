"""Encoding: how the text of a file is stored, told from its bytes, so that an edit can keep it."""

import codecs
from dataclasses import dataclass

SAMPLE_BYTES = 2 * 1024 * 1024
"""How much of a file its encoding is told from; no larger file is edited, so reading and editing agree."""
MAX_CONTROL_SHARE = 0.05
"""More control characters than this are not text."""

_TEXT_CONTROLS = frozenset(b"\t\n\r\f\b\x1b")
_CONTROLS = bytes(code for code in range(32) if code not in _TEXT_CONTROLS)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8", "surrogateescape"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "strict"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "strict"),
)
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive or Office document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x7fELF", "an ELF program"),
    (b"SQLite format 3\x00", "an SQLite database"),
)


@dataclass(frozen=True, slots=True)
class Encoding:
    """A codec, and the byte-order mark that stood before the text."""

    codec: str
    errors: str = "strict"
    mark: bytes = b""

    def decode(self, raw: bytes) -> str:
        """The text without its mark. Bytes that are not UTF-8 become lone surrogates, which `encode` turns back.

        Raises:
            UnicodeDecodeError: the bytes are not of this codec.
        """
        return raw.removeprefix(self.mark).decode(self.codec, self.errors)

    def encode(self, text: str) -> bytes:
        """The bytes of `text`, mark included."""
        return self.mark + text.encode(self.codec, self.errors)

    def create_decoder(self) -> codecs.IncrementalDecoder:
        """For reading in blocks, to be shown: it never fails."""
        return codecs.getincrementaldecoder(self.codec)("surrogateescape" if self.codec == "utf-8" else "replace")


def name_binary(sample: bytes) -> str | None:
    """What a file is that is not text, `a PNG image`; None for text."""
    for signature, name in _SIGNATURES:
        if sample.startswith(signature):
            return name
    if any(sample.startswith(mark) for mark, codec, _ in _MARKS if codec != "utf-8"):
        return None
    if b"\x00" in sample:
        return "a binary file"
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    return "a binary file" if controls > MAX_CONTROL_SHARE * len(sample) else None


def detect_encoding(sample: bytes) -> Encoding:
    """The encoding of a text: by its mark, else UTF-8, else GBK (as its superset GB18030), else damaged UTF-8.

    `sample` may end inside a character.
    """
    for mark, codec, errors in _MARKS:
        if sample.startswith(mark):
            return Encoding(codec, errors, mark)
    utf8 = Encoding("utf-8", "surrogateescape")
    if _is_valid(sample, "utf-8"):
        return utf8
    # Damaged UTF-8 often passes as GBK, but then most of its characters are still whole.
    shown = utf8.create_decoder().decode(sample)
    damaged = sum("\udc80" <= character <= "\udcff" for character in shown)
    whole = sum(character > "\x7f" for character in shown) - damaged
    if damaged > whole and _is_valid(sample, "gb18030"):
        return Encoding("gb18030")
    return utf8


def _is_valid(sample: bytes, codec: str) -> bool:
    try:
        codecs.getincrementaldecoder(codec)().decode(sample)
    except UnicodeDecodeError:
        return False
    return True
