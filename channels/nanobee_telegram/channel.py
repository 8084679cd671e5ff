"""TelegramChannel: one Telegram bot, by long polling."""

import logging
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import anyio

from nanobee.channel import Channel, ChannelStatus, Inbox
from nanobee.errors import PluginError, RefusedError
from nanobee.messages import Json, JsonObject, LivePart, OutboundPart, PartKind
from nanobee_telegram.faults import ApiFault, delivery_error, repair
from nanobee_telegram.health import Health
from nanobee_telegram.parameters import deletion_parameters, edit_parameters, message_id_of, message_parameters
from nanobee_telegram.settings import TelegramSettings
from nanobee_telegram.streaming import Streamer
from nanobee_telegram.text import clean, split_text

if TYPE_CHECKING:
    from nanobee_telegram.api import TelegramApi
    from nanobee_telegram.polling import Poller, Sleep

MAX_REPAIRS = 3
"""How often one send is tried again without what Telegram refused of it."""
MISSING_SDK = 'the Telegram channel needs python-telegram-bot: pip install "nanobee-gateway[telegram]"'

logger = logging.getLogger(__name__)


class TelegramChannel(Channel[TelegramSettings]):
    """Receives text by long polling, sends text and shows it while it grows; the SDK is imported by the first use.

    Raises:
        PluginError: python-telegram-bot is not installed.
    """

    settings_type = TelegramSettings
    can_stream = True
    frame_seconds = 0.25
    takes_empty_answers = True

    def __init__(
        self,
        name: str,
        settings: TelegramSettings,
        *,
        sleep: "Sleep" = anyio.sleep,
        now: Callable[[], float] = anyio.current_time,
    ) -> None:
        super().__init__(name, settings)
        if find_spec("telegram") is None:
            raise PluginError(MISSING_SDK)
        self._sleep = sleep
        self._health = Health(name)
        self._api: TelegramApi | None = None
        self._streamer = Streamer(name, settings.streaming, self._open_api, now)

    @property
    def account(self) -> str:
        """The bot's id, which is the token's public half."""
        return self.settings.token.get_secret_value().partition(":")[0]

    async def run(self, inbox: Inbox) -> None:
        self._health.start()
        try:
            api = self._open_api()
            from nanobee_telegram.polling import Poller

            poller = Poller(self.name, self.settings, api, self._health, self._sleep)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._streamer.run)
                failure = await _failure(poller, inbox)
                tasks.cancel_scope.cancel()
        finally:
            await self.aclose()
        raise failure

    async def send(self, part: OutboundPart) -> tuple[str, ...]:
        text = clean(part.text)
        if part.attachments:
            raise RefusedError("files cannot be sent to Telegram yet")
        is_end = not text and part.kind is PartKind.ANSWER
        if not text.strip() and not is_end:
            raise RefusedError("there is no text to send")
        await self._streamer.close(part.address)
        api = self._open_api()
        if is_end:
            return await self._take_back(api, part)
        if part.handle and await self._complete(api, part, text):
            return part.handle
        reply_to = part.reply_to if part.part == 0 else None
        try:
            return message_id_of(await self._send_repaired(api, message_parameters(part.address, text, reply_to)))
        except ApiFault as fault:
            raise delivery_error(fault) from None

    async def stream(self, part: LivePart, text: str) -> tuple[str, ...]:
        return await self._streamer.show(part, text)

    def split(self, text: str) -> Sequence[str]:
        return split_text(text)

    def status(self) -> ChannelStatus:
        return self._health.status()

    async def aclose(self) -> None:
        """Close the connections; calls under way may end within a moment. A later send opens new ones."""
        api, self._api = self._api, None
        if api is not None:
            await api.aclose()

    def _open_api(self) -> "TelegramApi":
        if self._api is None:
            try:
                # First, since it keeps httpx from importing its command line.
                import nanobee.http_client  # noqa: F401
                from nanobee_telegram.api import TelegramApi
            except ImportError as error:
                raise PluginError(f"{MISSING_SDK} ({error.name} cannot be imported)") from error
            self._api = TelegramApi(self.settings)
        return self._api

    async def _take_back(self, api: "TelegramApi", part: OutboundPart) -> tuple[str, ...]:
        """Remove a streamed message to which nothing is added: the turn has said the same by itself."""
        if part.handle:
            try:
                await api.delete_message(deletion_parameters(part.address, part.handle[0]))
            except ApiFault as fault:
                if not fault.is_refused or fault.is_auth:
                    raise delivery_error(fault, may_repeat=True) from None
                logger.info("channel %s: a streamed message is left as it is: %s", self.name, fault)
        return ()

    async def _complete(self, api: "TelegramApi", part: OutboundPart, text: str) -> bool:
        """Make the streamed message the final text; False where there is none any more."""
        try:
            await api.edit_message(edit_parameters(part.address, part.handle[0], text))
        except ApiFault as fault:
            if fault.is_uneditable:
                logger.info("channel %s: a streamed message is gone; its text is sent anew: %s", self.name, fault)
                return False
            if not fault.is_unmodified:
                raise delivery_error(fault, may_repeat=True) from None
        return True

    async def _send_repaired(self, api: "TelegramApi", parameters: JsonObject) -> Json:
        for _ in range(MAX_REPAIRS):
            try:
                return await api.send_message(parameters)
            except ApiFault as fault:
                repaired = repair(parameters, fault)
                if repaired is None:
                    raise
                logger.info("channel %s: sent again without what was refused: %s", self.name, fault)
                parameters = repaired
        return await api.send_message(parameters)


async def _failure(poller: "Poller", inbox: Inbox) -> Exception:
    """How polling ends; raised inside of a task group, it would come out wrapped."""
    try:
        await poller.run(inbox)
    except Exception as error:
        return error
