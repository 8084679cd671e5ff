"""@tool: a Tool from a function, its schema from the signature and the docstring."""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Concatenate, overload

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from nanobee.arguments import build_schema
from nanobee.chat import ToolSpec
from nanobee.errors import PluginError
from nanobee.tools.docstring import parse_docstring
from nanobee.tools.tool import MAX_TOOL_SECONDS, Tool, ToolContext, ToolOutput

MAX_TOOL_THREADS = 32
"""Synchronous tools that run at once; calls past it wait."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_threads: RunVar[CapacityLimiter] = RunVar("nanobee_tool_threads")

Returned = str | ToolOutput
ToolFunction = Callable[Concatenate[ToolContext, ...], Returned | Awaitable[Returned]]


class ToolArguments(BaseModel):
    """Base of the arguments that are made from a signature: casts are lenient, as models are loose with types."""

    model_config = ConfigDict(
        extra="ignore",
        coerce_numbers_to_str=True,
        defer_build=True,
        arbitrary_types_allowed=False,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )


@overload
def tool(function: ToolFunction, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    parallel_safe: bool = False,
    idempotent: bool = False,
    needs_owner: bool = False,
    max_seconds: float = MAX_TOOL_SECONDS,
) -> Callable[[ToolFunction], Tool]: ...
def tool(
    function: ToolFunction | None = None,
    /,
    *,
    name: str | None = None,
    parallel_safe: bool = False,
    idempotent: bool = False,
    needs_owner: bool = False,
    max_seconds: float = MAX_TOOL_SECONDS,
) -> Tool | Callable[[ToolFunction], Tool]:
    """Make a Tool from `function(context: ToolContext, …) -> str | ToolOutput`.

    An async function runs in the event loop, any other in a worker thread, which goes on by
    itself where its call is stopped.

    Args:
        function: its docstring tells the model what the tool does; an `Args:` section, what
            each parameter means.
        name: as the model calls it; the function's own name unless given.
        parallel_safe: may run beside other such calls of one step.
        idempotent: may be run again after a crash.
        needs_owner: exists only for the owner, in chats of their own.
        max_seconds: after which a call is given up.

    Raises:
        PluginError: the function breaks a rule of the contract; the text says which.
    """

    def decorate(decorated: ToolFunction) -> Tool:
        return _create_tool(
            decorated,
            name=name,
            is_parallel_safe=parallel_safe,
            is_idempotent=idempotent,
            needs_owner=needs_owner,
            max_seconds=max_seconds,
        )

    return decorate if function is None else decorate(function)


def _create_tool(function: ToolFunction, *, name: str | None, **traits: Any) -> Tool:
    own_name = getattr(function, "__name__", type(function).__name__)
    name = name or own_name
    try:
        if not _NAME.fullmatch(name):
            raise _BrokenRuleError("its name must be a letter, then up to 63 letters, digits, `_` or `-`")
        docstring = parse_docstring(inspect.getdoc(function) or "")
        if not docstring.description:
            raise _BrokenRuleError("it has no docstring, so the model cannot know what it does")
        arguments_type = _create_arguments_type(name, _parameters(function), docstring.parameters)
        spec = ToolSpec(name, docstring.description, build_schema(arguments_type))
    except (_BrokenRuleError, PydanticUserError, NameError) as error:
        raise PluginError(f"tool {name}: {error}") from error
    return Tool(spec, arguments_type, partial(_run, function, arguments_type), **traits)


class _BrokenRuleError(Exception):
    """A rule of the contract, before it is known whose tool broke it."""


def _parameters(function: ToolFunction) -> Mapping[str, inspect.Parameter]:
    """The parameters that the model fills in: all but the context."""
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise _BrokenRuleError("it must return text, not yield it")
    context, *others = inspect.signature(function, eval_str=True).parameters.values() or (None,)
    if context is None or context.annotation is not ToolContext or context.kind in _VARIADIC:
        raise _BrokenRuleError("its first parameter must be annotated as a ToolContext")
    for parameter in others:
        if parameter.kind in _VARIADIC or parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise _BrokenRuleError(f"parameter {parameter.name} must be one that is passed by name")
        if parameter.annotation is inspect.Parameter.empty:
            raise _BrokenRuleError(f"parameter {parameter.name} has no type annotation")
        if isinstance(parameter.default, FieldInfo):
            raise _BrokenRuleError(f"parameter {parameter.name} must carry its Field in Annotated[…], not as default")
        if parameter.name.startswith("_"):
            raise _BrokenRuleError(f"parameter {parameter.name} must not start with an underscore")
    return {parameter.name: parameter for parameter in others}


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _create_arguments_type(
    name: str, parameters: Mapping[str, inspect.Parameter], descriptions: Mapping[str, str]
) -> type[BaseModel]:
    if unknown := descriptions.keys() - parameters.keys():
        raise _BrokenRuleError(f"its docstring describes {', '.join(sorted(unknown))}, which it does not take")
    fields: dict[str, Any] = {}
    for parameter in parameters.values():
        details: dict[str, Any] = {}
        if parameter.default is not inspect.Parameter.empty:
            details["default"] = parameter.default
        if description := descriptions.get(parameter.name):
            details["description"] = description
        field_name = parameter.name
        if hasattr(BaseModel, field_name):
            # A parameter may be called `json` or `copy`; a pydantic field may not.
            details["alias"], field_name = field_name, f"{field_name}_"
        fields[field_name] = (parameter.annotation, Field(**details))
    title = "".join(word.title() for word in re.split(r"[_-]", name))
    return create_model(f"{title}Arguments", __base__=ToolArguments, **fields)


async def _run(
    function: ToolFunction, arguments_type: type[BaseModel], context: ToolContext, arguments: BaseModel
) -> ToolOutput:
    values = {field.alias or name: getattr(arguments, name) for name, field in arguments_type.model_fields.items()}
    bound = partial(function, context, **values)
    if inspect.iscoroutinefunction(function):
        returned = bound()
    else:
        returned = await to_thread.run_sync(bound, abandon_on_cancel=True, limiter=_thread_limiter())
    if inspect.isawaitable(returned):
        returned = await returned
    if isinstance(returned, ToolOutput):
        return returned
    if isinstance(returned, str):
        return ToolOutput(returned)
    raise TypeError(f"a tool returns str or ToolOutput, not {type(returned).__name__}")


def _thread_limiter() -> CapacityLimiter:
    """One a loop, apart from anyio's own, so that stuck tools starve nothing else."""
    try:
        return _threads.get()
    except LookupError:
        limiter = CapacityLimiter(MAX_TOOL_THREADS)
        _threads.set(limiter)
        return limiter
