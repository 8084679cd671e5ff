"""Copies: messages of the bot that stand in a chat more than once, each explained by a kill of its own. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from nanobee.testing.chaos.account import Account, Duplicate, Fault, FaultKind, shorten
from nanobee.testing.chaos.log import Delivered, Kill, RoundLog
from nanobee.testing.chaos.marks import BotText, TextKind, read_bot_text


@dataclass(frozen=True, slots=True)
class Seen:
    """A message of the bot, understood."""

    delivered: Delivered
    text: BotText

    @property
    def chat(self) -> int:
        """Where it stands."""
        return self.delivered.chat


def read_all(log: RoundLog) -> list[Seen]:
    """Everything that the bot said in a round.

    A frame of a stream may have shown the whole text. It is no answer: the outbox has no row for it.
    """
    rows = {(send.chat, send.text) for send in log.sends}
    seen = []
    for each in log.delivered:
        text = read_bot_text(each.text)
        is_frame = text.kind is TextKind.ANSWER and (each.chat, each.text) not in rows
        seen.append(Seen(each, replace(text, kind=TextKind.FRAGMENT) if is_frame else text))
    return seen


@dataclass(slots=True)
class CopySieve:
    """Takes copies and fragments out of what was delivered. A kill explains one copy of a text."""

    log: RoundLog
    account: Account
    _used: set[tuple[int, int, str]] = field(default_factory=set)

    def firsts(self, seen: list[Seen]) -> Iterator[Seen]:
        """What is neither a copy nor a fragment; those are put into the account."""
        before: dict[tuple[int, str], Delivered] = {}
        for each in seen:
            if each.text.kind is TextKind.FRAGMENT:
                self._take_fragment(each.delivered)
                continue
            key = _key(each)
            earlier = before.get(key)
            before[key] = each.delivered
            if earlier is None:
                yield each
            else:
                self._take_copy(earlier, each.delivered)

    def _take_copy(self, first: Delivered, second: Delivered) -> None:
        for kill in self.log.kills:
            is_between = first.life <= kill.life < second.life
            if is_between and (second.chat, second.text) in kill.sending and self._use(kill, second.chat, second.text):
                self.account.duplicates.append(Duplicate(self.log.number, second.chat, second.text, str(kill)))
                return
        self._blame(FaultKind.DOUBLE, second)

    def _take_fragment(self, first: Delivered) -> None:
        """The first frame of a stream, sent in a life that a kill ended before the bus knew of it."""
        for kill in self.log.kills:
            is_known = (first.chat, first.message_id) in kill.streams
            if kill.life == first.life and not is_known and self._use(kill, first.chat, "stream"):
                self.account.under_way += 1
                self.account.duplicates.append(Duplicate(self.log.number, first.chat, first.text, str(kill), True))
                return
        self._blame(FaultKind.FRAGMENT, first)

    def _use(self, kill: Kill, chat: int, text: str) -> bool:
        key = (kill.life, chat, text)
        is_free = key not in self._used
        self._used.add(key)
        return is_free

    def _blame(self, kind: FaultKind, delivered: Delivered) -> None:
        what = f"chat {delivered.chat}, life {delivered.life}: {shorten(delivered.text)}"
        self.account.faults.append(Fault(kind, self.log.number, what))


def _key(each: Seen) -> tuple[int, str]:
    """What makes two messages copies. Two commands may get the same words."""
    text = each.delivered.text
    return each.chat, f"{each.delivered.reply_to} {text}" if each.text.kind is TextKind.NOTICE else text
