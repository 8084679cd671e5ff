"""Settings from the environment, a file and the defaults; every fault named, none guessed away."""

import json
import logging
from pathlib import Path

import pytest
from pydantic import SecretStr, field_validator

from nanobee.config import ChannelSettings, OpenAISettings, PluginSettings, Settings
from nanobee.config_section import StrictModel
from nanobee.config_source import config_path, load_settings, validate_section
from nanobee.errors import ConfigError
from nanobee.secrets import redact
from nanobee.workspace import template_root


class BotSettings(ChannelSettings):
    token: SecretStr
    port: int = 80
    is_loud: bool = False
    places: tuple[str, ...] = ()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def load(file: Path, text: str | bytes, **environ: str) -> Settings:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    file.chmod(0o600)
    return load_settings(file, {"HOME": str(file.parent / "home"), **environ})


def refuse(file: Path, text: str | bytes, **environ: str) -> list[str]:
    """The problems, with the file's name as `F`; the file must stay as it is, and nothing may be made."""
    with pytest.raises(ConfigError) as caught:
        load(file, text, **environ)
    assert file.read_bytes() == (text if isinstance(text, bytes) else text.encode())
    assert list(file.parent.iterdir()) == [file]
    assert all(problem.reason for problem in caught.value.problems)
    return [str(problem).replace(str(file), "F") for problem in caught.value.problems]


# O-50 (a): a wrong configuration refuses the start with file, key and reason.


def test_o50_a_a_syntax_slip_refuses_the_start(file: Path) -> None:
    assert refuse(file, "agent:\n  model: main/x\n max_steps: 3\n") == [
        'F:3: the line does not fit those above it: its indentation differs, or a ":" is missing'
    ]


def test_o50_a_an_unknown_key_refuses_the_start_and_names_the_nearest(file: Path) -> None:
    assert refuse(file, "agent:\n  max_stesp: 3\nworkspce: /x\n") == [
        "F:2: agent.max_stesp: is no key of this section; did you mean max_steps?",
        "F:3: workspce: is no key of this section; did you mean workspace?",
    ]


def test_o50_a_text_where_a_number_belongs_refuses_the_start(file: Path) -> None:
    assert refuse(file, 'agent:\n  max_steps: "4"\n  temperature: warm\n  context_tokens: 3.5\n') == [
        "F:2: agent.max_steps: a whole number is needed here, but text stands here; write it without quotes",
        "F:4: agent.context_tokens: a whole number is needed here, but a number stands here",
        "F:3: agent.temperature: a number is needed here, but text stands here",
    ]


def test_o50_a_a_duplicate_key_refuses_the_start(file: Path) -> None:
    assert refuse(file, "language: en\nagent: {}\nlanguage: zh\n") == [
        "F:3: language: the key is written twice; it stands first in line 1"
    ]


def test_o50_a_a_tab_refuses_the_start(file: Path) -> None:
    assert refuse(file, "agent:\n\tmodel: main/x\n") == ["F:2: a tab stands where only blanks may indent"]


def test_o50_a_a_byte_order_mark_is_the_editor_s_and_the_values_count(file: Path) -> None:
    assert load(file, b"\xef\xbb\xbflanguage: zh\n").language == "zh"
    assert file.read_bytes() == b"\xef\xbb\xbflanguage: zh\n"


@pytest.mark.parametrize("text", ["", "\n\n", "# language: zh\n", "\ufeff"])
def test_o50_a_an_empty_file_refuses_the_start(file: Path, text: str) -> None:
    assert refuse(file, text) == ["F: holds no settings; write one, or remove the file to use the defaults"]


def test_o50_a_an_unset_reference_refuses_the_start(file: Path) -> None:
    assert refuse(file, 'channels:\n  t: {kind: x, token: "${BOT_TOKEN}"}\n') == [
        "F:2: channels.t.token: refers to BOT_TOKEN, which is not set in the environment"
    ]


def test_o50_a_an_environment_value_beats_the_file_s_empty_value(file: Path) -> None:
    text = 'agent:\n  model:\nchannels:\n  t: {kind: x, token: ""}\nproviders:\n'
    variables = {
        "NANOBEE_AGENT__MODEL": "main/x",
        "NANOBEE_CHANNELS__T__TOKEN": "abc",
        "NANOBEE_PROVIDERS__MAIN__KIND": "openai",
    }
    settings = load(file, text, **variables)
    assert settings.agent.model == "main/x"
    assert settings.channels["t"].mapping() == {"kind": "x", "token": "abc"}
    assert settings.providers["main"].kind == "openai"


