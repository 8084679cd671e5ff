"""Suspension table: questions that wait for a person, and how an inbound message answers one."""

import json
from collections.abc import Sequence
from typing import Any

from nanobee.bus.bus import InboxRow, TurnRef, message_of
from nanobee.bus.rows import one, to_json
from nanobee.bus.suspension import Answered, NewSuspension, Suspension
from nanobee.bus.writer import Transaction

COLUMNS = "id, session, turn, call, tool, arguments, question, choices, state, answer"


def insert(tx: Transaction, ref: TurnRef, suspensions: Sequence[NewSuspension], now: float) -> None:
    """Store the questions of a step, and put the turn's rows to sleep."""
    for new in suspensions:
        tx.db.execute(
            f"insert into suspension({COLUMNS}, created_at, changed_at)"
            " values (?, ?, ?, ?, ?, ?, ?, ?, 'open', null, ?, ?)",
            (
                new.id,
                ref.session_key,
                ref.turn,
                new.call.id,
                new.call.name,
                new.call.arguments,
                new.question,
                to_json(list(new.choices)),
                now,
                now,
            ),
        )
    tx.db.execute(
        "update inbox set state = 'suspended', changed_at = ? where turn = ? and state = 'running'", (now, ref.turn)
    )


def _read(row: tuple[Any, ...]) -> Suspension:
    suspension_id, session, turn, call, tool, arguments, question, choices, state, answer = row
    return Suspension(
        suspension_id, session, turn, call, tool, arguments, question, tuple(json.loads(choices)), state, answer
    )


def find(tx: Transaction, suspension_id: str) -> Suspension | None:
    """The question of that id, whatever its state."""
    row = one(tx.db, f"select {COLUMNS} from suspension where id = ?", suspension_id)
    return None if row is None else _read(row)


def open_in(tx: Transaction, session_key: str) -> list[Suspension]:
    """The session's open questions, oldest first."""
    found = tx.db.execute(
        f"select {COLUMNS} from suspension where session = ? and state = 'open' order by created_at, rowid",
        (session_key,),
    )
    return [_read(row) for row in found]


def answered_in(tx: Transaction, turn: str) -> list[Suspension]:
    """The turn's answers that it has not seen yet, in the order of its calls."""
    found = tx.db.execute(
        f"select {COLUMNS} from suspension where turn = ? and state = 'answered' order by rowid", (turn,)
    )
    return [_read(row) for row in found]


def consume(tx: Transaction, suspension_ids: Sequence[str], now: float) -> None:
    """The turn has seen these answers."""
    tx.db.executemany(
        "update suspension set state = 'done', changed_at = ? where id = ? and state = 'answered'",
        [(now, suspension_id) for suspension_id in suspension_ids],
    )


def cancel(tx: Transaction, session_key: str, now: float) -> int:
    """`/new` and `/stop`: the session's open questions are void, and the turns that asked are over.

    So is a turn that has its answers and was about to go on.
    """
    stop = "update inbox set state = 'stopped', reason = 'its question was cancelled', changed_at = ? where session = ?"
    tx.db.execute(f"{stop} and state = 'suspended'", (now, session_key))
    tx.db.execute(
        f"{stop} and state = 'ready' and turn in"
        " (select turn from suspension where session = ? and state = 'answered')",
        (now, session_key, session_key),
    )
    tx.db.execute(
        "update outbox set state = 'cancelled', reason = 'its question was cancelled', changed_at = ?"
        " where address = ? and kind = 'question' and state = 'ready'",
        (now, session_key),
    )
    cursor = tx.db.execute(
        "update suspension set state = 'cancelled', changed_at = ? where session = ? and state in ('open', 'answered')",
        (now, session_key),
    )
    return cursor.rowcount


def answer(tx: Transaction, suspension_id: str, text: str, now: float) -> Answered:
    """Give a question its answer, once; the turn goes on when all questions of its step have one.

    The same answer again is noted again, and does nothing: a kill before the reply repeats the command.
    """
    tx.changed = False
    suspension = find(tx, suspension_id)
    choice = None if suspension is None else match_choice(suspension.choices, text)
    if suspension is None or (suspension.state != "open" and not _is_repeated(suspension, choice)):
        return Answered(None)
    if choice is None:
        return Answered(suspension, is_valid=False)
    if suspension.state == "open":
        tx.changed = True
        tx.db.execute(
            "update suspension set state = 'answered', answer = ?, changed_at = ? where id = ?",
            (choice, now, suspension_id),
        )
    left = one(tx.db, "select count(*) from suspension where turn = ? and state = 'open'", suspension.turn)
    assert left is not None
    if tx.changed and left[0] == 0:
        tx.db.execute(
            "update inbox set state = 'ready', changed_at = ? where turn = ? and state = 'suspended'",
            (now, suspension.turn),
        )
    return Answered(suspension, open_questions=int(left[0]))


def _is_repeated(suspension: Suspension, choice: str | None) -> bool:
    return suspension.state in ("answered", "done") and choice is not None and suspension.answer == choice


def match_choice(choices: Sequence[str], text: str) -> str | None:
    """The choice that `text` names, by its word or its number; any text where there are none."""
    stripped = text.strip()
    if not choices:
        return stripped or None
    for number, choice in enumerate(choices, 1):
        if stripped.casefold() == choice.casefold() or stripped == str(number):
            return choice
    return None


def take_answer(tx: Transaction, row: InboxRow, now: float) -> bool:
    """Let a person's message answer an open question of its session, if it is meant so.

    It is where it quotes the question; where it is exactly a choice and one question is open; and
    where one free question is open. Then the row belongs to the turn that asked.
    """
    suspension = _meant(tx, row)
    if suspension is None:
        return False
    done = answer(tx, suspension.id, message_of(row).text, now)
    if done.suspension is None or not done.is_valid:
        return False
    tx.db.execute(
        "update inbox set state = ?, turn = ?, is_told = 1, changed_at = ? where id = ?",
        ("ready" if done.open_questions == 0 else "suspended", suspension.turn, now, row.id),
    )
    return True


def _meant(tx: Transaction, row: InboxRow) -> Suspension | None:
    questions = open_in(tx, row.session_key)
    if not questions:
        return None
    message = message_of(row)
    if message.reply_to is not None:
        quoted = one(
            tx.db,
            "select idempotency_key from outbox, json_each(platform_ids) where address = ? and kind = 'question'"
            " and json_each.value = ?",
            row.session_key,
            message.reply_to,
        )
        if quoted is not None:
            return next((each for each in questions if f"/ask-{each.id}/" in quoted[0]), None)
        # Where a kill cut its send off, a copy stands in the chat whose platform id nobody knows.
        named = [each for each in questions if f"#{each.id}" in (message.quoted_text or "")]
        if len(named) == 1:
            return named[0]
    if len(questions) > 1:
        return None
    [only] = questions
    if match_choice(only.choices, message.text) is None:
        return None
    # What was said before the question was asked is no answer to it.
    later = one(
        tx.db,
        "select 1 from inbox, suspension where inbox.id = ? and suspension.id = ?"
        " and inbox.created_at > suspension.created_at",
        row.id,
        only.id,
    )
    return None if later is None else only
