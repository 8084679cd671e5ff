"""What a rival loses or doubles: rivals 1 to 6 and 10, on real parts."""

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import anyio
import pytest

from nanobee.agent import asking
from nanobee.bus import delivery
from nanobee.bus.bus import NewRow
from nanobee.channel import Arrival, Lane
from nanobee.errors import NotSentError, RefusedError
from nanobee.messages import InboundMessage, JsonObject, OutboundPart, PartKind
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel, MemorySettings
from nanobee.testing.model_replies import Break
from nanobee.testing.model_server import ModelServer
from nanobee.testing.telegram_server import TelegramServer
from tests.cli.conftest import Nanobee
from tests.gateway.conftest import Logged
from tests.gateway.gateway_process import ANN, install, start
from tests.gateway.test_turns import LIMIT_SECONDS, last_user, session_lines

PROCESS_SECONDS = 60


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as running:
        yield running


@pytest.fixture
def nanobee(tmp_path: Path, server: ModelServer, telegram: TelegramServer) -> Nanobee:
    return install(tmp_path / "home", server, telegram)


def dying(nanobee: Nanobee, checkpoint: str) -> Nanobee:
    """The same command, killed as by `kill -9` at a named point."""
    return replace(nanobee, variables={"NANOBEE_CHECKPOINT": checkpoint})


# 1: kill -9 loses queued input and finished replies, and a batch is confirmed before it is safe


@pytest.mark.parametrize(
    "checkpoint", ["receive.stored:1", "receive.committed:1", "claim.stored:2", "finish.stored:2", "finish.committed:2"]
)
async def test_r01_a_batch_that_was_being_taken_in_or_worked_off_at_a_kill_is_answered_by_the_next_start(
    nanobee: Nanobee, server: ModelServer, telegram: TelegramServer, checkpoint: str
) -> None:
    texts = [f"number {number}" for number in range(8)]

    def say(text: str) -> None:
        server.reply_text(f"re {text}", when=lambda body: last_user(body).endswith(text), times=None)

    ann = telegram.private(ANN)
    for text in texts:
        say(text)
        ann.says(text)
    with anyio.fail_after(PROCESS_SECONDS):
        gateway = await start(dying(nanobee, checkpoint))
        assert await gateway.wait() == -9
        if checkpoint.startswith("receive."):
            assert telegram.updates.acknowledged == [], "nothing is confirmed before it is known to be safe"
        gateway = await start(nanobee)
        said = await answers(telegram, len(texts))
        assert [text for text, _ in groupby(said)] == [f"re {text}" for text in texts]
        assert await gateway.end() == 0


async def answers(telegram: TelegramServer, count: int) -> list[str]:
    """What the bot has said once there are so many texts; one that was being sent at a kill may stand twice."""
    for number in (count, count + 1):
        await telegram.wait_for("sendMessage", number)
        said = [str(message["text"]) for message in telegram.sent()]
        if len(set(said)) == count:
            return said
    raise AssertionError(f"more than one text stands twice: {said}")


# 2: a crash or /stop at step N loses the steps before it, and the follow-ups


async def test_r02_a_kill_at_the_third_step_keeps_the_two_before_it_and_the_follow_up(
    nanobee: Nanobee, server: ModelServer, telegram: TelegramServer
) -> None:
    for number in range(1, 4):
        server.reply_calls(("list_dir", {}), text=f"step {number}", when=lambda body: last_user(body).endswith("work"))
    server.reply_text("done")
    server.reply_text("followed up")
    ann = telegram.private(ANN)
    with anyio.fail_after(PROCESS_SECONDS):
        ann.says("work")
        ann.says("and then")
        gateway = await start(dying(nanobee, "record.stored:3"))
        assert await gateway.wait() == -9
        before = len(server.requests)
        gateway = await start(nanobee)
        await telegram.wait_texts("done", "followed up", chat_id=ANN)
        assert await gateway.end() == 0
    assert before == 3
    resumed = server.requests[before].json["messages"]
    assert [message["content"] for message in resumed if message["role"] == "assistant"] == ["step 1", "step 2"]
    assert [message["role"] for message in resumed[2:]] == ["assistant", "tool"] * 2


