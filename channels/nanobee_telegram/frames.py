"""Frames: what one look at a growing answer shows. Pure."""

from nanobee_telegram.text import MAX_UNITS, TAB_SPACES, clean, utf16_units

TAIL_MARK = "… "
"""Stands before the end of a text that is too long to be shown whole."""
ACTIVITY_MARK = "⏳ "
MAX_ACTIVITY_UNITS = 200


def frame_text(text: str, activity: str | None) -> str:
    """The end of what was written so far, and what the agent does meanwhile; empty where there is neither."""
    foot = "" if activity is None else ACTIVITY_MARK + _first_units(clean(activity).strip(), MAX_ACTIVITY_UNITS)
    room = MAX_UNITS - utf16_units(foot) - 2
    # Each character has a unit at least, so more of them than units need not be looked at.
    is_long = len(text) > room
    body = clean(text[-room:] if is_long else text).expandtabs(TAB_SPACES).strip()
    if is_long or utf16_units(body) > room:
        body = TAIL_MARK + _last_units(body, room - len(TAIL_MARK))
    return "\n\n".join(part for part in (body, foot) if part)


def draft_id(turn: str) -> int:
    """The number of a turn's draft, the same after a restart; never 0, which Telegram refuses."""
    from zlib import crc32

    return crc32(turn.encode()) & 0x7FFFFFFF or 1


def _first_units(text: str, max_units: int) -> str:
    while utf16_units(text) > max_units:
        text = text[: -max(1, (utf16_units(text) - max_units) // 2)]
    return text


def _last_units(text: str, max_units: int) -> str:
    while utf16_units(text) > max_units:
        text = text[max(1, (utf16_units(text) - max_units) // 2) :]
    return text.lstrip()
