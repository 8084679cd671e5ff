"""TelegramApi: python-telegram-bot's Bot over our own HTTP transport.

This module imports the SDK, so it is imported only when a channel is switched on.

Calls go through `Bot.do_api_request`: the typed methods build objects of the whole answer, at twice
the cost a message. A request that is under way is not cut off by a cancelled caller, since
nobody could say afterwards whether it arrived.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import httpx
from telegram import Bot
from telegram.error import TelegramError
from telegram.request import BaseRequest, RequestData

from nanobee.http_client import HTTP_ERRORS, create_transport, is_not_sent
from nanobee.messages import Json, JsonObject
from nanobee_telegram.faults import ApiFault, fault_of_answer
from nanobee_telegram.settings import TelegramSettings
from nanobee_telegram.updates import ALLOWED_UPDATES

POLL_CONNECTIONS = 2
"""One for the long poll, one for a poll whose predecessor still closes."""
STOP_GRACE_SECONDS = 1.0
"""How long calls under way may go on when the channel closes."""
CLOSE_SECONDS = 0.25
"""How long the closing of idle connections may take."""
MAX_FRAME_SECONDS = 3.0
"""How long one look at a growing answer may take; its final text waits behind it."""
MAX_POLL_SILENCE_SECONDS = 10.0
"""How long a long poll may keep silent after the time that it was asked to wait."""
CALL_SLACK_SECONDS = 5.0
"""How much longer than its time-outs a call may take in all, against an answer that drips."""

logger = logging.getLogger(__name__)
# Below WARNING, PTB logs the bot's address, which holds the token, and the text of every message;
# no level that somebody sets may bring that out.
logging.getLogger("telegram.Bot").addFilter(lambda record: record.levelno >= logging.WARNING)


@dataclass(frozen=True, slots=True)
class Account:
    """Who the bot is."""

    id: int
    username: str


class TelegramApi:
    """The calls that the channel makes. Opened by the first call, in whatever loop that runs."""

    def __init__(self, settings: TelegramSettings) -> None:
        self._settings = settings
        token = settings.token.get_secret_value()
        self._requests = (
            _ApiRequest(settings, POLL_CONNECTIONS),
            _ApiRequest(settings, settings.max_connections),
        )
        self._bot = Bot(
            token,
            base_url=f"{settings.base_url}/bot",
            base_file_url=f"{settings.base_url}/file/bot",
            get_updates_request=self._requests[0],
            request=self._requests[1],
        )
        self._under_way: set[anyio.CancelScope] = set()
        self._last_call_ended: anyio.Event | None = None

    async def get_me(self) -> Account:
        """Who the token belongs to.

        Raises:
            ApiFault: the call failed.
        """
        me = await self._call_whole("get_Me", {})
        if not isinstance(me, dict) or not isinstance(me.get("id"), int):
            raise ApiFault("Telegram's answer to getMe is damaged")
        return Account(me["id"], str(me.get("username", "")))

    async def get_updates(self, offset: int) -> Sequence[JsonObject]:
        """Wait for updates, each of which has an id; with this call, Telegram forgets those before `offset`.

        A cancelled poll is cut off at once: what it would have brought comes again.

        Raises:
            ApiFault: the call failed.
        """
        wait = self._settings.poll_timeout_seconds
        parameters: JsonObject = {"offset": offset, "timeout": wait, "allowed_updates": list(ALLOWED_UPDATES)}
        read_timeout = wait + min(self._settings.read_timeout_seconds, MAX_POLL_SILENCE_SECONDS)
        with anyio.move_on_after(self._bound(read_timeout)):
            updates = await self._call("get_Updates", parameters, read_timeout)
            return _with_id(updates)
        raise ApiFault("Telegram's answer does not end")

    async def send_message(self, parameters: JsonObject) -> Json:
        """Send one message; the result is the message as it stands in the chat.

        Raises:
            ApiFault: the call failed.
        """
        return await self._call_whole("send_Message", parameters)

    async def edit_message(self, parameters: JsonObject) -> None:
        """Give a message its final text.

        Raises:
            ApiFault: the call failed.
        """
        await self._call_whole("edit_Message_Text", parameters)

    async def delete_message(self, parameters: JsonObject) -> None:
        """Remove a message.

        Raises:
            ApiFault: the call failed.
        """
        await self._call_whole("delete_Message", parameters)

    async def show_edit(self, parameters: JsonObject) -> None:
        """Give a message a text that others follow.

        Raises:
            ApiFault: the call failed, or did not end soon.
        """
        await self._call_soon("edit_Message_Text", parameters)

    async def show_draft(self, parameters: JsonObject) -> None:
        """Show what is about to be said.

        Raises:
            ApiFault: the call failed, or did not end soon.
        """
        await self._call_soon("send_Message_Draft", parameters)

    async def delete_webhook(self) -> None:
        """Make polling possible again; updates that wait are kept.

        Raises:
            ApiFault: the call failed.
        """
        await self._call_whole("delete_Webhook", {})

    async def aclose(self) -> None:
        """Let calls under way end within a moment, then close all connections."""
        with anyio.CancelScope(shield=True):
            if self._under_way:
                self._last_call_ended = anyio.Event()
                end = anyio.current_time() + STOP_GRACE_SECONDS
                for scope in self._under_way:
                    scope.deadline = min(scope.deadline, end)
                await self._last_call_ended.wait()
            for request in self._requests:
                with anyio.move_on_after(CLOSE_SECONDS):
                    await request.shutdown()

    async def _call_whole(self, endpoint: str, parameters: JsonObject) -> Json:
        """Call without being cut off by a cancelled caller, but for a bounded time."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        read_timeout = self._settings.read_timeout_seconds
        with anyio.CancelScope(deadline=anyio.current_time() + self._bound(read_timeout), shield=True) as scope:
            self._under_way.add(scope)
            try:
                return await self._call(endpoint, parameters, read_timeout)
            finally:
                self._under_way.discard(scope)
                if self._last_call_ended is not None and not self._under_way:
                    self._last_call_ended.set()
        raise ApiFault("Telegram did not answer in time")

    async def _call_soon(self, endpoint: str, parameters: JsonObject) -> None:
        """Call for a short time only, since something that matters more may wait behind it."""
        with anyio.move_on_after(MAX_FRAME_SECONDS):
            await self._call(endpoint, parameters, MAX_FRAME_SECONDS)
            return
        raise ApiFault("Telegram did not answer soon")

    async def _call(self, endpoint: str, parameters: JsonObject, read_timeout: float) -> Json:
        """Make one call. The endpoint is spelled `send_Message`.

        `do_api_request` makes `sendMessage` out of that as it does of `send_message`, but it warns
        where the bot has a typed method of the name that it is given.
        """
        try:
            result: Json = await self._bot.do_api_request(endpoint, dict(parameters), read_timeout=read_timeout)
        except _FailedCallError as error:
            fault = error.fault
        except (TelegramError, LookupError, TypeError) as error:
            # Texts of others may quote the address, which holds the token.
            fault = ApiFault(f"Telegram's answer cannot be used ({type(error.__cause__ or error).__name__})")
        else:
            return result
        raise fault

    def _bound(self, read_timeout: float) -> float:
        # The sending may take as long as the answer may keep silent.
        return self._settings.connect_timeout_seconds + 2 * read_timeout + CALL_SLACK_SECONDS


