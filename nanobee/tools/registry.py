"""ToolRegistry: tools by name, and the one place where they are called."""

import logging
from collections.abc import Iterable, Iterator

from anyio import move_on_after

from nanobee.arguments import clean_text, parse_arguments, validate_arguments
from nanobee.chat import ToolCall, ToolResult, ToolSpec
from nanobee.errors import PluginError, ToolError
from nanobee.tools.tool import Tool, ToolContext, ToolOutcome, ToolOutput

logger = logging.getLogger(__name__)

MAX_RESULT_CHARS = 20_000
"""The longest tool result that a model is sent; of a longer one, the beginning and the end."""
TAIL_CHARS = 4_000
"""How much of `MAX_RESULT_CHARS` is kept for the end, where logs have their errors."""


class ToolRegistry:
    """Tools by name, in an order that does not depend on how they came in (prompt caches hold on to it)."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> None:
        """Take a tool in.

        Raises:
            PluginError: the name is taken.
        """
        if tool.name in self._tools:
            raise PluginError(f"tool {tool.name}: there is one of this name already")
        self._tools[tool.name] = tool
        self._tools = dict(sorted(self._tools.items()))

    def get(self, name: str) -> Tool | None:
        """The tool called `name`, if there is one."""
        return self._tools.get(name)

    def specs(self, is_owner: bool = False) -> tuple[ToolSpec, ...]:
        """How the tools that exist for who asks are described to a model, ordered by name."""
        return tuple(tool.spec for tool in self._tools.values() if tool.is_offered(is_owner))

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    async def call(self, context: ToolContext, call: ToolCall) -> ToolOutcome:
        """Run one call; whatever goes wrong in it is a result for the model. Only cancellation passes through."""
        try:
            output = await self._run(context, call)
        except (Exception, SystemExit) as error:
            # A tool may be anybody's code: it must end neither the turn nor the process.
            cause = _cause(error)
            if isinstance(cause, ToolError):
                return _failure(call, str(cause))
            logger.exception("tool %s failed", call.name)
            return _failure(call, f"{call.name} failed by a fault of its own ({type(cause).__name__})")
        result = ToolResult(call.id, _fit(output.content))
        return ToolOutcome(result, output.sends, output.question, output.attachments)

    async def _run(self, context: ToolContext, call: ToolCall) -> ToolOutput:
        tool = self._tools.get(call.name)
        if tool is None or not tool.is_offered(context.is_owner):
            raise ToolError(self._describe_unknown(call.name, context.is_owner))
        try:
            arguments = validate_arguments(tool.arguments_type, parse_arguments(call.arguments))
        except ToolError as error:
            raise ToolError(f"{tool.name} was not run: {error}") from None
        with move_on_after(tool.max_seconds):
            return await tool.run(context, arguments)
        raise ToolError(f"{tool.name} took longer than {tool.max_seconds:g} s and was given up; its outcome is unknown")

    def _describe_unknown(self, name: str, is_owner: bool) -> str:
        from difflib import get_close_matches  # costs more to import than it is worth before it is needed

        offered = [tool.name for tool in self._tools.values() if tool.is_offered(is_owner)]
        lowered = {known.lower(): known for known in offered}
        close = get_close_matches(name.rpartition(".")[2].lower(), lowered, n=1)
        meant = f"; did you mean {lowered[close[0]]}?" if close else "."
        return f"there is no tool {name[:64]!r}{meant} The tools are: {', '.join(offered) or 'none'}."


def _failure(call: ToolCall, reason: str) -> ToolOutcome:
    return ToolOutcome(ToolResult(call.id, _fit(f"Error: {reason}"), is_error=True))


def _cause(error: BaseException) -> BaseException:
    """The error itself, or of a task group's the one that matters most: a fault before a refusal."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    causes = [_cause(inner) for inner in error.exceptions]
    return next((cause for cause in causes if not isinstance(cause, ToolError)), causes[0])


def _fit(content: str) -> str:
    """Content that any request may hold, and none too long."""
    content = clean_text(content).replace("\x00", "\ufffd")
    if len(content) <= MAX_RESULT_CHARS:
        return content
    tail = content[-TAIL_CHARS:]
    head = content[: MAX_RESULT_CHARS - TAIL_CHARS]
    left_out = len(content) - len(head) - len(tail)
    return (
        f"{head}\n[cut: {left_out:,} of {len(content):,} characters are left out here;"
        f" to read on, ask for a smaller part]\n{tail}"
    )