def test_o50_a_every_problem_is_told_at_once(file: Path) -> None:
    text = 'a_key: 1\nlanguage: xx\nowner: ["*"]\nagent: {max_steps: 0}\nchannels: {t: {token: "${NOPE}"}}\n'
    assert len(refuse(file, text, NANOBEE_AGNT__MODEL="x")) == 7


# What stands where.


def test_a_missing_default_file_means_defaults(tmp_path: Path) -> None:
    settings = load_settings(None, {"HOME": str(tmp_path)})
    assert settings.workspace == tmp_path / ".nanobee" / "workspace"
    assert settings.state == tmp_path / ".nanobee" / "state"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_variable", [True, False])
def test_a_missing_named_file_is_refused(tmp_path: Path, is_variable: bool) -> None:
    named = tmp_path / "no.yaml"
    environ = {"HOME": str(tmp_path), **({"NANOBEE_CONFIG": str(named)} if is_variable else {})}
    with pytest.raises(ConfigError, match="there is no such file"):
        load_settings(None if is_variable else named, environ)


def test_a_default_file_that_is_a_dead_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".nanobee").mkdir()
    (tmp_path / ".nanobee" / "config.yaml").symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match="there is no such file"):
        load_settings(None, {"HOME": str(tmp_path)})


def test_an_empty_name_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="NANOBEE_CONFIG: is set, but empty"):
        load_settings(None, {"HOME": str(tmp_path), "NANOBEE_CONFIG": ""})


def test_the_named_file_comes_before_the_variable(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "NANOBEE_CONFIG": "/b"}
    assert config_path(Path("/a"), environ) == Path("/a")
    assert config_path(None, environ) == Path("/b")
    assert config_path(None, {"HOME": "/h"}) == Path("/h/.nanobee/config.yaml")
    assert config_path(Path("~/x"), environ) == tmp_path / "x"


def test_folders_are_taken_from_the_file_s_own_place(file: Path) -> None:
    settings = load(file, "workspace: ws\nstate: ~/st\n")
    assert settings.workspace == file.parent / "ws"
    assert settings.state == file.parent / "home" / "st"


@pytest.mark.parametrize("text", ['workspace: ""\n', "workspace:\n", "workspace: 5\n"])
def test_a_folder_needs_a_path(file: Path, text: str) -> None:
    (problem,) = refuse(file, text)
    assert problem.startswith("F:1: workspace: ")


def test_the_template_is_no_workspace(file: Path) -> None:
    (problem,) = refuse(file, f"workspace: {json.dumps(str(template_root()))}\n")
    assert problem.startswith("F:1: workspace: is the template folder")


