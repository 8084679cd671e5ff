"""list_dir: what is in a folder."""

import os
import stat
from itertools import islice

from nanobee.errors import ToolError
from nanobee.tools.decorator import tool
from nanobee.tools.paths import open_place
from nanobee.tools.tool import ToolContext

MAX_ENTRIES = 200
"""Entries that one call shows."""
MAX_SCANNED_ENTRIES = 100_000
"""Entries of one folder that are looked at and sorted."""


@tool(parallel_safe=True, idempotent=True)
def list_dir(context: ToolContext, path: str = ".", offset: int = 1) -> str:
    """List a folder of the workspace, sorted by name. `/` marks folders, `@` links; files have their size in bytes.

    Args:
        path: Relative to the workspace.
        offset: First entry to show, for reading on in a big folder; entries count from 1.
    """
    if offset < 1:
        raise ToolError("offset counts from 1")
    with open_place(context.view, path) as place:
        directory = place.open(os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(directory) as entries:
                found = (entry.name for entry in entries if entry.name.casefold() not in place.hidden)
                names = sorted(islice(found, MAX_SCANNED_ENTRIES))
            shown = names[offset - 1 : offset - 1 + MAX_ENTRIES]
            lines = [_describe_entry(name, directory) for name in shown]
        finally:
            os.close(directory)
        if end := _describe_end(len(names), offset, len(shown)):
            lines.append(end)
        return "\n".join(lines)


def _describe_entry(name: str, directory: int) -> str:
    printable = "".join(character if character.isprintable() else "\ufffd" for character in name)
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return printable
    if stat.S_ISDIR(found.st_mode):
        return f"{printable}/"
    if stat.S_ISLNK(found.st_mode):
        return f"{printable}@"
    return f"{printable}  {found.st_size:,}"


def _describe_end(total: int, offset: int, shown: int) -> str:
    if total == 0:
        return "[the folder is empty]"
    if shown == 0:
        return f"[nothing there: the folder has {total:,} entries]"
    last = offset + shown - 1
    if last >= total:
        return ""
    at_least = "at least " if total == MAX_SCANNED_ENTRIES else ""
    return f"[cut: {last:,} of {at_least}{total:,} entries; read on with offset={last + 1}]"
