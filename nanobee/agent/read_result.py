"""`read_result`: an old tool result that was left out of the context, read from the session's file."""

from nanobee.bus.lines import LineKind
from nanobee.errors import ToolError
from nanobee.sessions.files import SessionFiles
from nanobee.tools.decorator import tool
from nanobee.tools.tool import Tool, ToolContext

MAX_CHARS = 12_000
"""Of one answer."""
MAX_LINES_BACK = 100_000
"""How far back a result is looked for."""


def create_read_result(files: SessionFiles) -> Tool:
    """The tool on the session files of one state folder."""

    @tool(parallel_safe=True, idempotent=True)
    def read_result(context: ToolContext, call_id: str, offset: int = 0) -> str:
        """Read a tool result of this conversation again that was left out to save space.

        Args:
            call_id: As the line says that stands in its place.
            offset: The character to begin at.
        """
        text = _find(files, context.session_key, call_id)
        part = text[max(offset, 0) : max(offset, 0) + MAX_CHARS]
        end = max(offset, 0) + len(part)
        more = f"\n[{len(text) - end} more characters; read on with offset={end}]" if end < len(text) else ""
        return part + more

    return read_result


def _find(files: SessionFiles, session_key: str, call_id: str) -> str:
    gone: set[object] = set()
    for number, line in enumerate(files.read_backwards(session_key)):
        if line.kind == LineKind.FORGOTTEN:
            found = line.data.get("seqs")
            gone.update(found if isinstance(found, list) else [])
        if line.seq in gone:
            continue
        if line.kind == LineKind.MESSAGE and line.data.get("tool_call_id") == call_id:
            return str(line.data.get("content", ""))
        if number >= MAX_LINES_BACK or line.kind == LineKind.RESET:
            break
    raise ToolError(f"there is no result of the call {call_id[:80]!r} in this conversation.")
