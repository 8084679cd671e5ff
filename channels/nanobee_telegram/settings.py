"""TelegramSettings: the keys of a channel of kind `telegram`."""

import re
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from nanobee.config import ChannelSettings

Streaming = Literal["auto", "draft", "edit", "off"]
_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]+")


class TelegramSettings(ChannelSettings):
    """One Telegram bot."""

    kind: Literal["telegram"] = "telegram"
    token: SecretStr
    """As BotFather gives it: `123456:ABC…`."""
    base_url: str = "https://api.telegram.org"
    """The Bot API's host, without `/bot`: another one for a Bot API server of one's own."""
    proxy: str | None = None
    """`http://`, `https://`, `socks5://`; None takes the environment's."""
    group_policy: Literal["mention", "all"] = "mention"
    """What is heard in groups: what is said to the bot (mention, reply, command), or everything."""
    streaming: Streaming = "auto"
    """How an answer is shown while it grows: `draft` in private chats only, `edit` as a message that
    is edited, `auto` the one in private chats and the other in groups."""
    poll_timeout_seconds: int = Field(default=30, ge=1, le=50)
    """How long Telegram holds a request for updates open when there are none."""
    connect_timeout_seconds: float = Field(default=10.0, gt=0)
    read_timeout_seconds: float = Field(default=30.0, gt=0)
    """The longest silence in an answer; for a long poll it comes on top of `poll_timeout_seconds`."""
    max_connections: int = Field(default=64, ge=1, le=1000)
    """Calls at once; the long poll has a connection of its own."""

    @field_validator("token")
    @classmethod
    def _token_has_its_form(cls, token: SecretStr) -> SecretStr:
        if not _TOKEN.fullmatch(token.get_secret_value()):
            raise ValueError("not a bot token (digits, a colon, letters; BotFather gives it)")
        return token

    @field_validator("proxy")
    @classmethod
    def _proxy_has_its_form(cls, proxy: str | None) -> str | None:
        if proxy is not None and not re.fullmatch(r"(?:https?|socks[45]h?)://[^/\s]+/?", proxy):
            raise ValueError("not a proxy address (http://, https://, socks4://, socks5://)")
        return proxy

    @field_validator("base_url")
    @classmethod
    def _base_url_is_a_host(cls, url: str) -> str:
        url = url.rstrip("/")
        if not re.fullmatch(r"https?://[^/\s{}]\S*", url) or "{" in url:
            raise ValueError("not an http:// or https:// address")
        if url.endswith("/bot"):
            raise ValueError("the host only: /bot is appended")
        return url
