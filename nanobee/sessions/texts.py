"""Texts: every text inside a session line's data, in whatever it is wrapped."""

import json
from collections.abc import Iterator


def texts(value: object) -> Iterator[str]:
    """Every text inside a JSON value, and inside the JSON that such a text may be."""
    if isinstance(value, str):
        yield value
        if value.startswith(("{", "[")):
            try:
                yield from texts(json.loads(value))
            except (ValueError, RecursionError):
                return
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts(each)
