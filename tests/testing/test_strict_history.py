import json
from typing import Any

import pytest

from nanobee.testing.strict_history import StrictHistory

SYSTEM = {"role": "system", "content": "Be short."}
USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "hello"}


def calls(*ids: str, arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    entries = [{"id": one, "type": "function", "function": {"name": "f", "arguments": arguments}} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": entries, **more}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "done"}


def image(data: str = "data:image/png;base64,AAAA") -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": data}}]}


def rules(*messages: dict[str, Any], history: StrictHistory | None = None) -> list[str]:
    body = json.dumps({"model": "m", "messages": messages}).encode()
    return sorted({problem.split(":")[0] for problem in (history or StrictHistory()).check(body)})


@pytest.mark.parametrize(
    "messages",
    [
        [USER],
        [SYSTEM, SYSTEM, USER, SAID, USER],
        [{"role": "developer", "content": "x"}, USER],
        [USER, calls("a"), result("a"), SAID],
        [USER, calls("a", "b"), result("b"), result("a"), USER],
        [USER, calls("a", content="Looking."), result("a"), calls("b"), result("b")],
        [USER, {"role": "assistant", "content": [{"type": "text", "text": "hello"}]}, USER, USER],
    ],
)
def test_a_legal_history_breaks_nothing(messages: list[dict[str, Any]]) -> None:
    assert rules(*messages) == []


@pytest.mark.parametrize("content", [None, "", "  \n", []])
def test_r1_an_assistant_message_says_something(content: object) -> None:
    assert rules(USER, {"role": "assistant", "content": content}) == ["R1"]


@pytest.mark.parametrize(
    "messages",
    [
        [USER, result("a")],
        [USER, SAID, result("a")],
        [USER, calls("a")],
        [USER, calls("a"), USER],
        [USER, calls("a"), USER, result("a")],
        [USER, calls("a"), result("a"), result("a")],
        [USER, calls("a", "b"), result("a"), USER],
        [USER, calls("a"), result("b"), USER],
        [USER, calls("a"), result("a"), USER, result("a")],
    ],
)
def test_r2_each_call_is_answered_once_and_at_once(messages: list[dict[str, Any]]) -> None:
    assert rules(*messages) == ["R2"]


@pytest.mark.parametrize("messages", [[], [SYSTEM], [SYSTEM, SAID, USER], [calls("a"), result("a"), USER]])
def test_r3_a_user_speaks_first(messages: list[dict[str, Any]]) -> None:
    assert rules(*messages) == ["R3"]


def test_r4_call_ids_are_unique() -> None:
    assert rules(USER, calls("a"), result("a"), calls("a"), result("a")) == ["R4"]
    assert rules(USER, calls(""), result("")) == ["R4"]


@pytest.mark.parametrize("arguments", ["", "[]", "text", '{"a": 1}{"b": 2}', '{"a": ', None, {"a": 1}])
def test_r5_arguments_are_one_object(arguments: object) -> None:
    assert rules(USER, calls("a", arguments=arguments), result("a")) == ["R5"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"messages": 5}', b'{"messages": [5]}', b'{"messages": ["\xff"]}']
)
def test_r6_the_body_is_json(body: bytes) -> None:
    assert [problem[:3] for problem in StrictHistory().check(body)] == ["R6:"]


def test_r6_a_half_character_is_found_behind_its_escape() -> None:
    assert rules({"role": "user", "content": "a\ud83d"}) == ["R6"]
    assert rules({"role": "user", "content": "\ud83d\ude00"}) == []


def test_r7_users_do_not_speak_twice_when_asked() -> None:
    assert rules(USER, USER, history=StrictHistory(alternate=True)) == ["R7"]
    assert rules(USER, SAID, USER, history=StrictHistory(alternate=True)) == []


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_r8_reasoning_comes_back_with_its_calls_even_under_new_ids(field: str) -> None:
    history = StrictHistory(reasoning=True)
    history.remember([("f", "{}")], "because")
    assert rules(USER, calls("a"), result("a"), history=history) == ["R8"]
    assert rules(USER, calls("a", **{field: "because"}), result("a"), history=history) == []
    assert rules(USER, calls("a", arguments='{"other": 1}'), result("a"), history=history) == []


def test_r9_old_image_data_is_not_sent_again_when_asked() -> None:
    history = StrictHistory(old_images=True)
    assert rules(image(), history=history) == []
    assert rules(image(), SAID, USER, history=history) == ["R9"]
    assert rules(image("https://example.org/a.png"), SAID, USER, history=history) == []


def test_r10_unknown_keys_are_refused_when_asked() -> None:
    assert rules({**USER, "seq": 5}, history=StrictHistory(known_keys=True)) == ["R10"]
    assert rules({**USER, "seq": 5}) == []
