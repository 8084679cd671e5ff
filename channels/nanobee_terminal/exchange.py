"""Exchange: what the person said in this run, and what of it still waits for its reply."""

from datetime import UTC, datetime
from uuid import uuid4

from nanobee.channel import Arrival, Inbox, Lane, Receipt, command_of, lane_of
from nanobee.errors import ChannelError
from nanobee.messages import Address, InboundMessage, OutboundPart, PartKind
from nanobee.phrases import Language
from nanobee_terminal import phrases
from nanobee_terminal.control_chars import replace_surrogates
from nanobee_terminal.settings import SENDER_ID

STOP = "/stop"
_ENDING = frozenset({PartKind.ANSWER, PartKind.NOTICE, PartKind.QUESTION})
"""Kinds that end the waiting for the message that they reply to."""


class Exchange:
    """Hands messages to the inbox and keeps count of the replies that are due."""

    def __init__(self, inbox: Inbox, address: Address, language: Language) -> None:
        self._inbox = inbox
        self._address = address
        self._language = language
        self._waiting: dict[str, str] = {}
        """Texts by source id, in the order in which they were said."""

    @property
    def is_waiting(self) -> bool:
        """Whether any message of this run has had no reply yet."""
        return bool(self._waiting)

    @property
    def is_stopping(self) -> bool:
        """Whether a `/stop` is under way."""
        return any(command_of(text) == STOP for text in self._waiting.values())

    @property
    def next_waiting(self) -> str | None:
        """The id of the oldest message that waits for a reply."""
        return next(iter(self._waiting), None)

    def waits_for(self, source_id: str | None) -> bool:
        """Whether the message with this id was said in this run and has had no reply yet."""
        return source_id in self._waiting

    def text_of(self, source_id: str) -> str | None:
        """What was said under this id, as long as its reply is due."""
        return self._waiting.get(source_id)

    def begin(self, text: str) -> str:
        """Note a message that is about to be said and give it an id: its reply is due from now on."""
        source_id = uuid4().hex
        self._waiting[source_id] = replace_surrogates(text)
        return source_id

    async def say(self, source_id: str, text: str) -> None:
        """Hand in a message that was begun; return once it is on disk.

        Raises:
            BusError: nothing was stored.
            ChannelError: the terminal is not on its own allow list.
        """
        text = replace_surrogates(text)
        self._waiting.setdefault(source_id, text)
        is_stored = False
        try:
            [receipt] = await self._inbox.receive(self._build_arrival(text, source_id))
            is_stored = receipt is not Receipt.REFUSED
        finally:
            if not is_stored:
                self._waiting.pop(source_id, None)
        if not is_stored:
            raise ChannelError(phrases.NOT_ADMITTED.say(self._language))

    def settle(self, part: OutboundPart) -> bool:
        """Note a part of a reply; True where it ends the waiting for something said in this run.

        A session's turns run in order, so a reply ends the waiting for what was said before it
        too (a turn may take several messages). Control commands overtake and end only their own,
        except `/stop`, which leaves nothing running and nothing queued.
        """
        source_id = part.reply_to
        if source_id is None or source_id not in self._waiting or not part.is_last or part.kind not in _ENDING:
            return False
        text = self._waiting[source_id]
        if command_of(text) == STOP:
            self._waiting.clear()
        elif lane_of(text) is Lane.CONTROL:
            del self._waiting[source_id]
        else:
            self._forget_through(source_id)
        return True

    def _forget_through(self, source_id: str) -> None:
        for waiting_id, text in list(self._waiting.items()):
            if lane_of(text) is not Lane.CONTROL:
                del self._waiting[waiting_id]
            if waiting_id == source_id:
                return

    def _build_arrival(self, text: str, source_id: str) -> Arrival:
        message = InboundMessage(
            address=self._address,
            sender_id=SENDER_ID,
            text=text,
            received_at=datetime.now(UTC),
            source_id=source_id,
        )
        return Arrival(
            event_key=source_id,
            session_key=self._address.session_key,
            sender_id=SENDER_ID,
            lane=lane_of(text),
            raw={},
            source_id=source_id,
            message=message,
        )
