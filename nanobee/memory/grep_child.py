"""Looks for a pattern in files, as a process of its own that can be ended: a pattern may never come to an end.

Reads one JSON object from standard input (`pattern`, `files`, `limit`), prints a JSON line for each
match as it finds it. Only the standard library is imported, so that it starts at once.
"""

import json
import re
import sys
from collections.abc import Iterator

MAX_LINE_CHARS = 20_000


def main() -> None:
    """Print the matches, the last of each file first."""
    order = json.load(sys.stdin)
    pattern = re.compile(order["pattern"], re.IGNORECASE)
    left = order["limit"]
    for place, path in enumerate(order["files"]):
        for number, text in _texts(path):
            if pattern.search(text[:MAX_LINE_CHARS]):
                sys.stdout.write(json.dumps({"file": place, "line": number, "text": text[:1000]}) + "\n")
                sys.stdout.flush()
                left -= 1
                if left <= 0:
                    return


def _texts(path: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; of a session file, the messages with their `seq`."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            for number, line in enumerate(file, 1):
                if not path.endswith(".jsonl"):
                    yield number, line.rstrip("\n")
                    continue
                try:
                    whole = json.loads(line)
                    if whole.get("role") in ("user", "assistant") or "text" in whole:
                        yield whole.get("seq", number), str(whole.get("content") or whole.get("text") or "")
                except (ValueError, AttributeError, RecursionError):
                    continue
    except OSError:
        return


if __name__ == "__main__":
    main()