class _FailedCallError(TelegramError):
    """Carries a fault through PTB, which hands on errors of its own tree only."""

    def __init__(self, fault: ApiFault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


class _ApiRequest(BaseRequest):
    """What PTB needs of an HTTP client, on the transport itself.

    Without httpx's client in between, a call costs a third less, and no request is logged.
    """

    def __init__(self, settings: TelegramSettings, max_connections: int) -> None:
        self._token = settings.token.get_secret_value()
        self._connect_timeout = settings.connect_timeout_seconds
        self._read_timeout = settings.read_timeout_seconds
        self._transport = create_transport(proxy=settings.proxy, max_connections=max_connections)

    @property
    def read_timeout(self) -> float:
        return self._read_timeout

    async def initialize(self) -> None:
        """The transport opens itself."""

    async def shutdown(self) -> None:
        await self._transport.aclose()

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: Any = None,
        write_timeout: Any = None,
        connect_timeout: Any = None,
        pool_timeout: Any = None,
    ) -> tuple[int, bytes]:
        read = read_timeout if isinstance(read_timeout, int | float) else self._read_timeout
        request = httpx.Request(
            method,
            url,
            data=request_data.json_parameters if request_data is not None else None,
            headers={"User-Agent": self.USER_AGENT},
            extensions={
                "timeout": httpx.Timeout(
                    connect=self._connect_timeout,
                    pool=self._connect_timeout,
                    read=read,
                    write=self._read_timeout,
                ).as_dict()
            },
        )
        try:
            response = await self._transport.handle_async_request(request)
            try:
                payload = await response.aread()
            finally:
                await response.aclose()
        except HTTP_ERRORS as error:
            raise _FailedCallError(_fault_of_transport(error)) from None
        if not 200 <= response.status_code < 300:
            raise _FailedCallError(fault_of_answer(response.status_code, payload, self._token))
        return response.status_code, payload

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Read a success; PTB's own method logs, whole, what it cannot read."""
        try:
            answer = json.loads(payload)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or "result" not in answer:
            raise _FailedCallError(ApiFault("what answered is not Telegram"))
        return answer


def _with_id(updates: Json) -> list[JsonObject]:
    """Leave out what cannot be acknowledged by itself; what comes behind it acknowledges it."""
    if not isinstance(updates, list):
        raise ApiFault("Telegram's answer to getUpdates is damaged")
    usable: list[JsonObject] = [
        update for update in updates if isinstance(update, dict) and type(update.get("update_id")) is int
    ]
    if len(usable) < len(updates):
        logger.error(
            "%d of %d updates from Telegram have no id and are left out", len(updates) - len(usable), len(updates)
        )
        if not usable:
            raise ApiFault("Telegram's answer to getUpdates is damaged")
    return usable


def _fault_of_transport(error: Exception) -> ApiFault:
    if is_not_sent(error):
        return ApiFault("Telegram cannot be reached", is_not_sent=True)
    if isinstance(error, httpx.TimeoutException):
        return ApiFault("Telegram did not answer in time")
    return ApiFault("the connection to Telegram broke")
