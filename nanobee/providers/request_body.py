"""The bytes of a request."""

import json

from nanobee.arguments import clean_text
from nanobee.messages import JsonObject


def encode_body(body: JsonObject) -> bytes:
    """The bytes of a request: valid UTF-8, no half of a character in it."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return clean_text(text).encode("utf-8")
