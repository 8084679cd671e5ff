"""Words: a text as the tokens by which memory is searched and compared.

Latin words in lower case; Chinese, Japanese and Korean as pairs of neighboring characters, since
nothing tells where their words end. The last character of a run stands alone too, so that each
character begins a token and a single one can be looked for by prefix.
"""

import re
import unicodedata
from functools import cache

CJK = (
    "\u2e80-\u2fff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
)
"""Character ranges, for a regular expression."""


@cache
def _runs_pattern() -> re.Pattern[str]:
    """Compiled at first use: it takes 9 ms, which a start need not pay."""
    return re.compile(rf"[{CJK}]+|[^\W_{CJK}]+")


@cache
def _cjk_pattern() -> re.Pattern[str]:
    return re.compile(rf"[{CJK}]")


def normalize(text: str) -> str:
    """Full-width forms, ligatures and letter case made one."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def runs(text: str) -> list[str]:
    """The words and the unbroken stretches of CJK characters, in order."""
    return _runs_pattern().findall(normalize(text))


def is_cjk(run: str) -> bool:
    """Whether a run is of CJK characters."""
    return _cjk_pattern().match(run) is not None


def tokens(text: str) -> list[str]:
    """The tokens, in order, with repeats."""
    found: list[str] = []
    for run in runs(text):
        if not is_cjk(run):
            found.append(run)
            continue
        found += [run[at : at + 2] for at in range(len(run) - 1)]
        found.append(run[-1])
    return found


def overlap(part: str, whole: frozenset[str] | set[str]) -> float:
    """How much of `part` stands in the tokens of something else: 0 to 1."""
    own = set(tokens(part))
    return len(own & whole) / len(own) if own else 0.0
