"""TelegramChannel: one Telegram bot, by long polling."""

import logging
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import anyio

from nanobee.channel import Channel, ChannelStatus, Inbox
from nanobee.errors import PluginError, RefusedError
from nanobee.messages import Json, JsonObject, OutboundPart
from nanobee_telegram.faults import ApiFault, delivery_error, repair
from nanobee_telegram.health import Health
from nanobee_telegram.settings import TelegramSettings
from nanobee_telegram.text import clean, split_text

if TYPE_CHECKING:
    from nanobee_telegram.api import TelegramApi
    from nanobee_telegram.polling import Sleep

MAX_REPAIRS = 3
"""How often one send is tried again without what Telegram refused of it."""
GENERAL_TOPIC = "1"
"""A forum's first topic, which Telegram refuses to be told by its id."""
MISSING_SDK = 'the Telegram channel needs python-telegram-bot: pip install "nanobee-gateway[telegram]"'

logger = logging.getLogger(__name__)


class TelegramChannel(Channel[TelegramSettings]):
    """Receives text by long polling and sends text; the SDK is imported by the first use.

    Raises:
        PluginError: python-telegram-bot is not installed.
    """

    settings_type = TelegramSettings

    def __init__(self, name: str, settings: TelegramSettings, *, sleep: "Sleep" = anyio.sleep) -> None:
        super().__init__(name, settings)
        if find_spec("telegram") is None:
            raise PluginError(MISSING_SDK)
        self._sleep = sleep
        self._health = Health(name)
        self._api: TelegramApi | None = None

    @property
    def account(self) -> str:
        """The bot's id, which is the token's public half."""
        return self.settings.token.get_secret_value().partition(":")[0]

    async def run(self, inbox: Inbox) -> None:
        self._health.start()
        try:
            api = self._open_api()
            from nanobee_telegram.polling import Poller

            await Poller(self.name, self.settings, api, self._health, self._sleep).run(inbox)
        finally:
            await self.aclose()

    async def send(self, part: OutboundPart) -> tuple[str, ...]:
        text = clean(part.text)
        if part.attachments:
            raise RefusedError("files cannot be sent to Telegram yet")
        if not text.strip():
            raise RefusedError("there is no text to send")
        try:
            message = await self._send_repaired(self._open_api(), _parameters(part, text))
        except ApiFault as fault:
            raise delivery_error(fault) from None
        message_id = message.get("message_id") if isinstance(message, dict) else None
        return () if message_id is None else (str(message_id),)

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


def _parameters(part: OutboundPart, text: str) -> JsonObject:
    """What `sendMessage` is called with: plain text, in the right topic, as a reply on its first part."""
    parameters: dict[str, Json] = {
        "chat_id": part.address.chat_id,
        "text": text,
        "link_preview_options": {"is_disabled": True},
    }
    if part.address.thread not in (None, GENERAL_TOPIC):
        parameters["message_thread_id"] = part.address.thread
    if part.reply_to is not None and part.reply_to.isdecimal() and part.part == 0:
        parameters["reply_parameters"] = {"message_id": int(part.reply_to), "allow_sending_without_reply": True}
    return parameters
