"""Surrogates: halves of characters that some models write and no server accepts."""

import json
import re

from nanobee.arguments import clean_text
from nanobee.providers.json_reading import read_json

_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")


def clean_json_text(arguments: str) -> str:
    """JSON text without halves, written out or as escapes; broken JSON stays broken."""
    arguments = clean_text(arguments)
    if _ESCAPED.search(arguments) is None:
        return arguments
    value = read_json(arguments)
    return arguments if value is None else clean_text(json.dumps(value, ensure_ascii=False))


class SurrogateJoiner:
    """Joins halves over the fragments of one stream."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        """The text that is complete; a first half at its end waits for the next fragment."""
        text = self._half + text
        self._half = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            self._half, text = text[-1], text[:-1]
        return clean_text(text)

    def finish(self) -> str:
        """What still waits, now that nothing follows."""
        rest = clean_text(self._half)
        self._half = ""
        return rest
