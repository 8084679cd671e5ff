"""Field bugs of session files, through a whole gateway: O-11, O-13, O-15."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import IO, Any, Self

import anyio
import pytest

from nanobee.agent import asking
from nanobee.bus.lines import Line
from nanobee.config import AgentSettings
from nanobee.messages import PartKind
from nanobee.sessions.files import BAD_SUFFIX, SessionFiles
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_server import ModelServer
from tests.gateway.conftest import Logged
from tests.gateway.test_turns import LIMIT_SECONDS, last_user

KEY = "memory:1"

# O-11: failed turns leave no run of user messages


@pytest.mark.parametrize("restarts", [False, True])
async def test_o11_after_five_failed_turns_the_first_healthy_one_succeeds_and_sees_all_texts_in_order(
    rig: GatewayRig, server: ModelServer, monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    monkeypatch.setattr(asking, "FIRST_PAUSE_SECONDS", 0.0)
    texts = [f"failed {number}" for number in range(5)]
    server.reply_status(
        500, {"error": {"message": "boom"}}, when=lambda body: "healthy" not in last_user(body), times=None
    )
    memory = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory) as (_, channel):
            for count, text in enumerate(texts, 1):
                await channel.say(text)
                assert (await channel.wait_sent(count))[-1].kind is PartKind.NOTICE
            if not restarts:
                await channel.say("healthy")
                await channel.wait_sent(6)
        if restarts:
            async with rig.open(memory) as (_, channel):
                await channel.say("healthy")
                await channel.wait_sent(6)
    assert memory.sent[-1].kind is PartKind.ANSWER
    seen = last_user(server.requests[-1].json)
    places = [seen.index(text) for text in [*texts, "healthy"]]
    assert places == sorted(places)


async def test_o11_a_message_after_a_stopped_one_succeeds_and_shows_both(rig: GatewayRig, server: ModelServer) -> None:
    server.reply_text("never", hold=anyio.Event())
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (_, channel):
            await channel.say("stopped")
            await server.wait_requests(1)
            await channel.say("/stop")
            await channel.wait_sent(1)
            await channel.say("healthy")
            assert (await channel.wait_sent(2))[1].kind is PartKind.ANSWER
    seen = last_user(server.requests[-1].json)
    assert seen.index("stopped") < seen.index("healthy")


# O-13: a damaged file costs what is damaged


def cut_last(data: bytes) -> bytes:
    return data[:-25]


def garble_fifth(data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    lines[4] = b'\xff\xfe garbage {"seq":\n'
    return b"".join(lines)


def add_nulls(data: bytes) -> bytes:
    return data + b"\0" * 512


def add_mark(data: bytes) -> bytes:
    return b"\xef\xbb\xbf" + data


def break_all(data: bytes) -> bytes:
    return b"".join(line[:-9] + b"\n" for line in data.splitlines(keepends=True))


DAMAGE = {
    "a_cut_last_line": (cut_last, ["old 0", "old 1", "old 2"]),
    "b_garbage_in_line_5": (garble_fifth, ["old 0", "old 1", "old 2"]),
    "c_nul_bytes_at_the_end": (add_nulls, ["old 0", "old 1", "old 2"]),
    "d_byte_order_mark": (add_mark, ["old 0", "old 1", "old 2"]),
    "e_every_line_broken": (break_all, []),
}


@pytest.mark.parametrize("variant", DAMAGE)
async def test_o13_a_damaged_file_costs_what_is_damaged_and_nothing_that_comes_after(
    rig: GatewayRig, server: ModelServer, logged: Logged, variant: str
) -> None:
    damage, left = DAMAGE[variant]
    memory = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory) as (_, channel):
            for number in range(3):
                await channel.say(f"old {number}")
                await channel.wait_sent(number + 1, chat_id="1")
            await channel.say("other chat", chat_id="2")
            await channel.wait_sent(4)
        path = SessionFiles(rig.settings.state).path(KEY)
        whole = path.read_bytes()
        path.write_bytes(damage(whole))
        async with rig.open(memory) as (_, channel):
            for number in range(2):
                await channel.say(f"new {number}")
                await channel.wait_sent(4 + number, chat_id="1")
        async with rig.open(memory) as (_, channel):
            await channel.say("last")
            await channel.wait_sent(6, chat_id="1")
            await channel.say("still there", chat_id="2")
            await channel.wait_sent(2, chat_id="2")
    one, two = server.requests[-2].json, server.requests[-1].json
    said = "\n".join(message["content"] for message in one["messages"] if message["role"] == "user")
    assert [text for text in ("old 0", "old 1", "old 2", "new 0", "new 1", "last") if text in said] == [
        *left,
        "new 0",
        "new 1",
        "last",
    ]
    assert "other chat" in str(two["messages"])
    is_harmless = variant == "d_byte_order_mark"
    side = path.with_name(path.name + BAD_SUFFIX)
    assert side.exists() is not is_harmless
    assert logged.count("unreadable lines") == (0 if is_harmless else 1)


# O-15: what stands before the model call does not grow with the session


class CountingFile:
    """A session file that counts what is read of it."""

    def __init__(self, path: Path, file: IO[bytes], reads: "Reads") -> None:
        self._path = path
        self._file = file
        self._reads = reads

    def read(self, size: int = -1) -> bytes:
        if size != 1:  # more than a look at how the file ends
            self._reads.before_read(self._path)
        data = self._file.read(size)
        self._reads.bytes += len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.read().splitlines(keepends=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()


def is_of_the_search_index() -> bool:
    """Whether the memory's search index reads, in the background: no turn waits for it."""
    frame = sys._getframe()
    while (outer := frame.f_back) is not None:
        frame = outer
        if frame.f_globals.get("__name__") == "nanobee.memory.index":
            return True
    return False


