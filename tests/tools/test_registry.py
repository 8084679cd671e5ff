import logging
import sys
import threading

import pytest
from anyio import Event, create_task_group, fail_after, sleep_forever

from nanobee.chat import ToolCall, ToolResult
from nanobee.errors import PluginError, ToolError
from nanobee.messages import Address, OutboundMessage
from nanobee.tools.decorator import tool
from nanobee.tools.registry import MAX_RESULT_CHARS, TAIL_CHARS, ToolRegistry
from nanobee.tools.tool import Tool, ToolContext, ToolOutput

SENT = OutboundMessage(Address("telegram", "1"), "hi")


@tool(parallel_safe=True)
async def echo(context: ToolContext, text: str, times: int = 1) -> ToolOutput:
    """Echo."""
    return ToolOutput(text * times, (SENT,))


async def result(context: ToolContext, made: Tool, arguments: str = "{}") -> ToolResult:
    return (await ToolRegistry([made]).call(context, ToolCall("c", made.name, arguments))).result


async def test_a_call_gives_its_result_and_its_sends(context: ToolContext) -> None:
    outcome = await ToolRegistry([echo]).call(context, ToolCall("c9", "echo", '{"text": "ab", "times": "2"}'))
    assert outcome.result == ToolResult("c9", "abab")
    assert outcome.sends == (SENT,)


async def test_unknown_fields_are_ignored(context: ToolContext) -> None:
    assert await result(context, echo, '{"text": "a", "explanation": "why"}') == ToolResult("c", "a")


async def test_wrong_arguments_are_told_and_the_tool_is_not_run(context: ToolContext) -> None:
    outcome = await ToolRegistry([echo]).call(context, ToolCall("c", "echo", '{"times": "many"}'))
    assert outcome.result == ToolResult(
        "c",
        "Error: echo was not run: text: missing; times: Input should be a valid integer, unable to parse string"
        " as an integer. Fields: text (required), times.",
        is_error=True,
    )
    assert outcome.sends == ()


async def test_o02_d_empty_arguments_run_a_tool_that_needs_none(context: ToolContext) -> None:
    @tool
    async def ping(context: ToolContext) -> str:
        """Ping."""
        return "pong"

    assert await result(context, ping, "") == ToolResult("c", "pong")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ecko", "did you mean echo? The tools are: echo."),
        ("ECHO", "did you mean echo?"),
        ("functions.echo", "did you mean echo?"),
        ("weather", "there is no tool 'weather'. The tools are: echo."),
        ("x" * 500, "The tools are: echo."),
    ],
)
async def test_an_unknown_tool_is_answered_with_the_known_ones(context: ToolContext, name: str, told: str) -> None:
    answer = (await ToolRegistry([echo]).call(context, ToolCall("c", name, "{}"))).result
    assert answer.is_error
    assert told in answer.content
    assert len(answer.content) < 250


async def test_an_empty_registry_knows_no_tool(context: ToolContext) -> None:
    assert "The tools are: none." in (await ToolRegistry().call(context, ToolCall("c", "echo", "{}"))).result.content


def test_the_order_does_not_depend_on_how_tools_came_in() -> None:
    def make(name: str) -> Tool:
        async def nothing(context: ToolContext) -> str:
            """Do nothing."""
            return ""

        return tool(name=name)(nothing)

    one, two = ToolRegistry([make("b"), make("a")]), ToolRegistry([make("a")])
    two.add(make("b"))
    assert [spec.name for spec in one.specs()] == [spec.name for spec in two.specs()] == ["a", "b"]
    assert [made.name for made in one] == ["a", "b"]
    assert len(one) == 2
    assert one.get("a") is not None
    assert one.get("c") is None


def test_a_name_is_taken_once() -> None:
    with pytest.raises(PluginError, match="tool echo: there is one of this name already"):
        ToolRegistry([echo, echo])


