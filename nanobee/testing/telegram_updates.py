"""The queue of updates that the fake Telegram keeps for its bot."""

import itertools
from collections import deque

import anyio

from nanobee.messages import Json, JsonObject
from nanobee.testing.telegram_chats import RefusalError
from nanobee.testing.watch import Watch

MAX_WAIT_SECONDS = 50
MAX_BATCH = 100
DEFAULT_OFF = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
"""Not sent to a bot that never asked for them."""
CONFLICT = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
WEBHOOK = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"


class UpdateQueue:
    """Keeps each update until a poll with a higher offset, as the real one does.

    Of two polls at once, the older is ended with 409.
    """

    def __init__(self) -> None:
        self.waiting: deque[Json] = deque()
        self.acknowledged: list[int] = []
        self.dropped: list[JsonObject] = []
        """Not among the allowed updates: the bot never gets them."""
        self.allowed: frozenset[str] | None = None
        """The last list that was given; it stays, over restarts of the bot too."""
        self.has_webhook = False
        self._next_id = itertools.count(700_000_001)
        self._watch = Watch()
        self._poll = 0

    def push(self, update: JsonObject) -> int:
        """Queue an update, under its own id if it has one; returns the id."""
        given = update.get("update_id")
        update_id = given if isinstance(given, int) else next(self._next_id)
        kinds = [key for key in update if key != "update_id"]
        update = {"update_id": update_id, **update}
        if kinds and not self._wants(kinds[0]):
            self.dropped.append(update)
        else:
            self.push_raw(update)
        return update_id

    def push_raw(self, update: Json) -> None:
        """Queue anything as it is, also what is no update."""
        self.waiting.append(update)
        self._watch.notify()

    def acknowledge(self, parameters: JsonObject) -> None:
        """Begin to answer a getUpdates: take its list of kinds, forget what is before its offset.

        Raises:
            RefusalError: a webhook is set.
        """
        if self.has_webhook:
            raise RefusalError(409, WEBHOOK)
        allowed = parameters.get("allowed_updates")
        if isinstance(allowed, list):
            self.allowed = frozenset(str(kind) for kind in allowed) or None
        offset = _whole(parameters, "offset", 0)
        while self.waiting and _id_of(self.waiting[0]) < offset:
            self.acknowledged.append(_id_of(self.waiting.popleft()))

    async def take(self, parameters: JsonObject) -> list[Json]:
        """Wait for updates and return them; they stay in the queue.

        Raises:
            RefusalError: a newer poll took over.
        """
        seconds = min(_whole(parameters, "timeout", 0), MAX_WAIT_SECONDS)
        self._poll += 1
        mine = self._poll
        self._watch.notify()
        with anyio.move_on_after(seconds):
            while not self.waiting and seconds:
                await self._watch.next()
                if mine != self._poll:
                    raise RefusalError(409, CONFLICT)
        return list(itertools.islice(self.waiting, min(_whole(parameters, "limit", MAX_BATCH), MAX_BATCH)))

    def _wants(self, kind: str) -> bool:
        return kind not in DEFAULT_OFF if self.allowed is None else kind in self.allowed


def _id_of(update: Json) -> int:
    update_id = update.get("update_id") if isinstance(update, dict) else None
    return update_id if isinstance(update_id, int) else 0


def _whole(parameters: JsonObject, name: str, default: int) -> int:
    value = parameters.get(name)
    return value if isinstance(value, int) else default
