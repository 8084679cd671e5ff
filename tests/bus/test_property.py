"""Random lives of a bus: whatever comes in which order, and whenever it dies, nothing that it promised is broken."""

import os
from collections.abc import Awaitable, Callable
from functools import partial

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from nanobee.bus.holder import holder_pid
from nanobee.bus.suspension import NewSuspension
from nanobee.channel import Receipt
from nanobee.chat import ToolCall
from nanobee.errors import BusError
from nanobee.messages import Address
from nanobee.sessions.session import message_line
from tests.bus.bus_life import CHATS, BusLife, chats
from tests.bus.conftest import new_row, new_send
from tests.bus.promises import OPEN, OPEN_PARTS, WAITING, read_parts

MAX_ROUNDS = 100
"""Rounds in which the last life must have worked off everything."""
ENDS = (
    "restart",
    "kill",
    "power cut",
    "kill before a commit",
    "kill after the next commit",
    "kill while the next lines are written",
)
WAITED_FOR = ("receive", "append", "record", "finish", "suspend")

shares = st.floats(0, 1)
Call = Callable[[], Awaitable[object]]


class BusLives(BusLife):
    """Adds to a bus's life its ends, and what must hold at any moment."""

    # Ends

    def end_life(self, end: Callable[[], None]) -> None:
        """Let the process end, and the next begin."""
        self.stale += [claim.ref for claim in self.running.values()]
        self.in_doubt |= {part.id for part in self.sending.values()}
        end()
        self.begin_life()
        self.hear()

    @rule(data=st.data(), chat=chats, how=st.sampled_from(ENDS))
    def end(self, data: st.DataObject, chat: str, how: str) -> None:
        if how == "restart":
            self.end_life(self.mortal.restart)
        elif how == "kill":
            self.end_life(self.mortal.kill)
        elif how == "power cut":
            self.end_life(partial(self.mortal.kill, is_power_cut=True, left=data.draw(shares)))
        elif how == "kill before a commit":
            _, call = self.draw_transition(data, chat)
            self.end_life(lambda: self.mortal.kill_before_commit(call))
        else:
            self.mortal.arm(None if how == "kill after the next commit" else data.draw(shares))

    @rule(data=st.data(), chat=chats)
    def fail_a_commit(self, data: st.DataObject, chat: str) -> None:
        """The disk is full: what was waited for is refused, what was not is as if it had not been."""
        name, call = self.draw_transition(data, chat)
        told, refs = self.mortal.fail_commit(call)
        self.hear()
        self.stale += [ref for ref in refs if ref not in [claim.ref for claim in self.running.values()]]
        if name in WAITED_FOR and told != [Receipt.FULL]:
            assert isinstance(told, BusError), "a transition was reported that was not stored"
        elif name == "sent":
            self.handed_out.add(self.sending.pop(Address("test", chat)).id)
            self.awake_addresses.add(Address("test", chat))
        elif name == "resolve":
            self.has_arriving = True

    @precondition(lambda self: self.awake_addresses)
    @rule(data=st.data())
    def nobody_can_be_reached(self, data: st.DataObject) -> None:
        address = data.draw(st.sampled_from(sorted(self.awake_addresses, key=str)))
        self.sending.pop(address, None)
        self.run(self.bus.hold_back, address)

    def draw_transition(self, data: st.DataObject, chat: str) -> tuple[str, Call]:
        """Any transition that can be tried at the moment."""
        calls: dict[str, Call] = {
            "receive": lambda: self.bus.receive([new_row("hi", chat, "never")]),
            "append": lambda: self.bus.append(f"test:{chat}", [message_line("user", "never")]),
        }
        lines = [message_line("assistant", "never")]
        claim = self.running.get(f"test:{chat}")
        if claim is None:
            calls["claim"] = lambda: self.bus.claim(f"test:{chat}")
        else:
            ref = claim.ref
            suspension = NewSuspension("never", ToolCall("c", "ask", "{}"), "Well?")
            calls["record"] = lambda: self.bus.record(ref, lines, [new_send("never", "never", chat)])
            calls["finish"] = lambda: self.bus.finish(ref, lines, [new_send("never", "never", chat)])
            calls["suspend"] = lambda: self.bus.suspend(ref, lines, [], [suspension])
            calls["interrupt"] = lambda: self.bus.interrupt(ref.session_key)
        address = Address("test", chat)
        if (part := self.sending.get(address)) is not None:
            calls["sent"] = lambda: self.bus.sent(part, ["never"])
        else:
            calls["outgoing"] = lambda: self.bus.outgoing(address)
        if self.has_arriving and (found := self.run(self.bus.arriving, "test", 1).rows):
            message = new_row("hi", chat).arrival.message
            calls["resolve"] = lambda: self.bus.resolve(found[0], message)
        name = data.draw(st.sampled_from(sorted(calls)))
        return name, calls[name]

    # At any moment

    @invariant()
    def promises_are_kept(self) -> None:
        if self.mortal.has_died:
            self.end_life(self.mortal.kill)
        self.promises.check(self.mortal)

    @invariant()
    def there_is_one_holder(self) -> None:
        assert holder_pid(self.mortal.state) == os.getpid()

    @invariant()
    def whoever_must_act_was_told(self) -> None:
        rows = self.rows()
        for session_key in {row.session for row in rows}:
            queue = [row for row in rows if row.session == session_key and row.lane and row.state in WAITING]
            head = min(queue, key=lambda row: row.place, default=None)
            if head is not None and head.state == "ready" and session_key not in self.running:
                assert session_key in self.awake, f"nobody was told of {head}"
        if any(row.state == "arriving" for row in rows):
            assert self.has_arriving, "nobody was told of an arriving row"
        if any(row.state == "ready" and not row.lane for row in rows):
            assert self.has_control, "nobody was told of a control row"
        for part in read_parts(self.mortal.reader):
            if part.state in OPEN_PARTS:
                address = Address.from_session_key(part.address)
                assert address in self.awake_addresses or address in self.sending, f"nobody was told of {part}"

    # At the end

    def teardown(self) -> None:
        try:
            self.work_off()
        finally:
            self.close()

    def work_off(self) -> None:
        """One life without trouble ends everything that waits: nothing is stuck."""
        self.mortal.disarm()
        for _ in range(MAX_ROUNDS):
            if not any(row.state in OPEN for row in self.rows()):
                break
            self.work_off_once()
        assert not [row for row in self.rows() if row.state in OPEN], "messages are stuck"
        for chat in CHATS:
            while (part := self.run(self.bus.outgoing, Address("test", chat)).part) is not None:
                self.run(self.bus.sent, part, ["m1"])
        self.promises_are_kept()
        assert not [part for part in read_parts(self.mortal.reader) if part.state in OPEN_PARTS], "parts are stuck"

    def work_off_once(self) -> None:
        """A round of every user of the bus."""
        for row in self.run(self.bus.arriving, "test", 10).rows:
            message = new_row("hi", row.session_key.partition(":")[2]).arrival.message
            self.run(self.bus.resolve, row, message)
        self.claim_control()
        while self.controls:
            self.run_control()
        for question, session_key in self.questions:
            self.run(self.bus.answer, question, session_key, "yes")
        for chat in CHATS:
            session_key = f"test:{chat}"
            self.resume(session_key)
            if session_key not in self.running:
                self.claim_session(chat)
            if session_key in self.running:
                self.finish_one(self.running[session_key], 1)


TestBusLives = BusLives.TestCase
TestBusLives.settings = settings(
    settings.get_profile("nanobee"),
    max_examples=40,
    stateful_step_count=60,
    # Shrinking takes longer than a test may: take this line out to have a failure made small.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