async def test_a_refusal_is_a_result_and_no_log_line(context: ToolContext, caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def refuse(context: ToolContext) -> str:
        """Refuse."""
        raise ToolError("not today; try tomorrow")

    assert await result(context, refuse) == ToolResult("c", "Error: not today; try tomorrow", is_error=True)
    assert caplog.records == []


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("fault", [ValueError("canary"), KeyError("canary"), StopIteration(), SystemExit(1)])
async def test_a_fault_is_logged_with_traceback_and_the_model_hears_its_kind_only(
    context: ToolContext, caplog: pytest.LogCaptureFixture, fault: BaseException, is_async: bool
) -> None:
    @tool(name="broken")
    def broken(context: ToolContext) -> str:
        """Break."""
        raise fault

    @tool(name="broken")
    async def broken_async(context: ToolContext) -> str:
        """Break."""
        raise fault

    answer = await result(context, broken_async if is_async else broken)
    assert answer.is_error
    assert answer.content.startswith("Error: broken failed by a fault of its own (")
    assert "canary" not in answer.content
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "tool broken failed"
    assert record.exc_info is not None


async def test_sys_exit_in_a_tool_does_not_end_the_process(context: ToolContext) -> None:
    @tool
    async def leave(context: ToolContext) -> str:
        """Leave."""
        sys.exit(3)

    assert (await result(context, leave)).content == "Error: leave failed by a fault of its own (SystemExit)"


async def test_a_refusal_inside_a_task_group_is_a_refusal(context: ToolContext) -> None:
    async def refuse() -> None:
        raise ToolError("no")

    async def break_down() -> None:
        raise OSError("disk")

    @tool
    async def several(context: ToolContext, faulty: bool = False) -> str:
        """Do several things."""
        async with create_task_group() as outer, create_task_group() as inner:
            outer.start_soon(refuse)
            if faulty:
                inner.start_soon(break_down)
        return ""

    assert (await result(context, several)).content == "Error: no"
    assert "(OSError)" in (await result(context, several, '{"faulty": true}')).content


async def test_a_call_that_takes_too_long_is_given_up(context: ToolContext) -> None:
    @tool(max_seconds=0.01)
    async def wait(context: ToolContext) -> str:
        """Wait."""
        await sleep_forever()
        return ""

    with fail_after(5):
        assert await result(context, wait) == ToolResult(
            "c", "Error: wait took longer than 0.01 s and was given up; its outcome is unknown", is_error=True
        )


async def test_a_sync_call_that_takes_too_long_is_given_up(context: ToolContext) -> None:
    release = threading.Event()

    @tool(max_seconds=0.01)
    def wait(context: ToolContext) -> str:
        """Wait."""
        release.wait(60)
        return ""

    try:
        with fail_after(5):
            assert "was given up" in (await result(context, wait)).content
    finally:
        release.set()


async def test_a_time_out_of_the_tools_own_is_its_fault(context: ToolContext) -> None:
    @tool
    async def impatient(context: ToolContext) -> str:
        """Wait a little."""
        with fail_after(0):
            await sleep_forever()
        return ""

    assert "(TimeoutError)" in (await result(context, impatient)).content


async def test_cancellation_passes_through(context: ToolContext) -> None:
    started, ended = Event(), Event()

    @tool
    async def wait(context: ToolContext) -> str:
        """Wait."""
        started.set()
        try:
            await sleep_forever()
        finally:
            ended.set()
        return ""

    answers: list[ToolResult] = []

    async def call() -> None:
        answers.append(await result(context, wait))

    with fail_after(5):
        async with create_task_group() as group:
            group.start_soon(call)
            await started.wait()
            group.cancel_scope.cancel()
    assert ended.is_set()
    assert answers == []


async def test_a_long_result_keeps_its_beginning_and_its_end(context: ToolContext) -> None:
    text = "first line\n" + "x" * 1_000_000 + "\nERROR: the last line"

    @tool
    async def flood(context: ToolContext) -> str:
        """Flood."""
        return text

    content = (await result(context, flood)).content
    assert content.startswith("first line\n")
    assert content.endswith("\nERROR: the last line")
    assert f"[cut: {len(text) - MAX_RESULT_CHARS:,} of {len(text):,} characters are left out here" in content
    assert len(content) < MAX_RESULT_CHARS + 200
    assert TAIL_CHARS < MAX_RESULT_CHARS


async def test_a_long_refusal_is_cut_too(context: ToolContext) -> None:
    @tool
    async def refuse(context: ToolContext) -> str:
        """Refuse."""
        raise ToolError("no" * 1_000_000)

    assert len((await result(context, refuse)).content) < MAX_RESULT_CHARS + 200


async def test_a_result_holds_nothing_that_a_request_cannot(context: ToolContext) -> None:
    @tool
    async def odd(context: ToolContext) -> str:
        """Be odd."""
        return "a\ud800b\x00c\ud83d\ude00"

    assert (await result(context, odd)).content == "a\ufffdb\ufffdc😀"
