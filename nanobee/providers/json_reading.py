"""JSON from strangers."""

import json

from nanobee.messages import Json


def read_json(text: str | bytes) -> Json:
    """The value; None where the text is not JSON, or nests deeper than anything meant honestly."""
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value
