"""Context: whatever stands in a session, the request is legal, within budget, and has the newest message."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from nanobee.bus.lines import Line
from nanobee.chat import ChatMessage, CompletionRequest
from nanobee.clock import Clock
from nanobee.context import Budget, History, build_context
from nanobee.exchanges import UNKNOWN_OUTCOME
from nanobee.providers.openai_wire import build_body, encode_body, find_dialect
from nanobee.sessions.session import Session
from nanobee.testing.strict_history import StrictHistory
from nanobee.tokens import estimate_tokens

AT = datetime(2026, 3, 1, 11, 0, tzinfo=UTC)
WIDE = 1_000_000


def session_of(*entries: dict[str, object]) -> Session:
    lines = []
    for seq, entry in enumerate(entries, 1):
        kind = str(entry.pop("kind", "message"))
        lines.append(Line(seq, AT, "t", kind, entry))
    return Session("test:1", lines)


def user(text: str = "question", **more: object) -> dict[str, object]:
    return {"role": "user", "content": text, **more}


def assistant(text: str = "", *call_ids: str, arguments: str = "{}") -> dict[str, object]:
    calls = [{"id": call_id, "name": "read_file", "arguments": arguments} for call_id in call_ids]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def tool(call_id: str, text: str = "result") -> dict[str, object]:
    return {"role": "tool", "content": text, "tool_call_id": call_id}


def built(system: str, session: Session, tokens: int, clock: Clock | None = None) -> tuple[ChatMessage, ...]:
    return build_context(system, session, Budget(tokens), clock).messages


def violations(messages: Sequence[ChatMessage]) -> tuple[str, ...]:
    body = build_body(CompletionRequest("m", tuple(messages)), find_dialect("localhost"), stream=False)
    return StrictHistory(alternate=True).check(encode_body(body))


def shape(messages: Sequence[ChatMessage]) -> list[str]:
    return [f"{message.role}:{message.content}" for message in messages]


def test_a_plain_conversation_is_sent_as_it_was_said() -> None:
    session = session_of(user("a"), assistant("b"), user("c"))
    assert shape(built("be kind", session, WIDE)) == ["system:be kind", "user:a", "assistant:b", "user:c"]


def test_each_user_message_begins_with_its_own_time_and_name() -> None:
    session = session_of(user("hi", name="Ann"), assistant("yes"), user("bye"))
    messages = built("", session, WIDE, Clock(ZoneInfo("Europe/Berlin")))
    assert [m.content for m in messages if m.role == "user"] == ["[2026-03-01 12:00 Ann] hi", "[2026-03-01 12:00] bye"]


def test_a_quoted_text_stands_before_the_message() -> None:
    session = session_of(user("what does it mean?", quoted="first\nsecond"))
    assert built("", session, WIDE)[0].content == "> first\n> second\n\nwhat does it mean?"


def test_an_empty_answer_in_the_session_is_left_out() -> None:
    messages = built("", session_of(user("a"), assistant("  "), user("b")), WIDE)
    assert shape(messages) == ["user:a\n\nb"]
    assert violations(messages) == ()


def test_messages_that_failed_turns_left_unanswered_are_read_as_one() -> None:
    messages = built("", session_of(user("a"), user("b"), user("c")), WIDE)
    assert shape(messages) == ["user:a\n\nb\n\nc"]


def test_a_call_without_a_result_is_told_as_outcome_unknown() -> None:
    messages = built("", session_of(user(), assistant("", "x", "y"), tool("y"), user("go on")), WIDE)
    assert [(m.tool_call_id, m.content) for m in messages if m.role == "tool"] == [
        ("x", UNKNOWN_OUTCOME),
        ("y", "result"),
    ]
    assert violations(messages) == ()


def test_a_result_without_a_call_is_left_out() -> None:
    messages = built("", session_of(tool("lost"), user(), tool("lost"), assistant("ok"), tool("lost")), WIDE)
    assert shape(messages) == ["user:question", "assistant:ok"]


def test_a_second_result_of_one_call_is_left_out() -> None:
    messages = built("", session_of(user(), assistant("", "x"), tool("x", "1"), tool("x", "2")), WIDE)
    assert [m.content for m in messages if m.role == "tool"] == ["1"]


def test_arguments_that_are_no_object_become_an_empty_one() -> None:
    for arguments in ("", "[1]", '{"cut": "mid', "null", "[" * 100_000):
        messages = built("", session_of(user(), assistant("", "x", arguments=arguments), tool("x")), WIDE)
        assert messages[1].tool_calls[0].arguments == "{}"
        assert violations(messages) == ()


def test_two_texts_in_a_row_are_read_as_one() -> None:
    record: dict[str, object] = {"kind": "record", "role": "assistant", "content": "reminder"}
    assert shape(built("", session_of(user("a"), assistant("b"), record), WIDE))[1:] == ["assistant:b\n\nreminder"]


def test_a_long_history_is_cut_at_a_user_message_and_stays_cut_there_for_the_next_turns() -> None:
    entries = [entry for number in range(200) for entry in (user(f"q{number} " + "x" * 350), assistant("y" * 350))]
    session = session_of(*entries, user("newest"))
    first = built("", session, 12_000)
    assert first[0].role == "user"
    assert first[-1].content == "newest"
    assert sum(estimate_tokens(m.content) for m in first) < 12_000
    session.extend([Line(402, AT, "t", "message", assistant("ok")), Line(403, AT, "t", "message", user("next"))])
    second = built("", session, 12_000)
    assert second[: len(first)] == first


def test_o09_one_turn_with_too_many_calls_keeps_its_question_and_its_newest_steps() -> None:
    steps = [entry for n in range(150) for entry in (assistant("", f"c{n}"), tool(f"c{n}", "z" * 1000))]
    messages = built("", session_of(user("old"), assistant("k"), user("the question"), *steps), 10_000)
    assert messages[0].content == "the question"
    assert messages[-1].tool_call_id == "c149"
    assert violations(messages) == ()


def test_the_newest_user_message_is_sent_even_where_it_alone_passes_the_budget() -> None:
    messages = built("", session_of(user("a"), assistant("b"), user("x" * 50_000)), 1_000)
    assert len(messages) == 1
    assert len(messages[0].content) == 50_000


ENTRY = st.one_of(
    st.builds(user, st.text(max_size=5)),
    st.builds(
        lambda text, ids: assistant(text, *ids), st.text(max_size=3), st.lists(st.sampled_from("abc"), max_size=3)
    ),
    st.builds(tool, st.sampled_from("abcd"), st.text(max_size=3)),
    st.just({"role": "assistant", "content": None, "tool_calls": [{"id": 1}, "x", None]}),
    st.just({"role": 7, "content": 7}),
    st.just({"kind": "record", "role": "assistant", "content": "r"}),
    st.just({"kind": "tool_started", "call": "a"}),
)


@given(st.lists(ENTRY, max_size=25), st.integers(1_000, 1_200))
def test_any_lines_whatsoever_make_a_legal_request(entries: list[dict[str, object]], window: int) -> None:
    copies = [json.loads(json.dumps(entry)) for entry in entries]
    messages = built("system", session_of(*copies, user("newest")), window)
    assert violations(messages) == ()
    assert messages[-1].content.endswith("newest")


@given(st.lists(ENTRY, max_size=25), st.lists(st.integers(0, 25), max_size=4))
def test_what_was_read_before_and_what_is_read_anew_make_the_same_context(
    entries: list[dict[str, object]], pauses: list[int]
) -> None:
    whole = session_of(*[json.loads(json.dumps(entry)) for entry in entries], user("newest"))
    growing, history = Session("test:1"), History()
    for place, line in enumerate(whole.lines):
        growing.extend([line])
        if place in pauses:
            build_context("system", growing, Budget(700), history=history)
    again = Session("test:1", whole.lines)
    again.window_start, again.pruned_before = growing.window_start, growing.pruned_before
    fresh = build_context("system", again, Budget(700))
    assert build_context("system", growing, Budget(700), history=history) == fresh
