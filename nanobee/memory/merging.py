"""Merging: what one writer changed in a text, applied to what the text has become meanwhile.

By whole lines, without conflicts: lines that the change added and that are not there are put in
their place, lines that it removed and that are still there go. Applying a change twice is the same
as once, so that a replay after a crash does no harm.
"""

from difflib import SequenceMatcher


def merge(base: str, update: str, current: str) -> str:
    """`current` with the change from `base` to `update` in it."""
    if current in (base, update):
        return update
    old, new, lines = (text.rstrip("\n").split("\n") for text in (base, update, current))
    changes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    before, after = set(old), set(new)
    place = 0
    for tag, old_start, old_end, new_start, new_end in changes:
        if tag == "equal":
            place = _after(lines, old[old_start:old_end], place)
            continue
        for line in old[old_start:old_end]:
            if line.strip() and line not in after and line in lines:
                place = lines.index(line)
                del lines[place]
        # A line that only moved is where somebody else has left it.
        added = [line for line in new[new_start:new_end] if line.strip() and line not in (*before, *lines)]
        if added:
            lines[place:place] = new[new_start:new_end] if len(added) == new_end - new_start else added
            place += len(added)
    return "\n".join(lines).rstrip("\n") + "\n"


def _after(lines: list[str], kept: list[str], place: int) -> int:
    """Behind the last of the kept lines that is still there."""
    for line in reversed(kept):
        if line.strip() and line in lines:
            return len(lines) - lines[::-1].index(line)
    return place
