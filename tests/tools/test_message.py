from dataclasses import replace

import pytest

from nanobee.chat import ToolCall, ToolResult
from nanobee.messages import Address, OutboundMessage
from nanobee.tools.builtin import create_builtin_registry
from nanobee.tools.message import MAX_MESSAGE_CHARS
from nanobee.tools.tool import ToolContext
from tests.tools.conftest import CallTool


async def test_a_message_goes_to_the_turns_own_chat(call: CallTool) -> None:
    for arguments in ({}, {"to": None}, {"to": ""}, {"to": "telegram:1"}):
        outcome = await call("message", text="**hi**", **arguments)
        assert outcome.result == ToolResult("call1", "Sent to telegram:1.")
        assert outcome.sends == (OutboundMessage(Address("telegram", "1"), "**hi**"),)


async def test_a_message_goes_to_a_chat_that_may_be_reached(call: CallTool) -> None:
    outcome = await call("message", text="hi", to="web:ann%3A1:t%251")
    assert outcome.sends == (OutboundMessage(Address("web", "ann:1", "t%1"), "hi"),)


@pytest.mark.parametrize("to", ["telegram:3", "telegram:1:9", "telegram", "TELEGRAM:2", "telegram:2 ", "x" * 900])
async def test_no_other_chat_is_reached(call: CallTool, to: str) -> None:
    outcome = await call("message", text="hi", to=to)
    assert outcome.result.is_error
    assert "may write to from here (telegram:2, web:ann%3A1:t%251); nothing was sent" in outcome.result.content
    assert outcome.sends == ()


@pytest.mark.parametrize("text", ["", " \n\t", "x" * (MAX_MESSAGE_CHARS + 1)])
async def test_what_cannot_be_sent_is_refused(call: CallTool, text: str) -> None:
    outcome = await call("message", text=text)
    assert outcome.result.is_error
    assert "othing was sent" in outcome.result.content
    assert outcome.sends == ()


async def test_a_text_holds_nothing_that_a_platform_refuses(call: CallTool) -> None:
    assert (await call("message", text="a\x00b\ud800")).sends[0].text == "a\ufffdb\ufffd"


async def test_a_turn_without_a_chat_must_name_one(context: ToolContext) -> None:
    registry = create_builtin_registry()
    tick = replace(context, address=Address("heartbeat", "main"), session_key="heartbeat:main")
    refused = await registry.call(tick, ToolCall("c", "message", '{"text": "hi"}'))
    assert "no chat of its own; name one in `to` (telegram:2, web:ann%3A1:t%251)" in refused.result.content
    assert refused.sends == ()
    sent = await registry.call(tick, ToolCall("c", "message", '{"text": "hi", "to": "telegram:2"}'))
    assert sent.sends[0].address == Address("telegram", "2")