def test_a_link_to_the_template_is_no_workspace(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(template_root())
    (tmp_path / "config.yaml").write_text("workspace: link\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="is the template folder"):
        load_settings(tmp_path / "config.yaml", {"HOME": "/h"})


@pytest.mark.parametrize("state", ["ws", "ws/state", "ws/../ws/x"])
def test_the_state_stands_outside_of_the_workspace(file: Path, state: str) -> None:
    (problem,) = refuse(file, f"workspace: ws\nstate: {state}\n")
    assert problem.startswith("F:2: state: stands inside the workspace")


def test_the_configuration_stands_outside_of_the_workspace(file: Path) -> None:
    (problem,) = refuse(file, "workspace: .\nstate: /st\n")
    assert problem.startswith("F:1: workspace: holds the configuration")


def test_a_loop_of_links_does_not_trip_the_checks(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "a")
    (tmp_path / "config.yaml").write_text("workspace: a\n", encoding="utf-8")
    assert load_settings(tmp_path / "config.yaml", {"HOME": "/h"}).workspace == tmp_path / "a"


@pytest.mark.parametrize("section", ["agent", "channels", "providers"])
def test_a_section_whose_keys_are_all_commented_out_is_empty(file: Path, section: str) -> None:
    assert load(file, f"{section}:\n  # nothing\n") == load(file, f"{section}: {{}}\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('owner: "*"\n', 'F:1: owner: a list is needed here, but text stands here; write ["…"]'),
        ('owner: ["*"]\n', 'F:1: owner: "*" makes nobody owner'),
        ("owner: [12345]\n", "F:1: owner[0]: text is needed here, but a number stands here; put it in quotes"),
        ("owner:\n", "F:1: owner: a list is needed here, but nothing stands here"),
        ("language: de\n", "F:1: language: is none of 'en' or 'zh'"),
        ("bus: redis\n", "F:1: bus: is none of 'sqlite'"),
        ("agent: {max_steps: 0}\n", "F:1: agent.max_steps: is less than 1"),
        ("agent: {max_steps: 5000}\n", "F:1: agent.max_steps: is greater than 1000"),
        ("agent: {max_steps: true}\n", "F:1: agent.max_steps: a whole number is needed here, but true or false"),
        ("agent: {model: yes/no/maybe, max_steps: }\n", "F:1: agent.max_steps: a whole number is needed"),
        ("agent: 5\n", "F:1: agent: a mapping of keys is needed here, but a number stands here"),
        ("channels: [telegram]\n", "F:1: channels: a mapping of keys is needed here, but a list stands here"),
        ("channels: {telegram: }\n", "F:1: channels.telegram: a mapping of keys is needed here, but nothing"),
        ("channels: {telegram: {token: x}}\n", "F:1: channels.telegram.kind: is missing"),
        ("channels: {Telegram: {kind: x}}\n", "F:1: channels.Telegram: a name is 1 to 32 of"),
        ("channels: {cron: {kind: x}}\n", "F:1: channels: the names agent, cron, heartbeat are reserved"),
    ],
)
def test_a_wrong_value_is_told_with_its_line_and_path(file: Path, text: str, expected: str) -> None:
    (problem,) = refuse(file, text)
    assert problem.startswith(expected)


def test_problems_are_told_in_the_language_that_is_set(file: Path) -> None:
    assert refuse(file, "language: zh\nagent: {max_stesp: 1}\n") == [
        "F:2: agent.max_stesp: 本节没有这个键；是否想写 max_steps？"
    ]
    assert refuse(file, "a: b: c\n", NANOBEE_LANGUAGE="zh") == ['F:1: 此处不能出现 ": "；含有它的值请加引号']


# The environment.


def test_the_environment_beats_the_file_and_the_file_beats_the_default(file: Path) -> None:
    text = "agent: {max_steps: 7, context_tokens: 9000}\n"
    settings = load(file, text, NANOBEE_AGENT__MAX_STEPS="9", NANOBEE_LANGUAGE="zh")
    assert settings.agent.max_steps == 9
    assert settings.agent.context_tokens == 9000
    assert settings.agent.temperature is None
    assert settings.language == "zh"


def test_a_variable_s_value_takes_the_type_of_its_field(file: Path) -> None:
    variables = {
        "NANOBEE_AGENT__TEMPERATURE": "0.5",
        "NANOBEE_AGENT__MAX_OUTPUT_TOKENS": "100",
        "NANOBEE_OWNER": '["telegram:1", "web:2"]',
        "NANOBEE_TIMEZONE": "UTC",
        "NANOBEE_AGENT__MODEL": "1/2",
    }
    settings = load(file, "bus: sqlite\n", **variables)
    assert settings.agent.temperature == 0.5
    assert settings.agent.max_output_tokens == 100
    assert settings.owner == ("telegram:1", "web:2")
    assert settings.agent.model == "1/2"


def test_a_whole_list_of_the_file_gives_way_to_the_environment(file: Path) -> None:
    assert load(file, 'owner: ["a:1", "a:2", 5]\n', NANOBEE_OWNER='["b:1"]').owner == ("b:1",)


def test_a_variable_finds_an_instance_with_a_hyphen(file: Path) -> None:
    settings = load(file, "channels: {work-bot: {kind: x}}\n", NANOBEE_CHANNELS__WORK_BOT__TOKEN="abc")
    assert settings.channels["work-bot"].mapping() == {"kind": "x", "token": "abc"}
    assert list(settings.channels) == ["work-bot"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("NANOBEE_AGNT__MODEL", "a/b", "NANOBEE_AGNT__MODEL: there is no section AGNT"),
        ("NANOBEE_LANGUAGE__X", "a", "NANOBEE_LANGUAGE__X: there is no section LANGUAGE"),
        (
            "NANOBEE_AGENT__MODL",
            "a/b",
            "NANOBEE_AGENT__MODL: agent.modl: is no key of this section; did you mean model?",
        ),
        ("NANOBEE_AGENT__MODEL", "", "NANOBEE_AGENT__MODEL: agent.model: is set, but empty"),
        ("NANOBEE_AGENT", "{}", "NANOBEE_AGENT: agent: is a whole section"),
        ("NANOBEE_AGENT__", "x", 'NANOBEE_AGENT__: two "__" stand together'),
        ("NANOBEE_AGENT____MODEL", "x", 'NANOBEE_AGENT____MODEL: two "__" stand together'),
        ("NANOBEE_AGENT__MODEL__X", "x", "NANOBEE_AGENT__MODEL__X: agent.model: text is needed here, but a mapping"),
        ("NANOBEE_AGENT__MAX_STEPS", "many", "NANOBEE_AGENT__MAX_STEPS: agent.max_steps: a whole number is needed"),
        ("NANOBEE_AGENT__MAX_STEPS", "[1", "NANOBEE_AGENT__MAX_STEPS: agent.max_steps: a whole number is needed"),
        ("NANOBEE_OWNER", "[5]", "NANOBEE_OWNER: owner[0]: text is needed here, but a number stands here"),
        ("NANOBEE_AGENT__MODEL", "a/\udcff", "NANOBEE_AGENT__MODEL: agent.model: its value is not valid UTF-8"),
        ("NANOBEE_STATE", "ws/x", "NANOBEE_STATE: state: stands inside the workspace"),
        ("NANOBEE_CHANNELS__T__TOKEN", "x", "NANOBEE_CHANNELS__T__TOKEN: channels.t.kind: is missing"),
    ],
)
def test_a_wrong_variable_is_refused_by_its_name(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: str
) -> None:
    monkeypatch.chdir(file.parent)
    (problem,) = refuse(file, "workspace: ws\n", **{name: value})
    assert problem.startswith(expected)


