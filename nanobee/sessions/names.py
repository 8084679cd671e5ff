"""Names: a session key as a path below the sessions folder, coded reversibly.

The path has only `a-z 0-9 - _ .` and `%xx` (lower-case hex of UTF-8 bytes), so that two keys never
share a file, also where the file system folds case. A long key becomes nested folders.
"""

from pathlib import PurePosixPath
from urllib.parse import unquote_to_bytes

SUFFIX = ".jsonl"
SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_.")
CHUNK = 200
"""Bytes of one path component, below the 255 that file systems take."""


def path_of_key(session_key: str) -> PurePosixPath:
    """The file of a session, relative to the sessions folder."""
    data = session_key.encode("utf-8", "surrogatepass")
    coded = "".join(chr(byte) if byte in SAFE else f"%{byte:02x}" for byte in data)
    chunks = [coded[start : start + CHUNK] for start in range(0, len(coded), CHUNK)] or [""]
    # A chunk of dots only would be a special name, and a folder may not look like a session's file.
    folders = [f"{chunk}~" for chunk in chunks[:-1]]
    return PurePosixPath(*folders, f"{chunks[-1]}{SUFFIX}")


def key_of_path(path: PurePosixPath) -> str | None:
    """The session key of a path that `path_of_key` made; None for any other file."""
    *folders, last = path.parts
    if not last.endswith(SUFFIX) or not all(folder.endswith("~") for folder in folders):
        return None
    coded = "".join(folder[:-1] for folder in folders) + last[: -len(SUFFIX)]
    try:
        key = unquote_to_bytes(coded).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return key if path_of_key(key) == path else None
