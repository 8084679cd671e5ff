"""The settings models: what they take, and what they refuse."""

import pytest
from pydantic import ValidationError

from nanobee.config import AgentSettings, ChannelSettings, PluginSettings, Settings
from nanobee.config_origin import Mark, Origin


def refusal(model_type: type[AgentSettings | ChannelSettings | Settings], **values: object) -> str:
    with pytest.raises(ValidationError) as caught:
        model_type.model_validate(values)
    return str(caught.value)


def test_everything_has_a_default() -> None:
    settings = Settings()
    assert settings.agent.model is None
    assert settings.owner == ()
    assert settings.channels == {}


@pytest.mark.parametrize("ids", [(), ("12345",), ("*",), ("a", "b")])
def test_an_allow_list_takes_exact_ids_or_the_star_alone(ids: tuple[str, ...]) -> None:
    assert ChannelSettings(kind="x", allow_from=ids).allow_from == ids


@pytest.mark.parametrize("ids", [("",), ("12345", ""), (" 12345",), ("12345\n",)])
def test_an_allow_list_refuses_blank_ids(ids: tuple[str, ...]) -> None:
    assert "empty or has blanks" in refusal(ChannelSettings, kind="x", allow_from=ids)


def test_the_star_stands_alone_in_an_allow_list() -> None:
    assert "stands alone" in refusal(ChannelSettings, kind="x", allow_from=("*", "12345"))


@pytest.mark.parametrize("owner", ["*", "telegram:*", "*:12345"])
def test_the_star_makes_nobody_owner(owner: str) -> None:
    assert "makes nobody owner" in refusal(Settings, owner=(owner,))


@pytest.mark.parametrize("owner", ["", "12345", "telegram:", ":12345", " telegram:12345"])
def test_an_owner_is_a_channel_and_a_sender(owner: str) -> None:
    assert "channel:sender_id" in refusal(Settings, owner=(owner,))


def test_an_owner_s_id_may_hold_colons() -> None:
    assert Settings(owner=("web:user:1",)).owner == ("web:user:1",)


def test_a_model_without_a_provider_must_be_a_preset() -> None:
    assert "preset" in refusal(Settings, agent={"model": "fast"})
    presets = {"fast": {"model": "main/small"}}
    agent = {"model": "fast", "fallbacks": ("a/b",)}
    assert Settings.model_validate({"models": presets, "agent": agent}).agent.model == "fast"
    assert "preset" in refusal(Settings, models=presets, agent={"fallbacks": ("slow",)})


@pytest.mark.parametrize("model", ["", "GPT 4", "main/", "/gpt", " / "])
def test_a_model_is_named_with_its_provider(model: str) -> None:
    assert "provider/model" in refusal(AgentSettings, model=model)


def test_a_model_s_own_name_may_hold_slashes() -> None:
    assert AgentSettings(model="router/openai/gpt").model == "router/openai/gpt"


@pytest.mark.parametrize("zone", ["local", "UTC", "Asia/Shanghai"])
def test_a_time_zone_of_this_machine_is_taken(zone: str) -> None:
    assert Settings(timezone=zone).timezone == zone


@pytest.mark.parametrize("zone", ["", "Mars/Base", "../../etc/passwd", "/etc/passwd", "Europe"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    assert "time zone" in refusal(Settings, timezone=zone)


@pytest.mark.parametrize("name", ["agent", "cron", "heartbeat"])
def test_reserved_names_are_no_channels(name: str) -> None:
    assert "reserved" in refusal(Settings, channels={name: {"kind": "x"}})


@pytest.mark.parametrize("name", ["Work", "a b", "a:b", "-a", "", "a" * 33, "a\n"])
def test_an_instance_s_name_fits_a_session_key(name: str) -> None:
    assert "channels" in refusal(Settings, channels={name: {"kind": "x"}})


def test_a_plugin_section_keeps_its_keys_and_does_not_print_them() -> None:
    section = PluginSettings.model_validate({"kind": "telegram", "token": "canary"})
    assert section.mapping() == {"kind": "telegram", "token": "canary"}
    assert "canary" not in repr(section)
    assert "canary" not in repr(Settings(channels={"telegram": section}))


def test_where_settings_stand_does_not_make_them_different() -> None:
    first, second = Settings(), Settings()
    second.place(Origin({(): Mark("config.yaml")}))
    assert first == second
    assert second.origin.problem((), "why").source == "config.yaml"