def test_two_variables_for_one_key_are_refused(file: Path) -> None:
    (problem,) = refuse(file, "bus: sqlite\n", NANOBEE_AGENT__MODEL="a/b", NANOBEE_agent__model="a/c")
    assert problem.endswith("names the same key")


@pytest.mark.parametrize("name", ["NANOBEE_CONFIG", "NANOBEE_CACHE", "NANOBEE_WEB_TOKEN", "NANOBEE_LOG", "NANOBEES__X"])
def test_other_variables_are_left_alone(file: Path, name: str) -> None:
    assert load(file, "bus: sqlite\n", **{name: "something"}) == load(file, "bus: sqlite\n")


# References.


def test_a_reference_is_filled_in_also_inside_a_text(file: Path) -> None:
    text = 'providers: {a: {kind: openai, api_key: "${KEY}", base_url: "http://${HOSTS}/v1", list: ["${KEY}"]}}\n'
    mapping = load(file, text, KEY="k1", HOSTS="h:1").providers["a"].mapping()
    assert mapping == {"kind": "openai", "api_key": "k1", "base_url": "http://h:1/v1", "list": ["k1"]}


def test_a_doubled_dollar_is_a_literal_one(file: Path) -> None:
    text = "providers: {a: {kind: openai, api_key: 'x$${KEY}$y${KEY}'}}\n"
    assert load(file, text, KEY="1").providers["a"].mapping()["api_key"] == "x${KEY}$y1"


def test_what_is_filled_in_is_not_filled_in_again(file: Path) -> None:
    text = 'providers: {a: {kind: openai, api_key: "${A}"}}\n'
    settings = load(file, text, A="${B}", B="no", NANOBEE_PROVIDERS__A__PROXY="${B}")
    assert settings.providers["a"].mapping()["api_key"] == "${B}"
    assert settings.providers["a"].mapping()["proxy"] == "${B}"


@pytest.mark.parametrize(
    "reference", ["${}", "${A B}", "${A:-x}", "${A", "x ${ y", "${1A}", "${Ä}"], ids=lambda text: repr(text)
)
def test_a_malformed_reference_is_refused(file: Path, reference: str) -> None:
    assert refuse(file, f"timezone: '{reference}'\n", A="1") == [
        'F:1: timezone: a reference is written "${NAME}"; a literal "${" is written "$${"'
    ]


def test_an_empty_reference_is_refused(file: Path) -> None:
    assert refuse(file, "timezone: ${A}\n", A="") == ["F:1: timezone: refers to A, which is set, but empty"]


def test_an_unset_reference_does_not_matter_where_the_environment_gives_the_value(file: Path) -> None:
    assert load(file, "timezone: ${NOPE}\n", NANOBEE_TIMEZONE="UTC").timezone == "UTC"


def test_a_reference_takes_the_type_of_its_field(file: Path) -> None:
    text = 'agent: {max_steps: "${STEPS}", model: "${MODEL}"}\n'
    settings = load(file, text, STEPS="5", MODEL="1/2")
    assert (settings.agent.max_steps, settings.agent.model) == (5, "1/2")


