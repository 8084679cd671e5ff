"""The commands, run as people run them."""

import json
import os
import signal
import sqlite3
from pathlib import Path

import anyio
import pytest

from nanobee.testing.model_server import ModelServer
from nanobee.testing.telegram_server import TelegramServer
from tests.cli.conftest import LIMIT_SECONDS, Nanobee, provider

READING = ["cli -m hi", "gateway", "status", "init", "channels", "models ls"]
CANARY = "sk-canary-7f3a9c51d2e8"


async def test_the_version_is_told(nanobee: Nanobee) -> None:
    ended = await nanobee.run("--version")
    assert ended.code == 0
    assert ended.out.startswith("nanobee 0.")


@pytest.mark.parametrize("command", READING)
async def test_o50_a_a_wrong_configuration_ends_every_command_with_2_and_no_traceback(
    nanobee: Nanobee, command: str
) -> None:
    nanobee.configure(f"agent: {{max_steps: {CANARY}}}\nlanguge: en\n")
    ended = await nanobee.run(*command.split())
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines() == [
        f"{nanobee.file}:1: agent.max_steps: a whole number is needed here, but text stands here",
        f"{nanobee.file}:2: languge: is no key of this section; did you mean language?",
    ]
    assert [path.name for path in nanobee.file.parent.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize("command", [command for command in READING if command != "init"])
async def test_o50_a_a_missing_named_file_ends_every_command(nanobee: Nanobee, command: str) -> None:
    ended = await nanobee.run(*command.split(), "--config", "no.yaml")
    assert ended.code == 2
    assert ended.err.endswith("no.yaml: there is no such file\n")


@pytest.mark.parametrize(
    "text",
    [
        "channels: {t: {kind: telegramm}}\n",
        f"channels: {{t: {{kind: telegram, token: {CANARY}}}}}\n",
        "channels: {t: {kind: telegram, tokn: x}}\n",
        "channels: {t: {kind: telegram, token: '1:a', allow_from: [12345]}}\n",
    ],
)
async def test_o50_a_a_wrong_channel_section_ends_the_gateway_with_2(nanobee: Nanobee, text: str) -> None:
    nanobee.configure(text)
    ended = await nanobee.run("gateway")
    assert (ended.code, ended.out) == (2, "")
    assert all(line.startswith(f"{nanobee.file}:1: channels.t.") for line in ended.err.splitlines())
    assert CANARY not in ended.err


async def test_a_gateway_without_channels_says_how_to_add_one(nanobee: Nanobee) -> None:
    ended = await nanobee.run("gateway")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(
        f"{nanobee.file}: channels: none is configured; add one, for example: telegram: {{kind:"
    )
    assert list(nanobee.home.iterdir()) == []


# nanobee cli


async def test_one_message_is_answered_on_standard_output(nanobee: Nanobee, server: ModelServer) -> None:
    nanobee.configure(provider(server))
    server.reply_text("Hello, you.")
    ended = await nanobee.run("cli", "-m", "hi there")
    assert (ended.code, ended.out) == (0, "Hello, you.\n")
    assert "main/test-model answers." in ended.err
    assert "Traceback" not in ended.err
    assert server.requests[0].messages[-1]["content"].endswith("hi there")
    log = (nanobee.state / "logs" / "cli.log").read_text(encoding="utf-8")
    assert CANARY not in log + ended.err


async def test_piped_input_is_one_message(nanobee: Nanobee, server: ModelServer) -> None:
    nanobee.configure(provider(server))
    server.reply_text("Both lines read.")
    ended = await nanobee.run("cli", stdin=b"one\ntwo\n")
    assert (ended.code, ended.out) == (0, "Both lines read.\n")
    assert server.requests[0].messages[-1]["content"].endswith("one\ntwo")


async def test_a_session_is_gone_on_with_under_its_name(nanobee: Nanobee, server: ModelServer) -> None:
    nanobee.configure(provider(server))
    await nanobee.run("cli", "--session", "work", "-m", "remember seven")
    await nanobee.run("cli", "-m", "elsewhere")
    await nanobee.run("cli", "--session", "terminal:work", "-m", "which number")
    histories = [json.dumps(request.messages) for request in server.requests]
    assert ["remember seven" in history for history in histories] == [True, False, True]


@pytest.mark.parametrize("key", ["telegram:1", "terminal:a:b", "terminal:", ":a", "", "a:b:c:d"])
async def test_a_session_of_another_channel_is_refused(nanobee: Nanobee, key: str) -> None:
    ended = await nanobee.run("cli", "--session", key, "-m", "hi")
    assert (ended.code, ended.out) == (2, "")
    assert "--session: a session of the terminal is NAME or terminal:NAME" in ended.err
    assert list(nanobee.home.iterdir()) == []


async def test_another_model_can_be_named(nanobee: Nanobee, server: ModelServer) -> None:
    nanobee.configure(provider(server))
    ended = await nanobee.run("cli", "--model", "main/other", "-m", "hi")
    assert ended.code == 0, ended.err
    assert server.requests[0].json["model"] == "other"


@pytest.mark.parametrize("name", ["other", "", "main/"])
async def test_a_model_without_its_provider_is_refused(nanobee: Nanobee, name: str) -> None:
    ended = await nanobee.run("cli", "--model", name, "-m", "hi")
    assert (ended.code, ended.out) == (2, "")
    assert 'a model is written "provider/model"' in ended.err


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_an_empty_message_is_refused(nanobee: Nanobee, text: str) -> None:
    ended = await nanobee.run("cli", "-m", text)
    assert (ended.code, ended.out) == (2, "")
    assert "the message is empty" in ended.err


async def test_a_state_folder_that_cannot_be_made_is_one_line(nanobee: Nanobee, server: ModelServer) -> None:
    (nanobee.home / "file").write_text("x", encoding="utf-8")
    nanobee.configure(provider(server) + f"state: {nanobee.home}/file/state\n")
    ended = await nanobee.run("cli", "-m", "hi")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == f"the folder {nanobee.home}/file/state cannot be made: Not a directory\n"


# nanobee gateway, and nanobee status beside it


def telegram(platform: TelegramServer) -> str:
    settings = {"kind": "telegram", "token": platform.token, "base_url": platform.base_url, "allow_from": ["7"]}
    return f"channels: {json.dumps({'bot': settings})}\n"


async def test_a_gateway_runs_until_sigterm_and_is_seen_from_beside(nanobee: Nanobee, server: ModelServer) -> None:
    async with TelegramServer() as platform:
        nanobee.configure(provider(server) + telegram(platform))
        with anyio.fail_after(LIMIT_SECONDS):
            async with await nanobee.start("gateway", "--log-level", "debug") as gateway:
                platform.private(7).says("hello")
                await platform.wait_for("sendMessage")
                shown = await nanobee.run("status", "--json")
                lines = await nanobee.run("status")
                second = await nanobee.run("gateway")
                gateway.send_signal(signal.SIGTERM)
                assert gateway.stderr is not None
                log = b"".join([chunk async for chunk in gateway.stderr]).decode()
                assert await gateway.wait() == 0
    status = json.loads(shown.out)
    assert (status["running"], status["holder"]) == (True, gateway.pid)
    assert status["model"] == "main/test-model"
    assert status["channels"]["bot"]["kind"] == "telegram"
    assert status["inbox"] == {"done": 1}
    assert f"(process {gateway.pid})" in lines.out
    assert "channel: bot (telegram)" in lines.out
    assert (second.code, second.out) == (1, "")
    assert str(gateway.pid) in second.err
    assert "Traceback" not in log + second.err
    assert CANARY not in log
    assert platform.token not in log
    after = await nanobee.run("status")
    assert "gateway: does not run; last seen" in after.out


async def test_status_shows_why_a_channel_failed(nanobee: Nanobee, server: ModelServer) -> None:
    async with TelegramServer() as platform:
        nanobee.configure(provider(server) + telegram(platform).replace(platform.token, f"1:{CANARY}"))
        with anyio.fail_after(LIMIT_SECONDS):
            async with await nanobee.start("gateway") as gateway:
                while not (shown := json.loads((await nanobee.run("status", "--json")).out))["errors"]:
                    pass
                lines = await nanobee.run("status")
                gateway.terminate()
                assert await gateway.wait() == 0
    assert shown["channels"]["bot"]["state"] == "failed"
    assert "channel: bot (telegram) failed, needs you" in lines.out
    assert "error: " in lines.out
    assert CANARY not in lines.out


async def test_ctrl_c_ends_a_gateway_without_a_traceback(nanobee: Nanobee, server: ModelServer) -> None:
    async with TelegramServer() as platform:
        nanobee.configure(provider(server) + telegram(platform))
        with anyio.fail_after(LIMIT_SECONDS):
            async with await nanobee.start("gateway") as gateway:
                await platform.wait_asked("getUpdates")
                gateway.send_signal(signal.SIGINT)
                assert gateway.stderr is not None
                log = b"".join([chunk async for chunk in gateway.stderr]).decode()
                assert await gateway.wait() in (0, 130)
    assert "Traceback" not in log


async def test_status_before_anything_ran_makes_nothing(nanobee: Nanobee) -> None:
    ended = await nanobee.run("status")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == [
        "gateway: does not run",
        "model: whichever is found at start (`nanobee models ls`)",
        "channel: none is configured",
        "messages in: none",
        "messages out: none",
        f"state: {nanobee.state}",
    ]
    assert list(nanobee.home.iterdir()) == []


async def test_status_in_chinese(nanobee: Nanobee) -> None:
    nanobee.configure("language: zh\nagent: {model: main/x}\nchannels: {bot: {kind: telegram}}\n")
    ended = await nanobee.run("status")
    assert ended.out.splitlines()[:3] == ["网关：未运行", "模型：main/x（已配置）", "渠道：bot（telegram）已配置"]


async def test_status_of_a_damaged_state_tells_what_cannot_be_read(nanobee: Nanobee) -> None:
    nanobee.state.mkdir(parents=True)
    (nanobee.state / "status.json").write_text("{", encoding="utf-8")
    (nanobee.state / "bus.db").write_text("no database at all" * 100, encoding="utf-8")
    ended = await nanobee.run("status")
    assert ended.code == 0, ended.err
    assert ended.out.count("cannot be read") >= 2
    assert json.loads((await nanobee.run("status", "--json")).out)["inbox"] is None


async def test_status_counts_what_waits(nanobee: Nanobee, server: ModelServer) -> None:
    nanobee.configure(provider(server))
    await nanobee.run("cli", "-m", "hi")
    with sqlite3.connect(nanobee.state / "bus.db") as db:
        db.execute("update inbox set state = 'parked'")
    db.close()
    ended = await nanobee.run("status")
    assert "messages in: 1 parked" in ended.out
    assert "messages out: 1 sent" in ended.out


# nanobee channels, nanobee models


async def test_channels_lists_kinds_and_instances(nanobee: Nanobee) -> None:
    nanobee.configure("channels: {work-bot: {kind: telegram}}\n")
    ended = await nanobee.run("channels")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == [
        *("Installed kinds:", "  telegram", "  terminal"),
        *("Configured channels:", "  work-bot (telegram)"),
    ]
    shown = json.loads((await nanobee.run("channels", "--json")).out)
    assert shown == {"kinds": {"telegram": None, "terminal": None}, "configured": {"work-bot": "telegram"}}


async def test_models_ls_tells_which_answers(nanobee: Nanobee, server: ModelServer) -> None:
    nanobee.configure(provider(server))
    ended = await nanobee.run("models", "ls")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[:2] == ["answers: main/test-model answers.", "provider: main (openai)"]


async def test_models_get_that_cannot_store_is_one_line(nanobee: Nanobee, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way", encoding="utf-8")
    ended = await nanobee.run("models", "get", NANOBEE_CACHE=str(tmp_path / "cache"))
    assert (ended.code, ended.out) == (1, "")
    assert len(ended.err.splitlines()) == 1
    assert os.fspath(tmp_path / "cache") in ended.err
