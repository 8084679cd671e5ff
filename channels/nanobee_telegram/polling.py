"""Poller: our own getUpdates loop, which stores what came before Telegram may forget it.

Telegram forgets an update as soon as it is asked for the next ones. python-telegram-bot's own
loop asks at once, so that a crash loses what it holds; this one asks after `Inbox.receive`.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import NoReturn, TypeVar

from nanobee.channel import Arrival, Inbox
from nanobee.errors import BusError, ChannelAuthError
from nanobee.messages import JsonObject
from nanobee_telegram.api import TelegramApi
from nanobee_telegram.faults import ApiFault
from nanobee_telegram.health import Health
from nanobee_telegram.settings import TelegramSettings
from nanobee_telegram.updates import UpdateError, UpdateReader, update_id_of

FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 30.0
"""Pauses double from the first up to this, while Telegram or the store fails."""
MAX_WAIT_SECONDS = 600.0
"""The longest wait that is taken from Telegram's own word."""

logger = logging.getLogger(__name__)
T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class Poller:
    """Receives for one channel until it is cancelled."""

    def __init__(
        self, channel: str, settings: TelegramSettings, api: TelegramApi, health: Health, sleep: Sleep
    ) -> None:
        self._channel = channel
        self._settings = settings
        self._api = api
        self._health = health
        self._sleep = sleep

    async def run(self, inbox: Inbox) -> NoReturn:
        """Poll, store, and only then go on to the next updates.

        Raises:
            ChannelAuthError: Telegram refuses the token.
        """
        account = await self._persist(self._api.get_me)
        reader = UpdateReader(self._channel, account.id, account.username, self._settings.group_policy)
        offset = 0
        while True:
            updates = await self._persist(partial(self._api.get_updates, offset))
            arrivals = self._read(reader, updates)
            if arrivals:
                await self._store(inbox, arrivals)
            if updates:
                offset = update_id_of(updates[-1]) + 1

    def _read(self, reader: UpdateReader, updates: Sequence[JsonObject]) -> list[Arrival]:
        now = datetime.now(UTC)
        arrivals = []
        for update in updates:
            try:
                arrival = reader.read(update, now)
            except UpdateError as error:
                update_id = update_id_of(update)
                logger.error("channel %s: update %d is left out: %s", self._channel, update_id, error)
            else:
                if arrival is not None:
                    arrivals.append(arrival)
        return arrivals

    async def _store(self, inbox: Inbox, arrivals: Sequence[Arrival]) -> None:
        """Hand in until it is stored: what was not stored must not be acknowledged."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await inbox.receive(*arrivals)
            except BusError as error:
                self._health.trouble(f"what arrives cannot be stored ({error})")
                await self._sleep(pause)
                pause = min(2 * pause, MAX_PAUSE_SECONDS)
            else:
                self._health.succeed()
                return

    async def _persist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call again until it succeeds, with growing pauses."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                result = await call()
            except ApiFault as fault:
                await self._bear(fault, pause)
                pause = min(2 * pause, MAX_PAUSE_SECONDS)
            else:
                self._health.succeed()
                return result

    async def _bear(self, fault: ApiFault, pause: float) -> None:
        """Wait as the fault asks for; give up where waiting does not help."""
        if fault.is_auth:
            self._health.fail(fault.reason)
            raise ChannelAuthError(f"channel {self._channel}: {fault.reason}") from None
        self._health.trouble(_CONFLICT if fault.is_conflict else fault.reason)
        if fault.is_conflict and "webhook" in fault.reason.lower():
            await self._remove_webhook()
        wait = fault.retry_after_seconds
        await self._sleep(pause if wait is None else min(max(wait, pause), MAX_WAIT_SECONDS))

    async def _remove_webhook(self) -> None:
        logger.warning("channel %s: a webhook is set for this bot; it is removed, for polling", self._channel)
        try:
            await self._api.delete_webhook()
        except ApiFault as fault:
            logger.warning("channel %s: the webhook cannot be removed: %s", self._channel, fault)


_CONFLICT = "another program receives this bot's messages (HTTP 409): only one may use the token"
