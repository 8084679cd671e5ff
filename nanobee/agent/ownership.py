"""Ownership: which messages are the owner's own, so that tools may be offered that nobody else may use."""

from dataclasses import dataclass

from nanobee.messages import InboundMessage


@dataclass(frozen=True, slots=True)
class Ownership:
    """The owner's ids, and the channels that nobody else can reach."""

    ids: frozenset[str] = frozenset()
    """`channel:sender_id`."""
    terminals: frozenset[str] = frozenset()
    """Names of the channels that are terminals of this machine."""

    def owns(self, message: InboundMessage) -> bool:
        """Whether the owner said it in a chat of their own: a terminal, or a chat that has the owner's id.

        In a group the owner's own words stand among others', which the model cannot tell apart.
        """
        address = message.address
        if address.channel in self.terminals:
            return True
        return address.chat_id == message.sender_id and f"{address.channel}:{message.sender_id}" in self.ids