# A plugin's own section.


def section(file: Path, text: str, **environ: str) -> PluginSettings:
    return load(file, text, **environ).channels["bot"]


def test_a_plugin_validates_its_own_section(file: Path) -> None:
    text = 'channels:\n  bot: {kind: x, token: "${T}", places: [a], allow_from: ["1"]}\n'
    bot = validate_section(BotSettings, section(file, text, T="secret-1", NANOBEE_CHANNELS__BOT__PORT="8080"), "x")
    assert bot.token.get_secret_value() == "secret-1"
    assert (bot.port, bot.places, bot.allow_from) == (8080, ("a",), ("1",))


def test_a_fault_in_a_plugin_s_section_has_file_line_and_path(file: Path) -> None:
    text = "channels:\n  bot:\n    kind: x\n    tokn: a\n    allow_from: [12345]\n    is_loud: 'yes'\n"
    with pytest.raises(ConfigError) as caught:
        validate_section(BotSettings, section(file, text, NANOBEE_CHANNELS__BOT__PORT="many"), "channels.bot")
    assert [str(problem).replace(str(file), "F") for problem in caught.value.problems] == [
        "F:5: channels.bot.allow_from[0]: text is needed here, but a number stands here; put it in quotes",
        "F:2: channels.bot.token: is missing",
        "NANOBEE_CHANNELS__BOT__PORT: channels.bot.port: a whole number is needed here, but text stands here",
        "F:6: channels.bot.is_loud: true or false is needed here, but text stands here",
        "F:4: channels.bot.tokn: is no key of this section; did you mean token?",
    ]


@pytest.mark.parametrize("text", ["allow_from: ['']", "allow_from: ", "allow_from: '1'", "allow_from: ['*', '1']"])
def test_a_doubtful_allow_list_is_refused(file: Path, text: str) -> None:
    bot = section(file, f"channels:\n  bot:\n    kind: x\n    token: t\n    {text}\n")
    with pytest.raises(ConfigError, match=r":5: channels\.bot\.allow_from"):
        validate_section(BotSettings, bot, "channels.bot")


def test_a_section_made_in_code_has_its_path_only() -> None:
    with pytest.raises(ConfigError) as caught:
        validate_section(BotSettings, PluginSettings(kind="x"), "channels.bot")
    assert str(caught.value) == "settings: channels.bot.token: is missing"


def test_a_provider_s_section_is_validated_the_same_way(file: Path) -> None:
    text = "providers: {main: {kind: openai, base_url: http://h/v1, api_key: ${KEY_1}, max_calls: 3}}\n"
    settings = load(file, text.replace("${KEY_1}", '"${KEY_1}"'), KEY_1="sk-value-1")
    provider = validate_section(OpenAISettings, settings.providers["main"], "providers.main")
    assert provider.api_key is not None
    assert provider.api_key.get_secret_value() == "sk-value-1"
    assert provider.max_calls == 3


# Secrets.

CANARY = "cAnArY-7f3a9c51-s3cr3t"


class TattlingSettings(StrictModel):
    """A plugin whose validator quotes what it was given."""

    kind: str
    token: str
    choice: int | list[str] | None = None

    @field_validator("token")
    @classmethod
    def _quotes(cls, token: str) -> str:
        raise ValueError(f"bad token {token}")


WRONG_WITH_CANARY = [
    f"{CANARY}\n",
    f"- {CANARY}\n",
    f"{CANARY}: 1\n",
    f"language: {CANARY}\n",
    f"workspace: [{CANARY}]\n",
    f"owner: {CANARY}\n",
    f"owner: [{CANARY}]\n",
    f"owner: ['*{CANARY}']\n",
    f"timezone: {CANARY}\n",
    f"bus: {CANARY}\n",
    f"agent: {CANARY}\n",
    f"agent: {{max_steps: {CANARY}}}\n",
    f"agent: {{model: {CANARY}}}\n",
    f"agent: {{{CANARY}: x}}\n",
    f"agent: {{model: main/x, {CANARY}}}\n",
    f"channels: {{{CANARY}: {{kind: x}}}}\n",
    f"channels: {{t: {CANARY}}}\n",
    f"channels: {{t: {{kind: [{CANARY}]}}}}\n",
    f"channels: {{t: {{token: {CANARY}}}}}\n",
    f"token: {CANARY}\ntoken: {CANARY}\n",
    f"token: '{CANARY}\n",
    f'token: "{CANARY}\n',
    f'token: "\\q{CANARY}"\n',
    f"token: [{CANARY}\nb: 1\n",
    f"token: {{a: {CANARY}\nb: 1\n",
    f"token: {CANARY}: x\n",
    f"token: @{CANARY}\n",
    f"token: *{CANARY}\n",
    f"token: &{CANARY} !{CANARY} x\n",
    f"token: !{CANARY} x\n",
    f"token: !!{CANARY} x\n",
    f"token: !<{CANARY} x\n",
    f"token: |{CANARY}\n",
    f"a: &{CANARY} 1\nb: &{CANARY} 2\n",
    f"%{CANARY} x\n---\na: 1\n",
    f"a: 1\n--- {CANARY}\n",
    f"token:\n\t{CANARY}: x\n",
    f"token {CANARY}\nb: 1\n",
    f"? {CANARY}\n",
    f"? [{CANARY}]\n: 1\n",
    f"timezone: ${{{CANARY}}}\n",
    f"timezone: ${{{CANARY}\n",
    f"timezone: ${{X}}{CANARY}\n",
    f"token: {CANARY}\x00\n",
]


