"""edit_file: one text for another in a file, all else byte for byte as it was."""

import os

from nanobee.errors import ToolError
from nanobee.tools.decorator import tool
from nanobee.tools.encoding import SAMPLE_BYTES, Encoding, detect_encoding, name_binary
from nanobee.tools.files_read import open_text, read_bytes
from nanobee.tools.files_write import replace_file
from nanobee.tools.paths import Place, open_place
from nanobee.tools.replacement import replace_text
from nanobee.tools.tool import ToolContext


@tool
def edit_file(context: ToolContext, path: str, old_text: str, new_text: str, replace_all: bool = False) -> str:
    """Replace a text in a file of the workspace. It must occur once, and be given exactly as read_file shows it.

    Args:
        path: Relative to the workspace.
        old_text: What to replace, with enough around it to be the only such place.
        new_text: What to put there instead.
        replace_all: Replace each place where old_text occurs.
    """
    with open_place(context.view, path, for_writing=True) as place:
        found, raw = _load(place)
        encoding, text = _decode(place, raw)
        replaced = replace_text(text, old_text, new_text, replace_all)
        new_raw = encoding.encode(replaced.text)
        if len(new_raw) > SAMPLE_BYTES:
            raise ToolError(f"{place.path}: would grow to {len(new_raw):,} bytes; {SAMPLE_BYTES:,} are allowed")
        replace_file(place, new_raw, found)
        places = "" if replaced.places == 1 else f"{replaced.places:,} places, first at "
        return f"Edited {place.path} ({places}line {replaced.first_line})."


def _load(place: Place) -> tuple[os.stat_result, bytes]:
    descriptor, size_bytes = open_text(place)
    try:
        found = os.fstat(descriptor)
        raw = read_bytes(descriptor, SAMPLE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(raw) > SAMPLE_BYTES:
        raise ToolError(f"{place.path}: has {size_bytes:,} bytes; edit_file takes up to {SAMPLE_BYTES:,}")
    return found, raw


def _decode(place: Place, raw: bytes) -> tuple[Encoding, str]:
    if kind := name_binary(raw):
        raise ToolError(f"{place.path}: is {kind}, not text; it cannot be edited")
    encoding = detect_encoding(raw)
    try:
        text = encoding.decode(raw)
        is_kept = encoding.encode(text) == raw
    except UnicodeError:
        is_kept = False
    if not is_kept:
        raise ToolError(f"{place.path}: is not sound {encoding.codec}; an edit would change other parts of it")
    return encoding, text
