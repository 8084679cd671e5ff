"""Control characters: made visible or dropped before a text may reach a terminal.

A model repeats what web pages and files told it, and a terminal obeys what it is sent: an escape
sequence in an answer could rewrite the screen, the window's title or the clipboard.
"""

_KEPT = "\n\t"
_PICTURES = 0x2400
"""The Unicode block that has a visible picture for each C0 control."""
_REPLACEMENT = "\ufffd"
_REORDERING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Marks that show a text in another order than it is read in."""

_TABLE: dict[int, str | None] = {code: chr(_PICTURES + code) for code in range(0x20) if chr(code) not in _KEPT}
_TABLE |= dict.fromkeys(range(0x80, 0xA0), _REPLACEMENT)
_TABLE |= dict.fromkeys(map(ord, _REORDERING))
_TABLE[0x7F] = "\u2421"


def clean_text(text: str) -> str:
    """`text` with newlines and tabs as its only controls, and without lone surrogates."""
    if text.isascii() and text.isprintable():
        return text
    return replace_surrogates(text.replace("\r\n", "\n").replace("\r", "\n").translate(_TABLE))


def clean_line(text: str) -> str:
    """`text` cleaned and on one line."""
    return " ".join(clean_text(text).split())


def replace_surrogates(text: str) -> str:
    """`text` that can be encoded: what a terminal sent in no valid encoding becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