class Reads:
    """Bytes read of session files, and lines parsed of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = self.lines = 0
        self.before_read: Callable[[Path], None] = lambda path: None
        path_open, from_json = Path.open, Line.from_json

        def counting_open(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if path.suffix != ".jsonl" or mode != "rb" or is_of_the_search_index():
                return path_open(path, mode, *arguments, **options)
            return CountingFile(path, path_open(path, mode, *arguments, **options), self)

        def counting_from_json(text: str | bytes) -> Line:
            self.lines += not is_of_the_search_index()
            return from_json(text)

        monkeypatch.setattr(Path, "open", counting_open)
        monkeypatch.setattr(Line, "from_json", counting_from_json)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


def write_session(state: Path, messages: int, chars: int, key: str = KEY) -> None:
    """A session file with so many messages, half of them the model's."""
    path = SessionFiles(state).path(key)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for seq in range(1, messages + 1):
            role = "user" if seq % 2 else "assistant"
            line = {"seq": seq, "at": "2026-01-01T00:00:00.000Z", "turn": f"t{(seq + 1) // 2}", "kind": "message"}
            file.write(json.dumps({**line, "role": role, "content": f"m{seq} ".ljust(chars, "x")}) + "\n")


async def cost_of_a_message(
    rig: GatewayRig, server: ModelServer, reads: Reads, messages: int, chars: int
) -> tuple[int, int]:
    """Bytes read and lines parsed from a message's arrival until the model is asked, after a start."""
    write_session(rig.settings.state, messages, chars)
    async with rig.open() as (_, channel):
        reads.bytes = reads.lines = 0
        before = len(server.requests)
        await channel.say("hello")
        await server.wait_requests(before + 1)
        cost = reads.bytes, reads.lines
        await channel.wait_sent(1)
    said = [message["content"] for message in server.requests[before].json["messages"] if message["role"] != "system"]
    assert f"m{messages} " in said[-2]
    return cost


@pytest.mark.parametrize(("few", "many", "chars"), [(200, 20_000, 2_000), (50, 50_000, 600)])
async def test_o15_what_is_read_before_the_model_call_does_not_grow_with_the_session(
    server: ModelServer, reads: Reads, tmp_path: Path, few: int, many: int, chars: int
) -> None:
    # A window that the smaller session just fills.
    context_tokens = max(1_000, int(few * chars / 3.5 / 0.6)) if few == 50 else 64_000
    settings = AgentSettings(context_tokens=context_tokens)
    with anyio.fail_after(6 * LIMIT_SECONDS):
        costs = [
            await cost_of_a_message(
                GatewayRig(tmp_path / str(messages), server.base_url, settings), server, reads, messages, chars
            )
            for messages in (few, many)
        ]
    (few_bytes, few_lines), (many_bytes, many_lines) = costs
    assert few_lines > 20
    assert many_bytes <= 2 * few_bytes, costs
    assert many_lines <= 2 * few_lines, costs


async def test_o15_while_a_long_session_is_read_another_is_answered(
    rig: GatewayRig, server: ModelServer, reads: Reads
) -> None:
    write_session(rig.settings.state, 2_000, 200)
    long_path, may_read = SessionFiles(rig.settings.state).path(KEY), Event()
    memory = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(memory) as (_, channel):
            await channel.say("first", chat_id="1")  # the session's row is made: what is read now is its history
            await channel.wait_sent(1)

        def wait(path: Path) -> None:
            if path == long_path:
                import traceback

                traceback.print_stack()
                assert may_read.wait(LIMIT_SECONDS)

        reads.before_read = wait
        async with rig.open(memory) as (_, channel):
            await channel.say("slow", chat_id="1")
            await channel.say("quick", chat_id="2")
            assert [part.text[-5:] for part in await channel.wait_sent(1, chat_id="2")] == ["quick"]
            assert len(channel.sent_to("1")) == 1
            may_read.set()
            assert [part.text[-5:] for part in await channel.wait_sent(2, chat_id="1")] == ["first", " slow"]
