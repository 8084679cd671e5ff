"""The fake model of chaos does what each message asks for once, and covers exactly the messages that are open."""

import json
from typing import Any

from nanobee.testing.chaos import marks
from nanobee.testing.chaos.history import read_history
from nanobee.testing.chaos.marks import BotText, TextKind, read_bot_text
from nanobee.testing.chaos.model import SLOW_SECONDS, ChaosModel

Messages = list[dict[str, Any]]
UNKNOWN_OUTCOME = "Outcome unknown: the process ended while this call ran."


def user(*lines: str) -> dict[str, Any]:
    return {"role": "user", "content": "\n\n".join(f"[2026-01-02 03:04 Ann] {line}" for line in lines)}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def called(call_id: str, name: str, result: str, **arguments: object) -> Messages:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": call_id, "function": function}]},
        {"role": "tool", "tool_call_id": call_id, "content": result},
    ]


def edited(call_id: str, mark: int, result: str) -> Messages:
    return called(call_id, "edit_file", result, path="c1.txt", old_text="END", new_text=f"{marks.said(mark)}\nEND")


def names(messages: Messages) -> list[str]:
    return [name for name, _ in read_history(messages).next_calls(1)]


def test_it_answers_the_messages_since_its_last_answer() -> None:
    messages = [user("m1z plain"), assistant(marks.answer(1, [1])), user("m2z plain", "m3z plain")]
    assert read_history(messages).answering == [2, 3]


def test_a_quoted_mark_is_nothing_that_somebody_said_now() -> None:
    assert read_history([user("> m1z plain\n\nm2z plain")]).answering == [2]


def test_a_finished_edit_is_not_made_again_and_an_unknown_one_is_looked_at_first() -> None:
    asked = [user("m1z steered c1")]
    assert names(asked) == ["edit_file"]
    assert names([*asked, *edited("a", 1, "Edited c1.txt (line 1).")]) == []
    unknown = [*asked, *edited("a", 1, UNKNOWN_OUTCOME)]
    assert names(unknown) == ["read_file"]
    assert names([*unknown, *called("b", "read_file", "m1z\nEND", path="c1.txt")]) == []
    assert names([*unknown, *called("b", "read_file", "END", path="c1.txt")]) == ["edit_file"]


def test_tools_are_several_in_one_step_with_a_note_that_is_said_once() -> None:
    asked = [user("m1z tools c1")]
    assert names(asked) == ["list_dir", "read_file", "edit_file", "message"]
    noted = called("n", "message", "Sent to telegram:1.", text=marks.note(4, 1))
    assert names([*asked, *noted, *edited("a", 1, "Edited c1.txt (line 1).")]) == []


def test_a_pending_question_is_not_answered_and_its_answer_covers_both_messages() -> None:
    [text] = marks.questions(1, 1, ["free"])
    asked = [user("m1z ask free"), *called("q", "ask_user", "Pending #ab3d: the user was asked.", question=text)]
    talked = [*asked, user("m2z plain")]
    assert (names(talked), read_history(talked).answering) == ([], [2])
    done = [*talked, assistant(marks.answer(2, [2])), *called("r", "ask_user", "m3z blue", question=text)]
    assert (names(done), read_history(done).answering) == ([], [1, 3])


def test_two_questions_wait_for_both_answers() -> None:
    first, second = marks.questions(1, 1, ["a2", "a3"])
    pending = "Pending #ab3d: the user was asked."
    asked = [
        user("m1z ask a2 a3"),
        *called("q", "ask_user", pending, question=first),
        *called("p", "ask_user", pending, question=second),
    ]
    half = [*asked, *called("r", "ask_user", "a2", question=first)]
    assert read_history(half).answering == []
    assert read_history([*half, *called("s", "ask_user", "a3", question=second)]).answering == [1, 2, 3]


def test_a_slow_message_is_slow_only_while_it_is_the_newest() -> None:
    model = ChaosModel(1)

    def first_pause(*lines: str) -> object:
        return model.build({"messages": [user(*lines)], "stream": True}).pieces[0]

    assert first_pause("m1z slow") == SLOW_SECONDS
    pause = first_pause("m1z slow", "m2z plain")
    assert isinstance(pause, float)
    assert pause < SLOW_SECONDS
    assert model.asked == {1, 2}


def test_each_completion_has_a_number_of_its_own_and_its_texts_are_read_back() -> None:
    model = ChaosModel(1)
    bodies = [model.build({"messages": [user(f"m{mark}z plain")]}).pieces[1] for mark in (4, 5)]
    texts = [json.loads(body)["choices"][0]["message"]["content"] for body in bodies if isinstance(body, bytes)]
    assert [read_bot_text(text) for text in texts] == [
        BotText(TextKind.ANSWER, 1, (4,), 1, 1),
        BotText(TextKind.ANSWER, 2, (5,), 1, 1),
    ]


def test_what_the_bot_says_is_told_apart() -> None:
    [question] = marks.questions(3, 7, ["a8"])
    shown = f"{question}\n1. a8\n2. b8\n(#x7k2: reply with a choice or its number, or /answer x7k2 …)"
    assert read_bot_text(shown) == BotText(TextKind.QUESTION, 3, (7,), 1, 1, "a8", "x7k2")
    assert read_bot_text(marks.note(3, 7)) == BotText(TextKind.NOTE, 3, (7,))
    assert read_bot_text(marks.answer(3, [7, 8])[:-2]).kind is TextKind.FRAGMENT
    assert read_bot_text("Stopped.").kind is TextKind.NOTICE
