"""Audit: makes the account of a round from its log, and from nothing else, so that a doctored log tests it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nanobee.agent.phrases import BUSY_KEPT, NO_LONGER_VALID, NOTHING_PARKED, PARKED
from nanobee.testing.chaos.account import Account, Fault, FaultKind, Parked, shorten
from nanobee.testing.chaos.copies import CopySieve, Seen, read_all
from nanobee.testing.chaos.log import RoundLog, Said
from nanobee.testing.chaos.marks import TextKind, read_bot_text
from nanobee.testing.chaos.modes import Mode

_EDITING = (Mode.TOOLS, Mode.STEERED)
_BUSY = BUSY_KEPT.en.partition("{")[0]
_SET_ASIDE = PARKED.en.partition("}")[2]
_NOT_VALID = NO_LONGER_VALID.en.partition("}")[2]
_ENDED = ("done", "stopped", "parked")
_SENT = ("sent", "cancelled")


def build_account(log: RoundLog) -> Account:
    """Account for one round."""
    account = Account(under_way=sum(len(kill.sending) for kill in log.kills))
    seen = read_all(log)
    firsts = list(CopySieve(log, account).firsts(seen))
    _take_ends(log, firsts, account)
    for faults in (
        _stuck(log),
        _replies(log, firsts),
        _repeated(firsts),
        _disorder(log, seen),
        _effects(log, firsts),
        _tools(log, firsts),
    ):
        account.faults += [Fault(kind, log.number, what) for kind, what in faults]
    account.faults += [Fault(FaultKind.ILLEGAL, log.number, text) for text in log.illegal]
    return account


_Faults = Iterator[tuple[FaultKind, str]]

# Ends


def _take_ends(log: RoundLog, firsts: Sequence[Seen], account: Account) -> None:
    """Every message said ends in exactly one way."""
    covered = _covered(firsts)
    replies = {(each.chat, each.delivered.reply_to): each.delivered.text for each in firsts if _is_end(each)}
    stopping = {said.chat for said in log.said if said.text == "/stop" and (said.chat, said.message_id) in replies}

    def blame(kind: FaultKind, what: str) -> None:
        account.faults.append(Fault(kind, log.number, what))

    for said in log.said:
        if not said.is_accepted:
            blame(FaultKind.NOT_ACCEPTED, _name(said))
            continue
        account.received += 1
        row = log.rows.get(said.message_id)
        state = "not in the bus" if row is None else row.state
        reply = replies.get((said.chat, said.message_id))
        account.stopped += state == "stopped"
        if reply is not None if said.is_control else said.mark in covered:
            account.answered += 1
        elif state == "stopped" and said.chat in stopping:
            account.answered += 1
        elif row is not None and state == "parked" and row.reason:
            account.parked.append(Parked(log.number, said.mark, row.reason))
        elif reply is not None:
            account.told.append(f"round {log.number}: {_name(said)}: {shorten(reply)}")
        else:
            blame(FaultKind.LOST, f"{_name(said)} is {state}")
    for mark in log.unsaid:
        blame(FaultKind.NOT_ACCEPTED, f"m{mark}z: what it waits for never came")


def _name(said: Said) -> str:
    return f"m{said.mark}z in chat {said.chat} ({said.text})"


def _is_end(each: Seen) -> bool:
    """Whether it tells how a message ended; that others wait before it is no end."""
    return each.text.kind is TextKind.NOTICE and not each.delivered.text.startswith(_BUSY)


def _covered(firsts: Iterable[Seen]) -> set[int]:
    """The messages with a whole answer, all of its parts."""
    parts: dict[tuple[int, tuple[int, ...]], set[int]] = defaultdict(set)
    covered: set[int] = set()
    for each in firsts:
        if each.text.kind is TextKind.ANSWER:
            found = parts[each.text.serial, each.text.marks]
            found.add(each.text.part)
            if len(found) == each.text.parts:
                covered |= set(each.text.marks)
    return covered


def _stuck(log: RoundLog) -> _Faults:
    """At the end no row is under way, and no send was given up."""
    for message_id, row in log.rows.items():
        if row.state not in _ENDED:
            yield FaultKind.STUCK, f"the row of message {message_id} is {row.state}"
    for send in log.sends:
        if send.state not in _SENT:
            why = f" ({send.reason})" if send.reason else ""
            yield FaultKind.STUCK, f"chat {send.chat}: {shorten(send.text)} is {send.state}{why}"


def _replies(log: RoundLog, firsts: Sequence[Seen]) -> _Faults:
    """Each `/answer` here is valid, and each `/resume` after a stop that put something aside has something to do."""
    texts = {(each.chat, each.delivered.reply_to): each.delivered.text for each in firsts}
    set_aside: set[int] = set()
    for said in log.said:
        text = texts.get((said.chat, said.message_id), "")
        if said.text == "/stop" and _SET_ASIDE in text:
            set_aside.add(said.chat)
        is_denied = text == NOTHING_PARKED.en and said.chat in set_aside
        if said.is_control and (is_denied or text.endswith(_NOT_VALID)):
            yield FaultKind.WRONG_REPLY, f"{_name(said)}: {shorten(text)}"


def _repeated(firsts: Iterable[Seen]) -> _Faults:
    """Messages that two completions answer, and turns that had nothing to answer: they ran before."""
    serials: dict[int, set[int]] = defaultdict(set)
    for each in firsts:
        if each.text.kind is TextKind.ANSWER:
            if not each.text.marks:
                yield FaultKind.ANSWERED_TWICE, f"chat {each.chat}: {shorten(each.delivered.text)} answers nothing new"
            for mark in each.text.marks:
                serials[mark].add(each.text.serial)
    for mark, found in serials.items():
        if len(found) > 1:
            yield FaultKind.ANSWERED_TWICE, f"m{mark}z by completions {sorted(found)}"


# Order


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a text of the model stands among those of its chat."""

    text: tuple[int, tuple[int, ...]]
    part: int
    first: int
    last: int


