"""The Telegram channel, on the real SDK and a fake Telegram, holds to the channel contract."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pydantic import SecretStr

from nanobee.messages import Address
from nanobee.testing.channel_contract import ChannelContract, ChannelHarness, SendFault
from nanobee.testing.telegram_chats import TelegramChat
from nanobee.testing.telegram_server import TelegramServer
from nanobee_telegram import TelegramChannel, TelegramSettings
from tests.telegram.conftest import TOKEN, Pauses


class TelegramHarness(ChannelHarness):
    """One topic of a forum, where the bot hears everything."""

    secrets = (TOKEN, TOKEN.partition(":")[2])

    def __init__(self, server: TelegramServer, chat: TelegramChat, topic: int) -> None:
        self._server = server
        self._chat = chat
        self._topic = topic
        self.opened: list[TelegramChannel] = []
        self.restart()

    @property
    def channel(self) -> TelegramChannel:
        return self.opened[-1]

    @property
    def address(self) -> Address:
        return Address("telegram", str(self._chat.id), str(self._topic))

    async def say(self, text: str, *, sender: str = "1001") -> None:
        self._chat.says(text, sender=int(sender), thread=self._topic)

    async def visible(self) -> Sequence[str]:
        return [str(message["text"]) for message in self._server.sent(self._chat.id)]

    def restart(self) -> None:
        settings = TelegramSettings(token=SecretStr(TOKEN), base_url=self._server.base_url, group_policy="all")
        self.opened.append(TelegramChannel("telegram", settings, sleep=Pauses()))

    def acknowledged(self) -> int:
        return len(self._server.updates.acknowledged)

    async def wait_acknowledged(self, count: int) -> None:
        await self._server.wait_acknowledged(count)

    async def fail_send(self, fault: SendFault) -> None:
        faults = self._server.faults
        match fault:
            case SendFault.UNREACHABLE:
                await self._server.stop_listening()
            case SendFault.LIMITED:
                faults.fail("sendMessage", 429, "Too Many Requests: retry after 7", retry_after=7)
            case SendFault.CUT_BEFORE | SendFault.CUT_AFTER:
                faults.cut("sendMessage", after_delivery=fault is SendFault.CUT_AFTER)
            case SendFault.REFUSED:
                faults.fail("sendMessage", 400, f"Bad Request: chat not found at /bot{TOKEN}/sendMessage")


class TestTelegramChannel(ChannelContract):
    package = "nanobee_telegram"
    sdks = ("telegram", "httpx", "aiohttp")

    @asynccontextmanager
    async def open_harness(self) -> AsyncIterator[ChannelHarness]:
        async with TelegramServer(TOKEN) as server:
            chat = server.group(is_forum=True)
            chat.topics[158] = "Plans"
            harness = TelegramHarness(server, chat, 158)
            yield harness
            for channel in harness.opened:
                await channel.aclose()
