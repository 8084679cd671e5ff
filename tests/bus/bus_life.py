"""BusLife: what channels, agent and deliveries do to a bus, as rules that hypothesis plays in any order."""

import json
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from nanobee.bus.bus import Claim, InboxRow, NewRow, NewSend, Stopped, TurnRef, message_of
from nanobee.bus.lines import LineKind, NewLine
from nanobee.bus.suspension import NewSuspension
from nanobee.bus.suspension_table import match_choice
from nanobee.chat import ToolCall
from nanobee.config import BusyMode
from nanobee.errors import StaleTurnError
from nanobee.messages import Address, OutboundPart
from nanobee.sessions.session import message_line
from tests.bus.conftest import background, incomplete, new_row, new_send
from tests.bus.mortal_bus import MortalBus
from tests.bus.promises import OPEN_PARTS, WAITING, Promises, Row, read_parts, read_rows

CHATS = ("1", "2")
TEXTS = ("hi", "hi", "yes", "/new")
CONTROLS = ("/stop", "/stop", "/resume")
CHOICES = ((), ("yes", "no"), ("yes", "no"))

chats = st.sampled_from(["1", "1", "1", "2"])


class BusLife(RuleBasedStateMachine):
    """One bus, and what its users know of it. Every rule is one transition."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="nanobee-bus-")
        self.mortal = MortalBus(Path(self.folder.name))
        self.promises = Promises()
        self.count = 0
        self.events: list[NewRow] = []
        self.stale: list[TurnRef] = []
        self.questions: list[tuple[str, str]] = []
        self.in_doubt: set[int] = set()
        self.begin_life()

    def begin_life(self) -> None:
        """What a new process knows: nothing but what it is told at its start."""
        self.running: dict[str, Claim] = {}
        self.controls: list[InboxRow] = []
        self.sending: dict[Address, OutboundPart] = {}
        self.awake: set[str] = set()
        self.awake_addresses: set[Address] = set()
        self.has_arriving = self.has_control = False
        self.handed_out: set[int] = set()

    def close(self) -> None:
        """End the last life."""
        self.mortal.close()
        self.folder.cleanup()

    @initialize(has_question=st.booleans(), has_turn=st.booleans(), is_answered=st.booleans())
    def begin_in_the_middle(self, has_question: bool, has_turn: bool, is_answered: bool) -> None:
        """Start where much can happen: a question waits or has its answer, a turn runs, more waits behind it."""
        if has_question:
            self.hear_a_person("1", "hi", True)
            self.ask(self.running["test:1"], [("yes", "no")])
        if has_turn:
            self.hear_a_person("1", "hi", True)
            self.hear_a_person("1", "hi", False)
        if has_question and is_answered:
            self.run(self.bus.answer, self.questions[0][0], "test:1", "yes")

    # Driving

    def run(self, call: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        """Wait for a transition, and for all that it announces."""
        result = self.mortal.run(call, *arguments)
        self.mortal.settle()
        self.hear()
        return result

    def hear(self) -> None:
        """Take in what the listener was told."""
        heard = self.mortal.heard
        self.awake |= set(heard.sessions)
        self.awake_addresses |= set(heard.addresses)
        self.has_arriving |= heard.arriving > 0
        self.has_control |= heard.controls > 0
        heard.sessions, heard.addresses, heard.arriving, heard.controls = [], [], 0, 0

    def number(self) -> int:
        """A number that was not used before."""
        self.count += 1
        return self.count

    @property
    def bus(self) -> Any:
        """The present life's."""
        return self.mortal.bus

    def rows(self, session_key: str | None = None) -> list[Row]:
        """The inbox as it stands on disk."""
        return [row for row in read_rows(self.mortal.reader) if session_key in (None, row.session)]

    # What comes in

    @rule(chat=chats, text=st.sampled_from(TEXTS), claims=st.booleans())
    def hear_a_person(self, chat: str, text: str, claims: bool) -> None:
        self.receive(chat, text, "user")
        if claims and not self.mortal.has_died:
            self.claim_session(chat)

    @rule(data=st.data(), text=st.sampled_from(CONTROLS), runs=st.booleans())
    def hear_a_control_command(self, data: st.DataObject, text: str, runs: bool) -> None:
        running = [claim.address.chat_id for claim in self.running.values()]
        chat = data.draw(st.sampled_from(running) if running else chats)
        self.receive(chat, text, "user")
        if runs and not self.mortal.has_died:
            self.control_once()

    @rule(chat=chats, kind=st.sampled_from(["late", "tick"]))
    def hear_something_else(self, chat: str, kind: str) -> None:
        self.receive(chat, "", kind)

    def receive(self, chat: str, text: str, kind: str) -> None:
        """Hand in a new event."""
        event = f"e{self.number()}"
        if kind == "late":
            row = incomplete(chat, event)
        elif kind == "tick":
            row = background("tick", chat, event)
        else:
            row = new_row(text, chat, event)
        self.events.append(row)
        self.promises.receive([row], self.run(self.bus.receive, [row]))

    @precondition(lambda self: self.events)
    @rule(data=st.data())
    def receive_again(self, data: st.DataObject) -> None:
        rows = data.draw(st.lists(st.sampled_from(self.events), min_size=1, max_size=3, unique_by=id))
        self.promises.receive(rows, self.run(self.bus.receive, rows))

    @precondition(lambda self: self.has_arriving)
    @rule(text=st.sampled_from(TEXTS), place=st.integers(0, 3))
    def resolve(self, text: str, place: int) -> None:
        found = self.run(self.bus.arriving, "test", 10).rows
        self.has_arriving = bool(found)
        if found:
            row = found[min(place, len(found) - 1)]
            message = new_row(text, row.session_key.partition(":")[2]).arrival.message
            self.run(self.bus.resolve, row, message)

    # Turns

    @precondition(lambda self: self.awake)
    @rule(data=st.data(), busy=st.sampled_from(list(BusyMode)))
    def claim(self, data: st.DataObject, busy: BusyMode) -> None:
        self.claim_session(data.draw(st.sampled_from(sorted(self.awake))).partition(":")[2], busy)

    def claim_session(self, chat: str, busy: BusyMode = BusyMode.QUEUE) -> None:
        """Ask for a session's next turn, as the dispatcher does."""
        session_key = f"test:{chat}"
        before = self.queue(session_key)
        claim = self.run(partial(self.bus.claim, session_key, busy=busy))
        if session_key in self.running:
            assert claim is None, "a second turn beside a running one"
        elif claim is None:
            self.awake.discard(session_key)
            head = next(iter(self.queue(session_key)), None)
            assert head is None or head.state == "arriving", f"{head} is ready, and nobody gets it"
        else:
            self.running[session_key] = claim
            self.check_claim(claim, before)

    def queue(self, session_key: str) -> list[Row]:
        """What waits in a session, its head first."""
        waiting = [row for row in self.rows(session_key) if row.lane and row.state in WAITING]
        return sorted(waiting, key=lambda row: row.place)

    def check_claim(self, claim: Claim, before: list[Row]) -> None:
        """A claim takes the head of its session and says what it did."""
        self.promises.write(claim.ref.session_key, claim.lines)
        own = [row for row in self.rows(claim.ref.session_key) if row.state == "running" and row.lane]
        assert [row.id for row in own] == [row.id for row in claim.rows]
        assert {row.turn for row in own} == {claim.ref.turn}
        if claim.is_resumed:
            return
        assert all(row.turn is None for row in before), "a turn that was begun was passed over"
        last = max((row.lane, row.seq) for row in own)
        left = [row for row in self.queue(claim.ref.session_key) if row.turn is None]
        assert all((row.lane, row.seq) > last for row in left), "an older message was passed over"

    def pick(self, data: st.DataObject) -> Claim:
        """One of the running turns."""
        return self.running[data.draw(st.sampled_from(sorted(self.running)))]

    @precondition(lambda self: self.running)
    @rule(data=st.data(), sends=st.integers(0, 2))
    def record(self, data: st.DataObject, sends: int) -> None:
        claim = self.pick(data)
        new = [self.new_send(claim, f"call{self.number()}.0") for _ in range(sends)]
        answers = self.run(self.bus.answers, claim.ref)
        lines = [message_line("assistant", "step"), NewLine(LineKind.TOOL_STARTED, {"call": "c"})]
        used = [answer.id for answer in answers]
        placed = self.run(self.bus.record, claim.ref, lines, new, used)
        self.promises.write(claim.ref.session_key, placed)
        self.note_sends(claim.ref.turn, new)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), parts=st.integers(0, 3))
    def finish(self, data: st.DataObject, parts: int) -> None:
        self.finish_one(self.pick(data), parts)

    def finish_one(self, claim: Claim, parts: int) -> None:
        """End a turn as the agent does: a command begins a new conversation."""
        is_command = claim.rows[0].is_command
        lines = [NewLine(LineKind.RESET)] if is_command else [message_line("assistant", "answer")]
        sends = [self.new_send(claim, "final", parts)] if parts else []
        placed = self.run(self.bus.finish, claim.ref, lines, sends)
        self.promises.write(claim.ref.session_key, placed)
        self.promises.finish(row.id for row in claim.rows)
        self.note_sends(claim.ref.turn, sends)
        if is_command:
            self.promises.emptied.add(claim.ref.session_key)
        self.stale.append(self.running.pop(claim.ref.session_key).ref)

    def new_send(self, claim: Claim, key: str, parts: int = 1) -> NewSend:
        return new_send("text", key, claim.ref.session_key.partition(":")[2], tuple("text"[:parts]))

    def note_sends(self, owner: str, sends: list[NewSend]) -> None:
        """The sends were stored."""
        self.promises.sends |= {f"{owner}/{send.key}/{part}" for send in sends for part in range(len(send.texts))}

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def hand_back(self, data: st.DataObject) -> None:
        claim = self.pick(data)
        self.run(self.bus.hand_back, claim.ref)
        self.stale.append(self.running.pop(claim.ref.session_key).ref)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def steer(self, data: st.DataObject) -> None:
        claim = self.pick(data)
        if claim.rows[0].is_command:
            return
        rows, lines = self.run(self.bus.steer, claim.ref)
        self.promises.write(claim.ref.session_key, lines)
        merged = Claim(claim.ref, (*claim.rows, *rows), claim.lines, claim.is_resumed)
        self.running[claim.ref.session_key] = merged

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def interrupt(self, data: st.DataObject) -> None:
        claim = self.pick(data)
        turn = self.run(self.bus.interrupt, claim.ref.session_key)
        if turn is not None:
            assert turn == claim.ref.turn
            self.stale.append(self.running.pop(claim.ref.session_key).ref)

    # Questions

    @precondition(lambda self: self.running)
    @rule(data=st.data(), choices=st.lists(st.sampled_from(CHOICES), min_size=1, max_size=2), goes_on=st.booleans())
    def suspend(self, data: st.DataObject, choices: list[tuple[str, ...]], goes_on: bool) -> None:
        claim = self.pick(data)
        if claim.rows[0].is_command:
            return
        self.ask(claim, choices)
        if goes_on and not self.mortal.has_died:
            self.hear_a_person(claim.ref.session_key.partition(":")[2], "hi", True)

    def ask(self, claim: Claim, choices: list[tuple[str, ...]]) -> None:
        """Put a turn to sleep with questions."""
        new = [NewSuspension(f"q{self.number()}", ToolCall("c", "ask", "{}"), "Well?", each) for each in choices]
        sends = [self.new_send(claim, f"ask-{each.id}") for each in new]
        lines = [message_line("tool", "pending", tool_call_id="c")]
        placed = self.run(self.bus.suspend, claim.ref, lines, sends, new)
        self.promises.write(claim.ref.session_key, placed)
        self.note_sends(claim.ref.turn, sends)
        self.questions += [(each.id, claim.ref.session_key) for each in new]
        self.stale.append(self.running.pop(claim.ref.session_key).ref)

    @precondition(lambda self: self.questions)
    @rule(data=st.data(), text=st.sampled_from(["yes", "2", "hi"]))
    def answer(self, data: st.DataObject, text: str) -> None:
        question, session_key = data.draw(st.sampled_from(self.questions[-3:]))
        sql = "select state, answer, choices from suspension where id = ?"
        [(state, given, offered)] = self.mortal.reader.execute(sql, (question,)).fetchall()
        is_repeated = state in ("answered", "done") and match_choice(json.loads(offered), text) == given
        answered = self.run(self.bus.answer, question, session_key, text)
        assert (answered.suspension is not None) == (state == "open" or is_repeated)

    # Control rows

    @precondition(lambda self: self.has_control or self.controls)
    @rule()
    def control_once(self) -> None:
        """Work on one control row."""
        self.claim_control()
        if self.controls:
            self.run_control()

    def claim_control(self) -> None:
        """Ask for a control row, as the dispatcher does."""
        row = self.run(self.bus.claim_control)
        if row is None:
            self.has_control = False
        else:
            self.controls.append(row)

    def run_control(self) -> None:
        """Do what a control row says."""
        row = self.controls.pop(0)
        chat, text = row.session_key.partition(":")[2], message_of(row).text
        send = new_send("reply", "reply", chat)
        if text == "/stop":
            self.promises.emptied.add(row.session_key)
            stopped: Stopped = self.run(self.bus.stop, row, row.session_key, lambda _: send)
            claim = self.running.pop(row.session_key, None)
            if claim is not None:
                assert stopped.turn == claim.ref.turn, "/stop ended another turn than the one that runs"
                self.stale.append(claim.ref)
        else:
            if text == "/resume":
                self.resume(row.session_key)
            self.run(self.bus.answer_control, row, send)
        self.promises.sends.add(f"row-{row.id}/reply/0")

    def resume(self, session_key: str) -> None:
        """Let parked messages go on."""
        self.promises.resumed.add(session_key)
        self.run(self.bus.resume, session_key)

    # Writers that are over

    @precondition(lambda self: self.stale)
    @rule(data=st.data(), what=st.sampled_from(["record", "finish", "suspend", "steer", "hand_back"]))
    def stale_write(self, data: st.DataObject, what: str) -> None:
        ref = data.draw(st.sampled_from(self.stale))
        if ref in [claim.ref for claim in self.running.values()]:
            return
        self.mortal.settle()
        before = self.mortal.dump()
        lines = [message_line("assistant", "too late")]
        suspension = NewSuspension(f"q{self.number()}", ToolCall("c", "ask", "{}"), "Well?")
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "record": lambda: self.bus.record(ref, lines),
            "finish": lambda: self.bus.finish(ref, lines),
            "suspend": lambda: self.bus.suspend(ref, lines, [], [suspension]),
            "steer": lambda: self.bus.steer(ref),
            "hand_back": lambda: self.bus.hand_back(ref),
        }
        try:
            self.run(calls[what])
        except StaleTurnError:
            assert self.mortal.dump() == before, "a refused write left something"
        else:
            raise AssertionError(f"{what} of a turn that is over was taken")

    # What goes out

    @precondition(lambda self: self.awake_addresses - self.sending.keys())
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        address = data.draw(st.sampled_from(sorted(self.awake_addresses - self.sending.keys(), key=str)))
        chat = address.chat_id
        parts = [part for part in read_parts(self.mortal.reader) if part.address == f"test:{chat}"]
        # A part that was handed out and whose commit failed stands as open on disk; this life knows better.
        open_parts = [part for part in parts if part.state in OPEN_PARTS and part.id not in self.handed_out]
        outgoing = self.run(self.bus.outgoing, address)
        if outgoing.part is None:
            self.awake_addresses.discard(address)
            assert not open_parts
            return
        assert outgoing.part.id not in self.handed_out, "a part that was sent is sent again"
        assert outgoing.part.id == open_parts[0].id, "a part overtook another one"
        assert outgoing.may_have_arrived or outgoing.part.id not in self.in_doubt, "it may stand there already"
        self.in_doubt.discard(outgoing.part.id)
        self.sending[address] = outgoing.part

    @precondition(lambda self: self.sending)
    @rule(data=st.data(), outcome=st.sampled_from(["sent", "sent", "postpone", "unknown", "bury"]))
    def end_send(self, data: st.DataObject, outcome: str) -> None:
        address = data.draw(st.sampled_from(sorted(self.sending, key=str)))
        part = self.sending.pop(address)
        if outcome == "sent":
            self.handed_out.add(part.id)
            self.run(self.bus.sent, part, ["m1"])
        elif outcome == "bury":
            self.run(self.bus.bury, part, "refused")
        else:
            self.run(partial(self.bus.postpone, part, "busy", -1, is_unknown=outcome == "unknown"))