def _disorder(log: RoundLog, seen: Sequence[Seen]) -> _Faults:
    """In each chat answers come in the order of what they answer, and parts in theirs; copies count too.

    A message whose turn asks has its place where its question stands; a command has none.
    """
    unplaced = {said.mark for said in log.said if said.is_control}
    unplaced |= {mark for each in seen if each.text.kind is TextKind.QUESTION for mark in each.text.marks}
    before: dict[int, _Place] = {}
    for each in seen:
        place = _place(each, unplaced)
        if place is None:
            continue
        earlier = before.get(each.chat)
        before[each.chat] = place
        if not _may_follow(place, earlier):
            after = "at the beginning" if earlier is None else f"after m{earlier.last}z, part {earlier.part}"
            yield FaultKind.DISORDER, f"chat {each.chat}: {shorten(each.delivered.text)} {after}"


def _place(each: Seen, unplaced: set[int]) -> _Place | None:
    text = each.text
    placed = [mark for mark in text.marks if text.kind is TextKind.QUESTION or mark not in unplaced]
    if text.kind not in (TextKind.ANSWER, TextKind.QUESTION) or not placed:
        return None
    return _Place((text.serial, text.marks), text.part, min(placed), max(placed))


def _may_follow(place: _Place, earlier: _Place | None) -> bool:
    if earlier is not None and place.text == earlier.text:
        return place.part in (earlier.part, earlier.part + 1)
    return place.part == 1 and (earlier is None or place.first > earlier.last)


# Effects


def _effects(log: RoundLog, firsts: Sequence[Seen]) -> _Faults:
    """What the `message` tool sends: one row, and one message for each that asked for it."""
    rows = Counter((send.chat, send.text) for send in log.sends)
    for (chat, text), times in rows.items():
        if times > 1 and read_bot_text(text).kind is not TextKind.NOTICE:
            yield FaultKind.EFFECT_TWICE, f"chat {chat}: {shorten(text)} stands in {times} outbox rows"
    notes: dict[int, set[int]] = defaultdict(set)
    for each in firsts:
        if each.text.kind is TextKind.NOTE:
            notes[each.text.marks[0]].add(each.text.serial)
    for mark, serials in notes.items():
        if len(serials) > 1:
            yield FaultKind.EFFECT_TWICE, f"m{mark}z was noted by completions {sorted(serials)}"
    if log.mode is Mode.TOOLS:
        for mark in sorted(_covered(firsts) - notes.keys()):
            yield FaultKind.EFFECT_LOST, f"m{mark}z was answered without its note"


def _tools(log: RoundLog, firsts: Sequence[Seen]) -> _Faults:
    """What the file tools leave: one edit for each message that asked for it."""
    for mark, times in log.edits.items():
        if times > 1:
            yield FaultKind.TOOL_TWICE, f"the edit of m{mark}z stands {times} times in its file"
    if log.mode in _EDITING:
        for mark in sorted(mark for mark in _covered(firsts) if not log.edits.get(mark)):
            yield FaultKind.TOOL_LOST, f"m{mark}z was answered without its edit"
