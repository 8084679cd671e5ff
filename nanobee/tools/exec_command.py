"""exec: run a shell command in the workspace."""

import os
from typing import Annotated

from pydantic import Field

from nanobee.errors import ToolError
from nanobee.tools.decorator import tool
from nanobee.tools.exec_process import Ended, run_command
from nanobee.tools.process_group import describe_end
from nanobee.tools.tool import ToolContext

DEFAULT_SECONDS = 60.0
"""How long a command may take unless the call says otherwise."""
MAX_SECONDS = 600.0
END_SECONDS = 30.0
"""What starting and ending may take on top."""
MAX_COMMAND_BYTES = 100_000
"""Linux takes 128 KiB in one argument."""
PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""The only variables that a command sees of ours: any other may be a secret."""
FIXED = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}
"""Nobody can answer a pager, and nobody can read colors."""


@tool(name="exec", needs_owner=True, max_seconds=MAX_SECONDS + END_SECONDS)
async def exec_command(
    context: ToolContext,
    command: str,
    timeout_seconds: Annotated[float, Field(ge=1, le=MAX_SECONDS)] = DEFAULT_SECONDS,
) -> str:
    """Run a shell command in the workspace and return what it prints, standard output and errors together.

    It gets no input, and nobody can answer its questions. When it ends, everything that it
    started in the background is ended too. Of a long output the beginning and the end are shown.

    Args:
        command: For bash, as in `bash -c`.
        timeout_seconds: After this it is ended.
    """
    if not command.strip():
        raise ToolError("the command is empty")
    if "\x00" in command:
        raise ToolError("the command holds a NUL character")
    if len(command.encode()) > MAX_COMMAND_BYTES:
        raise ToolError(f"the command is longer than {MAX_COMMAND_BYTES:,} bytes: write it into a file and run that")
    try:
        ended = await run_command(
            command,
            context.workspace,
            build_environment(os.environ),
            context.call_id,
            timeout_seconds,
            context.announce_process,
        )
    except OSError as error:
        raise ToolError(f"the command could not be started: {error.strerror or type(error).__name__}") from error
    return _describe(ended, timeout_seconds)


def build_environment(own: "os._Environ[str] | dict[str, str]") -> dict[str, str]:
    """What a command finds in its environment."""
    return {**{name: own[name] for name in PASSED_ON if name in own}, **FIXED}


def _describe(ended: Ended, seconds: float) -> str:
    if ended.code is None:
        end = f"it was ended after {seconds:g} s, its time limit; what it did until then is done"
    else:
        end = describe_end(ended.code)
    if ended.left_processes:
        end += "; processes that it had left running in the background were ended"
    output = ended.output
    if not output:
        return f"[nothing was printed; {end}]"
    return f"{output}[{end}]" if output.endswith("\n") else f"{output}\n[{end}]"
