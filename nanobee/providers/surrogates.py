"""Surrogates: halves of characters that some models write and no server accepts."""

import json
import re

from nanobee.providers.json_reading import read_json

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")


def join_surrogates(text: str) -> str:
    """Make two halves one character again, and a half that stands alone U+FFFD."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def join_escaped_surrogates(arguments: str) -> str:
    """The same for JSON text, where halves may also be written as escapes; broken JSON stays broken."""
    arguments = join_surrogates(arguments)
    if _ESCAPED.search(arguments) is None:
        return arguments
    value = read_json(arguments)
    return arguments if value is None else join_surrogates(json.dumps(value, ensure_ascii=False))


class SurrogateJoiner:
    """Joins halves over the fragments of one stream."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        """The text that is complete; a first half at its end waits for the next fragment."""
        if not self._half and _SURROGATE.search(text) is None:
            return text
        text = self._half + text
        self._half = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            self._half, text = text[-1], text[:-1]
        return join_surrogates(text)

    def finish(self) -> str:
        """What still waits, now that nothing follows."""
        rest = join_surrogates(self._half)
        self._half = ""
        return rest
