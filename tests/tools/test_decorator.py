import threading
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Annotated, Any, cast

import pytest
from anyio import fail_after
from pydantic import BaseModel, Field

from nanobee.arguments import validate_arguments
from nanobee.errors import PluginError, ToolError
from nanobee.tools.decorator import tool
from nanobee.tools.tool import MAX_TOOL_SECONDS, Tool, ToolContext, ToolOutput


async def run(made: Tool, context: ToolContext, **arguments: object) -> ToolOutput:
    return await made.run(context, validate_arguments(made.arguments_type, arguments))


class Kind(StrEnum):
    NOTE = "note"
    FACT = "fact"


class Item(BaseModel):
    text: str


@tool
async def find(
    context: ToolContext,
    query: str,
    kinds: list[Kind],
    limit: Annotated[int, Field(ge=1, le=9)] = 5,
    since: str | None = None,
) -> str:
    """Find notes.

    Args:
        query: What to look for.
        limit: At most so many.
    """
    return f"{context.turn} {query} {','.join(kinds)} {limit} {since}"


def test_the_schema_comes_from_signature_and_docstring() -> None:
    assert find.name == "find"
    assert find.spec.description == "Find notes."
    assert find.spec.parameters == {
        "type": "object",
        "$defs": {"Kind": {"enum": ["note", "fact"], "title": "Kind", "type": "string"}},
        "properties": {
            "query": {"type": "string", "description": "What to look for."},
            "kinds": {"type": "array", "items": {"$ref": "#/$defs/Kind"}},
            "limit": {
                "type": "integer",
                "default": 5,
                "minimum": 1,
                "maximum": 9,
                "description": "At most so many.",
            },
            "since": {"type": "string"},
        },
        "required": ["query", "kinds"],
    }


def test_a_tool_is_neither_parallel_safe_nor_idempotent_unless_it_says_so() -> None:
    @tool(name="other-name", parallel_safe=True, idempotent=True, max_seconds=3)
    def named(context: ToolContext) -> str:
        """Do nothing."""
        return ""

    assert (find.is_parallel_safe, find.is_idempotent, find.max_seconds) == (False, False, MAX_TOOL_SECONDS)
    assert (named.is_parallel_safe, named.is_idempotent, named.max_seconds) == (True, True, 3)
    assert named.name == "other-name"


async def test_arguments_are_cast(context: ToolContext) -> None:
    output = await run(find, context, query=7, kinds=["note", "fact"], limit="2")
    assert output == ToolOutput("turn1 7 note,fact 2 None")


@pytest.mark.parametrize("limit", ["ten", 0, 10, 2.5, None, [2]])
async def test_what_cannot_be_cast_is_refused(context: ToolContext, limit: object) -> None:
    with pytest.raises(ToolError, match=r"^limit: "):
        await run(find, context, query="q", kinds=[], limit=limit)


async def test_models_arrive_as_models(context: ToolContext) -> None:
    @tool
    async def keep(context: ToolContext, items: list[Item]) -> ToolOutput:
        """Keep items."""
        return ToolOutput("+".join(item.text for item in items))

    assert (await run(keep, context, items=[{"text": "a"}, {"text": "b"}])).content == "a+b"


async def test_parameters_may_have_names_that_pydantic_keeps_for_itself(context: ToolContext) -> None:
    @tool
    async def convert(context: ToolContext, json: str, copy: bool = False, model_config: str = "m") -> str:
        """Convert.

        Args:
            json: The text.
        """
        return f"{json} {copy} {model_config}"

    properties = cast(dict[str, Any], convert.spec.parameters["properties"])
    assert list(properties) == ["json", "copy", "model_config"]
    assert properties["json"]["description"] == "The text."
    assert (await run(convert, context, json="x", copy="true")).content == "x True m"


async def test_a_sync_function_runs_in_another_thread(context: ToolContext) -> None:
    @tool
    def where(context: ToolContext) -> str:
        """Say where."""
        return str(threading.get_ident())

    assert (await run(where, context)).content != str(threading.get_ident())


async def test_a_sync_function_that_hangs_can_be_left(context: ToolContext) -> None:
    release = threading.Event()
    started = threading.Event()

    @tool
    def hang(context: ToolContext) -> str:
        """Hang."""
        started.set()
        release.wait(60)
        return ""

    try:
        with pytest.raises(TimeoutError), fail_after(0.2):
            await run(hang, context)
    finally:
        release.set()
    assert started.is_set()


async def test_what_is_neither_text_nor_output_is_a_fault(context: ToolContext) -> None:
    @tool
    async def count(context: ToolContext) -> str:
        """Count."""
        return cast(str, 3)

    with pytest.raises(TypeError, match="not int"):
        await run(count, context)


def no_context(path: str) -> str:
    """Text."""
    return path


def nothing() -> str:
    """Text."""
    return ""


def context_not_first(path: str, context: ToolContext) -> str:
    """Text."""
    return path


def contexts(*contexts: ToolContext) -> str:
    """Text."""
    return ""


def variadic(context: ToolContext, *paths: str) -> str:
    """Text."""
    return ""


def keywords(context: ToolContext, **paths: str) -> str:
    """Text."""
    return ""


def positional(context: ToolContext, path: str, /) -> str:
    """Text."""
    return path


def unannotated(context: ToolContext, path) -> str:  # type: ignore[no-untyped-def]
    """Text."""
    return ""


def undocumented(context: ToolContext) -> str:
    return ""


def misdocumented(context: ToolContext, path: str) -> str:
    """Text.

    Args:
        pth: A typo.
    """
    return path


def underscored(context: ToolContext, _path: str) -> str:
    """Text."""
    return _path


def field_as_default(context: ToolContext, limit: int = Field(5, ge=1)) -> str:
    """Text."""
    return str(limit)


def not_json(context: ToolContext, lock: threading.Event) -> str:
    """Text."""
    return str(lock)


def unknown_type(context: ToolContext, path: "Nowhere") -> str:  # type: ignore[name-defined]  # noqa: F821
    """Text."""
    return ""


async def streaming(context: ToolContext) -> AsyncIterator[str]:
    """Text."""
    yield ""


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (no_context, "first parameter must be annotated as a ToolContext"),
        (nothing, "first parameter must be annotated as a ToolContext"),
        (context_not_first, "first parameter must be annotated as a ToolContext"),
        (contexts, "first parameter must be annotated as a ToolContext"),
        (variadic, "parameter paths must be one that is passed by name"),
        (keywords, "parameter paths must be one that is passed by name"),
        (positional, "must be one that is passed by name"),
        (unannotated, "parameter path has no type annotation"),
        (undocumented, "no docstring"),
        (misdocumented, "describes pth, which it does not take"),
        (underscored, "must not start with an underscore"),
        (field_as_default, "must carry its Field in Annotated"),
        (not_json, "Event"),
        (unknown_type, "Nowhere"),
        (streaming, "must return text, not yield it"),
    ],
)
def test_a_broken_rule_is_told_when_the_tool_is_made(function: Any, told: str) -> None:
    with pytest.raises(PluginError, match=told) as caught:
        tool(function)
    assert str(caught.value).startswith(f"tool {function.__name__}: ")


@pytest.mark.parametrize("name", ["two words", "9lives", "x" * 65, "名字", "a.b"])
def test_a_name_that_no_server_takes_is_refused(name: str) -> None:
    def named(context: ToolContext) -> str:
        """Text."""
        return ""

    with pytest.raises(PluginError, match="its name must be"):
        tool(name=name)(named)