async def test_r02_a_stop_at_the_third_step_keeps_the_two_before_it_and_the_follow_up(
    rig: GatewayRig, server: ModelServer
) -> None:
    for number in (1, 2):
        server.reply_calls(("list_dir", {}), text=f"step {number}")
    server.reply_text("never", hold=anyio.Event())
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("work")
            await channel.say("and then")
            await server.wait_requests(3)
            await channel.say("/stop")
            (notice,) = await channel.wait_sent(1)
            assert "1 waiting message(s) are kept aside" in notice.text
            server.reply_text("followed up")
            await channel.say("/resume")
            texts = [part.text for part in await channel.wait_sent(3)]
            assert texts[-1] == "followed up"
    after = server.requests[-1].json["messages"]
    assert [message["content"] for message in after if message["role"] == "assistant"][:2] == ["step 1", "step 2"]
    assert last_user(server.requests[-1].json).endswith("and then")


# 3: a message that arrives while an answer is written swallows the answer


async def test_r03_a_message_that_comes_while_an_answer_is_written_swallows_nothing(
    rig: GatewayRig, server: ModelServer
) -> None:
    goes_on = anyio.Event()
    chunk = 'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n'
    server.reply_bytes([(chunk % "answer ").encode(), goes_on, (chunk % "A").encode(), b"data: [DONE]\n\n"])
    server.reply_text("answer B")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("A")
            await channel.wait_frames(1)
            await channel.say("B")
            goes_on.set()
            sent = await channel.wait_sent(2)
    assert [(part.text, part.reply_to) for part in sent] == [("answer A", "1"), ("answer B", "3")]
    assert [line["content"] for line in session_lines(rig) if line.get("role") == "assistant"] == [
        "answer A",
        "answer B",
    ]


# 4: /stop lets follow-ups run, and waits behind a download


async def test_r04_stop_parks_the_follow_ups_until_somebody_says_go_on(rig: GatewayRig, server: ModelServer) -> None:
    server.reply_text("never", hold=anyio.Event())
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("work")
            await server.wait_requests(1)
            await channel.say("follow-up one")
            await channel.say("follow-up two")
            await channel.say("/stop")
            await channel.wait_sent(1)
            await channel.say("new")
            await channel.wait_sent(2)
            assert [last_user(request.json)[-3:] for request in server.requests] == ["ork", "new"]
            await channel.say("/resume")
            await channel.wait_sent(5)
    assert [last_user(request.json)[-3:] for request in server.requests[2:]] == ["one", "two"]


