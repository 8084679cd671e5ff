"""ChatNotices: what the bus tells a sender of a message that it could not treat as usual."""

from collections.abc import Callable, Sequence
from textwrap import shorten

from nanobee.agent import phrases
from nanobee.bus.bus import InboxRow, NewSend
from nanobee.messages import Address, OutboundMessage, OutboundPart, PartKind
from nanobee.phrases import Language

MAX_QUOTED_CHARS = 60
"""Of a message that a notice names."""


class OwnerNotices:
    """Tells the owner of what could not be delivered; implements `nanobee.bus.delivery.TellOwner`."""

    def __init__(
        self, language: Language, owners: Sequence[str], split: Callable[[Address, str], Sequence[str]]
    ) -> None:
        self._language = language
        self._owner = Address.from_session_key(owners[0]) if owners else None
        self._split = split

    def __call__(self, part: OutboundPart, reason: str) -> Sequence[NewSend]:
        """A notice to the first owner, unless it is the owner who cannot be reached."""
        if self._owner is None or part.address == self._owner:
            return ()
        text = phrases.UNDELIVERED.say(self._language, chat=part.address.session_key, reason=reason, id=part.id)
        message = OutboundMessage(self._owner, text)
        return (NewSend(message, PartKind.NOTICE, "owner", tuple(self._split(self._owner, text))),)


class ChatNotices:
    """Implements `nanobee.bus.bus.Notices`."""

    def __init__(self, language: Language, split: Callable[[Address, str], Sequence[str]]) -> None:
        self._language = language
        self._split = split

    def crashed(self, row: InboxRow) -> NewSend:
        """It ended the process again and again, and is put aside."""
        text = shorten(row.message.text if row.message else "", MAX_QUOTED_CHARS, placeholder="…")
        return self._notice(row, phrases.CRASHED.say(self._language, text=text), "crashed")

    def busy(self, row: InboxRow, waiting: int) -> NewSend:
        """It is kept, and others wait before it."""
        return self._notice(row, phrases.BUSY_KEPT.say(self._language, count=waiting), "busy")

    def not_accepted(self, row: InboxRow) -> NewSend:
        """Too many wait: it was not stored."""
        return self._notice(row, phrases.NOT_ACCEPTED.say(self._language), "full")

    def _notice(self, row: InboxRow, text: str, key: str) -> NewSend:
        address = row.message.address if row.message else Address.from_session_key(row.session_key)
        reply_to = row.message.source_id if row.message else None
        outbound = OutboundMessage(address, text, reply_to)
        return NewSend(outbound, PartKind.NOTICE, key, tuple(self._split(address, text)))