@pytest.mark.parametrize("text", WRONG_WITH_CANARY)
def test_o50_a_no_problem_quotes_a_value(file: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    problems = refuse(file, text)
    assert CANARY.lower() not in "\n".join(problems).lower()
    assert CANARY not in caplog.text


@pytest.mark.parametrize("name", ["LANGUAGE", "OWNER", "AGENT__MAX_STEPS", "AGENT__MODEL__X", "CHANNELS__T__X", "BUS"])
def test_o50_a_no_problem_quotes_a_variable_s_value(file: Path, name: str) -> None:
    for value in (CANARY, f"[{CANARY}]", f"{{a: {CANARY}}}", f"[{CANARY}"):
        problems = refuse(file, "bus: sqlite\n", **{f"NANOBEE_{name}": value})
        assert CANARY not in "\n".join(problems)


@pytest.mark.parametrize("key", ["token", "choice", "port", "kind"])
def test_o50_a_no_problem_of_a_plugin_quotes_a_value(file: Path, key: str) -> None:
    values = {"kind": "x", "token": "t", key: CANARY}
    text = f"channels: {{bot: {json.dumps(values)}}}\n"
    with pytest.raises(ConfigError) as caught:
        validate_section(TattlingSettings, section(file, text), "channels.bot")
    assert CANARY not in str(caught.value)


def test_secrets_of_a_configuration_are_taken_out_of_every_text(file: Path) -> None:
    text = "providers: {a: {kind: openai, api_key: literal-key-1, other: '${WORD}', base_url: '${URL}'}}\n"
    variables = {"WORD": "referred-word-1", "URL": "http://host-1/v1", "SOME_API_KEY": "environment-key-1"}
    load(file, text, NANOBEE_PROVIDERS__A__TOKEN="variable-token-1", **variables)
    shown = redact("literal-key-1 referred-word-1 http://host-1/v1 environment-key-1 variable-token-1")
    assert shown == "[secret] [secret] http://host-1/v1 [secret] [secret]"


def test_a_secret_that_only_a_plugin_knows_is_taken_out_too(file: Path) -> None:
    class OddSettings(StrictModel):
        kind: str
        phrase: SecretStr
        inner: tuple[SecretStr, ...] = ()

    text = "channels: {bot: {kind: x, phrase: open-sesame-1, inner: [open-sesame-2]}}\n"
    validate_section(OddSettings, section(file, text), "channels.bot")
    assert redact("open-sesame-1 open-sesame-2") == "[secret] [secret]"


@pytest.mark.parametrize(("mode", "is_warned"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_readable_file_with_secrets_is_warned_of(file: Path, mode: int, is_warned: bool) -> None:
    file.write_text("channels: {t: {kind: x, token: abcdef}}\n", encoding="utf-8")
    file.chmod(mode)
    warnings = load_settings(file, {"HOME": "/h"}).origin.warnings
    assert [("chmod 600" in warning, "abcdef" in warning) for warning in warnings] == [(True, False)] * is_warned


def test_a_readable_file_without_secrets_is_not_warned_of(file: Path) -> None:
    file.write_text('channels: {t: {kind: x, token: "${T}"}}\n', encoding="utf-8")
    file.chmod(0o644)
    assert load_settings(file, {"HOME": "/h", "T": "abcdef"}).origin.warnings == ()


def test_loading_logs_nothing(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    load(file, "channels: {t: {kind: x, token: abcdef}}\n")
    assert caplog.records == []
