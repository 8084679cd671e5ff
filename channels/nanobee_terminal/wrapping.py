"""Wrapping: where a line of Chinese or Japanese may break, told to a library that breaks at spaces.

rich takes a run of such text for one long word. A mark that it counts as a space without width
stands at each place where a break is allowed, and is taken out again once the lines are made.
"""

import re

_MARK = "\x1f"
_WIDE = (
    "\u2e80-\u303f\u3040-\u30ff\u3100-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff65\U00020000-\U0003ffff"
)
_NOT_AT_START = re.escape("，。、；：？！）》」』】〉〕…—～·％,.;:?!)]}%”’")
_NOT_AT_END = re.escape("（《「『【〈〔([{“‘")
_BREAK = re.compile(
    rf"(?<=[{_WIDE}])(?<![{_NOT_AT_END}])(?=[^\s{_NOT_AT_START}])"
    rf"|(?<=[^\s{_NOT_AT_END}])(?=[{_WIDE}])(?![{_NOT_AT_START}])"
)


def mark_breaks(text: str) -> str:
    """`text` with a mark wherever a line may break beside a wide character."""
    return text if text.isascii() else _BREAK.sub(_MARK, text)


def unmark_breaks(text: str) -> str:
    """`text` as it was before `mark_breaks`."""
    return text.replace(_MARK, "")