class Downloading(MemoryChannel):
    """A channel whose voice messages are complete when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun, self.may_end = anyio.Event(), anyio.Event()

    async def resolve(self, raw: JsonObject) -> InboundMessage:
        self.has_begun.set()
        await self.may_end.wait()
        key = self.post(str(raw["text"]), chat_id="away")
        (arrival,) = [each for each in self._waiting if each.event_key == key]
        self._waiting.remove(arrival)
        assert arrival.message is not None
        return replace(arrival.message, address=replace(arrival.message.address, chat_id="1"))


async def test_r04_stop_does_not_wait_behind_a_download(rig: GatewayRig, server: ModelServer) -> None:
    voice = Downloading()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(voice) as (gateway, channel):
            arrival = Arrival("v1", "memory:1", "1", Lane.USER, {"text": "spoken"})
            await gateway.bus.receive([NewRow(arrival, "memory::v1")])
            await voice.has_begun.wait()
            await channel.say("/stop")
            (notice,) = await channel.wait_sent(1)
            assert "1 waiting message(s) are kept aside" in notice.text
            voice.may_end.set()
            await channel.say("/resume")
            texts = [part.text for part in await channel.wait_sent(3)]
            assert any(text.endswith("spoken") for text in texts)
    assert len(server.requests) == 1


# 5: one dispatcher for all platforms (the cancellations that leak stand in test_faults)


async def test_r05_a_slow_platform_delays_no_other_and_an_odd_message_ends_nothing(rig: GatewayRig) -> None:
    slow, odd, good = MemoryChannel("slow"), MemoryChannel("odd"), MemoryChannel("memory")
    slow.block("1")
    odd.fail("1", RuntimeError("odd"))  # type: ignore[arg-type]
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(good, {"slow": slow, "odd": odd}):
            await slow.say("one")
            await slow.wait_attempts(1)
            await odd.say("one")
            await odd.wait_attempts(1)
            await good.say("one")
            await good.wait_sent(1)
            await odd.say("two")
            assert (await odd.wait_sent(1))[0].text.endswith("two")
            slow.unblock("1")
            await slow.wait_sent(1)


# 6: a retried stream repeats itself, a retried message starts over, a failed answer is lost in silence


async def test_r06_a_stream_that_breaks_after_text_was_shown_does_not_begin_again(
    rig: GatewayRig, server: ModelServer
) -> None:
    breaks = anyio.Event()
    chunk = b'data: {"choices":[{"delta":{"content":"$100. "}}]}\n\n'
    server.reply_bytes([chunk, breaks, Break.CUT])
    server.reply_text("$100.")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("price?")
            await channel.wait_frames(1)
            breaks.set()
            (part,) = await channel.wait_sent(1)
            assert part.kind is PartKind.NOTICE
    shown = [frame.text for frame in channel.frames] + [part.text for part in channel.sent]
    assert max(text.count("$100.") for text in shown) == 1
    assert len(server.requests) == 1


async def test_r06_a_stream_that_breaks_before_any_text_is_asked_for_again_and_shown_once(
    rig: GatewayRig, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "FIRST_PAUSE_SECONDS", 0.0)
    for _ in range(2):
        server.reply_cut()
    server.reply_text("$100.")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("price?")
            assert [part.text for part in await channel.wait_sent(1)] == ["$100."]


class Stumbling(MemoryChannel):
    """A channel over which second parts do not go at first."""

    times = 0

    async def send(self, part: OutboundPart) -> tuple[str, ...]:
        if part.part == 1 and self.times:
            self.times -= 1
            self.attempts.append(part)
            self._watch.notify()
            raise NotSentError("no network")
        return await super().send(part)


@pytest.mark.parametrize("restarts", [False, True])
async def test_r06_a_message_of_three_parts_goes_on_at_the_part_that_failed(
    rig: GatewayRig, server: ModelServer, monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    monkeypatch.setattr(delivery, "FIRST_PAUSE_SECONDS", 0.01)
    stumbling = Stumbling("memory", MemorySettings(max_chars=4))
    stumbling.times = -1 if restarts else 2
    server.reply_text("onetwotri")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(stumbling) as (_, channel):
            await channel.say("count")
            await channel.wait_attempts(3)
            if not restarts:
                await channel.wait_sent(3)
        stumbling.times = 0
        async with rig.open(stumbling) as (_, channel):
            await channel.wait_sent(3)
    assert [(part.part, part.text) for part in stumbling.sent] == [(0, "onet"), (1, "wotr"), (2, "i")]


async def test_r06_an_answer_that_nobody_takes_is_told_to_the_owner_and_kept(
    server: ModelServer, tmp_path: Path, logged: Logged
) -> None:
    rig = GatewayRig(tmp_path, server.base_url, owner=("memory:99",))
    memory = MemoryChannel()
    memory.fail("1", RefusedError("chat is gone"))
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory) as (_, channel):
            await channel.say("hi")
            (told,) = await channel.wait_sent(1, chat_id="99")
            assert "memory:1" in told.text
            assert "chat is gone" in told.text
    assert logged.count("is given up: chat is gone") == 1


async def test_r06_a_stop_sends_what_is_ready_before_it_ends(rig: GatewayRig, server: ModelServer) -> None:
    memory = MemoryChannel()
    memory.block("1")
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory) as (gateway, channel):
            await channel.say("hi")
            await channel.wait_attempts(1)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(gateway.wind_down, 5)
                await anyio.wait_all_tasks_blocked()
                memory.unblock("1")
        assert len(memory.sent) == 1
        async with rig.open(memory) as (_, channel):
            await channel.say("again")
            await channel.wait_sent(2)
    assert len(memory.attempts) == 2


# 10: two processes on one workspace


async def test_r10_a_second_gateway_refuses_with_the_pid_and_the_first_goes_on(
    nanobee: Nanobee, server: ModelServer, telegram: TelegramServer
) -> None:
    server.reply_text("one")
    server.reply_text("two")
    ann = telegram.private(ANN)
    with anyio.fail_after(PROCESS_SECONDS):
        first = await start(nanobee)
        ann.says("hi")
        await telegram.wait_texts("one")
        second = await start(nanobee)
        assert await second.wait() not in (0, None)
        assert str(first.process.pid) in second.log
        ann.says("hi again")
        await telegram.wait_texts("one", "two")
        assert await first.end() == 0
