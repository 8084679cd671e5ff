"""Switchboard: tells each part of the gateway what the bus has for it."""

from collections.abc import Mapping
from dataclasses import dataclass

from nanobee.agent.dispatch import Dispatcher
from nanobee.bus.delivery import Delivery
from nanobee.bus.resolver import Resolver
from nanobee.channel import AnyChannel
from nanobee.messages import Address


@dataclass(frozen=True, slots=True)
class Switchboard:
    """Tells each part what the bus has for it; implements `nanobee.bus.bus.Listener`."""

    dispatcher: Dispatcher
    resolver: Resolver
    delivery: Delivery
    channels: Mapping[str, AnyChannel]

    def session_ready(self, session_key: str) -> None:
        """To the dispatcher, if the session's channel is here: else nobody could get the answer."""
        if session_key.partition(":")[0] in self.channels:
            self.dispatcher.session_ready(session_key)

    def control_ready(self) -> None:
        """To the dispatcher."""
        self.dispatcher.control_ready()

    def row_arriving(self) -> None:
        """To the resolver."""
        self.resolver.row_arriving()

    def outbox_ready(self, address: Address) -> None:
        """To the delivery."""
        self.delivery.wake(address)
