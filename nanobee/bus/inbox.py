"""ChannelInbox: the door through which one channel's events come in."""

import logging

from nanobee.bus.bus import Bus, NewRow
from nanobee.channel import AnyChannel, Arrival, Receipt, admits

logger = logging.getLogger(__name__)


class ChannelInbox:
    """Implements `nanobee.channel.Inbox` for one channel: closed to strangers, deduplicated, durable."""

    def __init__(self, bus: Bus, channel: AnyChannel) -> None:
        self._bus = bus
        self._channel = channel

    async def receive(self, *arrivals: Arrival) -> list[Receipt]:
        """Store the arrivals of admitted senders, in one transaction.

        Raises:
            BusError: nothing was stored; the channel must not acknowledge.
        """
        receipts = [Receipt.REFUSED] * len(arrivals)
        admitted = []
        for place, arrival in enumerate(arrivals):
            if not admits(self._channel.settings.allow_from, arrival.sender_id):
                # The id is what the owner needs to admit the person.
                logger.info(
                    "channel %s: ignored a message of %r: not in allow_from", self._channel.name, arrival.sender_id
                )
                continue
            if not arrival.session_key.startswith(f"{self._channel.name}:"):
                # The channel's fault, which the next delivery of the same event would only repeat.
                logger.error("channel %s handed in a message for %s", self._channel.name, arrival.session_key)
                continue
            admitted.append((place, NewRow(arrival, self._dedupe(arrival))))
        if admitted:
            stored = await self._bus.receive([row for _, row in admitted])
            for (place, _), receipt in zip(admitted, stored, strict=True):
                receipts[place] = receipt
        return receipts

    def _dedupe(self, arrival: Arrival) -> str:
        return f"{self._channel.name}:{self._channel.account}:{arrival.event_key}"
