"""ApiFault: why a call to the Bot API failed, and what that means for a message. Pure.

Faults are sorted here by status and cause, because python-telegram-bot's own classes melt
together what must be told apart: a 400 is one of its network errors, and so is a cut answer.
"""

import json
import re
from collections.abc import Mapping

from nanobee.errors import DeliveryError, NotSentError, RefusedError, UnknownOutcomeError
from nanobee.messages import Json, JsonObject

AUTH_RETRY_SECONDS = 60.0
"""A message waits so long while the token is refused: its owner may put it right."""
_NOT_TAKEN_STATUSES = frozenset({500, 502, 503})
"""Telegram's front end says these when it could not take the call; any other 5xx may come after the message."""
_KIND = re.compile("^(?:Bad Request|Conflict|Forbidden|Internal Server Error|Too Many Requests): ")
"""Telegram's word for a status; the status stands behind the reason anyway."""
_UNEDITABLE = ("message to edit not found", "message can't be edited", "message_id_invalid")
_MAX_REASON_CHARS = 200
_MAX_NUMBER = 2**53
"""Chat ids are smaller; neither NaN nor infinity is."""


class ApiFault(Exception):
    """A call that failed. Its text is fit for people and holds no token."""

    def __init__(
        self,
        reason: str,
        status: int | None = None,
        *,
        is_not_sent: bool = False,
        is_refused: bool = False,
        retry_after_seconds: float | None = None,
        moved_to: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        """The HTTP status, None where no answer came."""
        self.is_not_sent = is_not_sent
        """The call surely had no effect."""
        self.is_refused = is_refused
        """Telegram itself said no to this call; the same call will be refused again."""
        self.retry_after_seconds = retry_after_seconds
        self.moved_to = moved_to
        """The new id of a chat that became a supergroup."""

    @property
    def is_auth(self) -> bool:
        """Whether Telegram refuses the token."""
        return self.is_refused and self.status in (401, 404)

    @property
    def is_unmodified(self) -> bool:
        """Whether an edit was refused because the message has that text already: it is as it should be."""
        return self.is_refused and "message is not modified" in self.reason.lower()

    @property
    def is_uneditable(self) -> bool:
        """Whether an edit was refused because its message is gone, or can be edited no more."""
        said = self.reason.lower()
        return self.moved_to is not None or (self.is_refused and any(words in said for words in _UNEDITABLE))

    @property
    def is_conflict(self) -> bool:
        """Whether somebody else receives this bot's updates."""
        return self.status == 409


def fault_of_answer(status: int, payload: bytes, token: str) -> ApiFault:
    """What an answer says that is not a success."""
    answer = _read(payload)
    if answer is None:
        # Something between us and Telegram spoke.
        return ApiFault(
            f"HTTP {status} without an answer from Telegram",
            status,
            is_not_sent=status < 500 or status in _NOT_TAKEN_STATUSES,
            is_refused=status == 413,
        )
    parameters = answer.get("parameters")
    parameters = parameters if isinstance(parameters, Mapping) else {}
    wait, moved_to = _number(parameters.get("retry_after")), _number(parameters.get("migrate_to_chat_id"))
    return ApiFault(
        _describe(status, answer.get("description"), token),
        status,
        is_not_sent=status < 500 or status in _NOT_TAKEN_STATUSES,
        is_refused=400 <= status < 500 and status not in (409, 429) and wait is None,
        retry_after_seconds=wait,
        moved_to=None if moved_to is None else str(int(moved_to)),
    )


def delivery_error(fault: ApiFault, *, may_repeat: bool = False) -> DeliveryError:
    """The fault of a send in our own terms; a call that `may_repeat` does no harm when it is made twice."""
    if fault.is_auth:
        return NotSentError(fault.reason, AUTH_RETRY_SECONDS)
    if fault.is_refused:
        return RefusedError(fault.reason)
    if fault.is_not_sent or may_repeat:
        return NotSentError(fault.reason, fault.retry_after_seconds)
    return UnknownOutcomeError(fault.reason)


def repair(parameters: JsonObject, fault: ApiFault) -> JsonObject | None:
    """The parameters of a refused send without what Telegram refused; None where that is not known."""
    said = fault.reason.lower()
    if fault.moved_to is not None and parameters.get("chat_id") != fault.moved_to:
        # Message and topic ids of the old chat mean nothing in the new one.
        return {**_without(parameters, "message_thread_id", "reply_parameters"), "chat_id": fault.moved_to}
    if not fault.is_refused:
        return None
    if "thread not found" in said and "message_thread_id" in parameters:
        return _without(parameters, "message_thread_id")
    if "repl" in said and "not found" in said and "reply_parameters" in parameters:
        return _without(parameters, "reply_parameters")
    return None


def _without(parameters: JsonObject, *names: str) -> dict[str, Json]:
    return {name: value for name, value in parameters.items() if name not in names}


def _read(payload: bytes) -> JsonObject | None:
    """The Bot API's own answer; None for a proxy's page."""
    try:
        answer = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) and answer.get("ok") is False else None


def _describe(status: int, description: Json, token: str) -> str:
    if status in (401, 404):
        return f"Telegram refuses the bot's token (HTTP {status})"
    said = description if isinstance(description, str) else ""
    said = " ".join(said.replace(token, "***").split())
    said = _KIND.sub("", said)[:_MAX_REASON_CHARS]
    return f"Telegram: {said or 'no reason given'} (HTTP {status})"


def _number(value: Json) -> int | float | None:
    return value if isinstance(value, int | float) and type(value) is not bool and abs(value) < _MAX_NUMBER else None
