"""The keys of a Telegram channel, and a missing SDK."""

import sys
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from nanobee.errors import PluginError
from nanobee_telegram import TelegramChannel, TelegramSettings
from tests.telegram.conftest import TOKEN


def settings(**keys: Any) -> TelegramSettings:
    return TelegramSettings.model_validate({"token": SecretStr(TOKEN)} | keys)


def test_a_token_is_all_that_is_needed_and_nobody_is_let_in() -> None:
    assert settings().allow_from == ()
    assert settings().base_url == "https://api.telegram.org"
    assert settings(base_url="http://127.0.0.1:8081/").base_url == "http://127.0.0.1:8081"


@pytest.mark.parametrize(
    "keys",
    [
        {"token": SecretStr("")},
        {"token": SecretStr("CANARY")},
        {"token": SecretStr("123:CANARY with space")},
        {"token": SecretStr("123:CANARY/../x")},
        {"base_url": "api.telegram.org"},
        {"base_url": "http://127.0.0.1:8081/bot"},
        {"base_url": "http://127.0.0.1:8081/{token}"},
        {"proxy": "CANARY:3128"},
        {"poll_timeout_seconds": 51},
        {"poll_timeout_seconds": 0},
        {"poll_timeout_seconds": "30"},
        {"group_policy": "some"},
        {"parse_mode": "HTML"},
        {"kind": "feishu"},
    ],
)
def test_a_wrong_key_is_refused_without_its_value(keys: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(**keys)
    assert "CANARY" not in str(caught.value)
    assert next(iter(keys)) in str(caught.value)


def test_a_missing_sdk_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "telegram", None)
    with pytest.raises(PluginError, match=r'pip install "nanobee-gateway\[telegram\]"'):
        TelegramChannel("telegram", settings())


async def test_a_broken_sdk_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = TelegramChannel("telegram", settings())
    monkeypatch.setitem(sys.modules, "telegram", None)
    monkeypatch.delitem(sys.modules, "nanobee_telegram.api", raising=False)
    with pytest.raises(PluginError, match=r'pip install "nanobee-gateway\[telegram\]"'):
        channel._open_api()
