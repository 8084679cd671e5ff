"""The embedded model, for real: llama.cpp with the file that `nanobee models get` brings."""

import inspect
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from nanobee.chat import (
    ChatMessage,
    Completion,
    CompletionRequest,
    Delta,
    FinishReason,
    TextDelta,
)
from nanobee.config import Settings
from nanobee.errors import ContextLengthError, ProviderConnectionError
from nanobee.providers.discover import choose_model
from nanobee.providers.llama_server import PROMPT_CACHE_MIB
from nanobee.providers.local import (
    MAX_LIST_ITEMS,
    MAX_TEXT_CHARS,
    TINY_OUTPUT_TOKENS,
    LocalProvider,
    LocalSettings,
    bound_schema,
    count_cores,
)
from nanobee.providers.model_file import find_model

ANSWER_SECONDS = 120.0
"""On a busy machine; alone it takes about one."""
EXIT_SECONDS = 10.0
SYSTEM = ChatMessage("system", "You are nanobee, a helpful assistant. Answer in one short sentence. " * 6)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at as Linux shows them")


@pytest.fixture(scope="module")
def model_file() -> Path:
    pytest.importorskip("xllamacpp", reason='not installed: pip install "nanobee-gateway[local]"')
    file = find_model()
    if file is None:
        pytest.skip("the embedded model's file is not in the cache; to fetch it: nanobee models get")
    return file


@asynccontextmanager
async def open_provider(model_file: Path, context_tokens: int = 1_024) -> AsyncGenerator[LocalProvider]:
    settings = LocalSettings(kind="local", context_tokens=context_tokens)
    provider = LocalProvider("local", settings, model_file, is_tiny=True)
    try:
        with anyio.fail_after(ANSWER_SECONDS):
            yield provider
    finally:
        with anyio.fail_after(EXIT_SECONDS):
            await provider.aclose()


def ask(
    *texts: str, max_tokens: int | None = None, response_schema: Mapping[str, object] | None = None
) -> CompletionRequest:
    """A request whose messages alternate between user and assistant."""
    said = (ChatMessage("assistant" if index % 2 else "user", text) for index, text in enumerate(texts))
    return CompletionRequest("smollm2-135m", (SYSTEM, *said), max_tokens=max_tokens, response_schema=response_schema)


def children() -> list[int]:
    """The processes of the embedded model that this process has started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
            command = (status.parent / "cmdline").read_bytes()
        except OSError:  # it has just ended
            continue
        if int(parent) == os.getpid() and b"nanobee.providers.llama_server" in command:
            found.append(int(status.parent.name))
    return found


def read_process(pid: int, name: str) -> list[str]:
    """A process's arguments (`cmdline`) or environment (`environ`)."""
    return Path(f"/proc/{pid}/{name}").read_bytes().decode().rstrip("\0").split("\0")


def wait_gone(pid: int, seconds: float = EXIT_SECONDS) -> bool:
    """Whether a process that need not be our child ends in time."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


async def test_it_answers_with_text_as_it_writes_it(model_file: Path) -> None:
    deltas: list[Delta] = []
    async with open_provider(model_file) as provider:
        completion = await provider.complete(ask("Say hello."), deltas.append)
    assert completion.content.strip()
    assert len(deltas) > 1
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == completion.content
    assert completion.model == model_file.stem
    assert completion.usage.output_tokens > 0


async def test_a_second_turn_reads_only_what_is_new(model_file: Path) -> None:
    async with open_provider(model_file) as provider:
        first = await provider.complete(ask("Say hello.", max_tokens=16))
        second = await provider.complete(ask("Say hello.", first.content, "What is the capital of France?"))
    read_first, read_second = (answer.usage.input_tokens - answer.usage.cached_tokens for answer in (first, second))
    assert read_first == first.usage.input_tokens
    # Of the first prompt nothing is read again; the model's own words may be, cut into other tokens.
    assert second.usage.cached_tokens >= first.usage.input_tokens - 1
    assert read_second < read_first / 2


async def test_a_chat_that_gave_up_its_slot_finds_its_prompt_again(model_file: Path) -> None:
    topics = ["rain", "cats", "bread"]
    story = "Here is a story about {}: " + "it went on and on, and then it ended. " * 8
    async with open_provider(model_file) as provider:
        for topic in topics:
            await provider.complete(ask(story.format(topic), max_tokens=4))
        again = await provider.complete(ask(story.format(topics[0]), max_tokens=4))
    assert PROMPT_CACHE_MIB > 0
    assert again.usage.input_tokens - again.usage.cached_tokens < again.usage.input_tokens / 2


async def test_calls_at_once_are_all_answered_also_when_they_start_the_model_together(model_file: Path) -> None:
    answers: dict[str, Completion] = {}

    async def ask_about(topic: str) -> None:
        answers[topic] = await provider.complete(ask(f"Tell me one thing about {topic}.", max_tokens=12))

    async with open_provider(model_file) as provider, anyio.create_task_group() as tasks:
        for topic in ("rain", "cats", "bread"):
            tasks.start_soon(ask_about, topic)
    assert set(answers) == {"rain", "cats", "bread"}
    assert all(answer.content.strip() for answer in answers.values())


async def test_its_answers_are_short_whatever_is_asked_for(model_file: Path) -> None:
    async with open_provider(model_file) as provider:
        counting = await provider.complete(ask("Count from 1 to 100000, one number a line.", max_tokens=100_000))
        short = await provider.complete(ask("Tell me a long story.", max_tokens=3))
    assert counting.usage.output_tokens <= TINY_OUTPUT_TOKENS
    assert short.usage.output_tokens <= 3
    assert short.finish_reason is FinishReason.LENGTH


async def test_a_structured_answer_holds_its_schema_though_that_has_no_bounds(model_file: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "facts": {"type": "array", "items": {"type": "string"}},
            "summary": {"type": "string", "maxLength": 40},
            "mood": {"enum": ["good", "bad"]},
            "run": {"type": "boolean"},
        },
        "required": ["facts", "summary", "mood", "run"],
        "additionalProperties": False,
    }
    async with open_provider(model_file) as provider:
        completion = await provider.complete(
            ask("I am Ann, I live in Paris and I like tea. What do you know about me?", response_schema=schema)
        )
    assert completion.finish_reason is FinishReason.STOP
    answer = json.loads(completion.content)
    assert set(answer) == {"facts", "summary", "mood", "run"}
    assert len(answer["facts"]) <= MAX_LIST_ITEMS
    assert all(isinstance(fact, str) and len(fact) <= MAX_TEXT_CHARS for fact in answer["facts"])
    assert len(answer["summary"]) <= 40
    assert answer["mood"] in ("good", "bad")
    assert isinstance(answer["run"], bool)


async def test_a_prompt_longer_than_its_window_is_refused_as_such(model_file: Path) -> None:
    async with open_provider(model_file, context_tokens=512) as provider:
        with pytest.raises(ContextLengthError):
            await provider.complete(ask("word " * 2_000))
        assert (await provider.complete(ask("Say hello."))).content


async def test_a_stopped_call_makes_room_at_once(model_file: Path) -> None:
    async with open_provider(model_file) as provider:
        async with anyio.create_task_group() as tasks:
            for _ in range(2):  # both slots
                tasks.start_soon(
                    provider.complete,
                    ask("Count from 1 to 100000, one number a line."),
                    lambda delta: tasks.cancel_scope.cancel(),
                )
        after = await provider.complete(ask("Say hello.", max_tokens=8))
    assert after.content


async def test_a_call_that_is_stopped_while_the_model_loads_leaves_it_loading(model_file: Path) -> None:
    async with open_provider(model_file) as provider:
        await provider.start()
        (pid,) = children()
        with anyio.move_on_after(0) as scope:
            await provider.complete(ask("Say hello."))
        assert scope.cancelled_caught
        assert (await provider.complete(ask("Say hello.", max_tokens=4))).content
        assert children() == [pid]


async def test_it_starts_again_after_its_process_was_killed(model_file: Path) -> None:
    async with open_provider(model_file) as provider:
        await provider.complete(ask("Say hello.", max_tokens=4))
        (pid,) = children()
        os.kill(pid, signal.SIGKILL)
        await anyio.to_thread.run_sync(wait_gone, pid)
        content = ""
        with anyio.fail_after(60):
            while not content:  # the end of the process may be known only after a call or two
                with suppress(ProviderConnectionError):
                    content = (await provider.complete(ask("Say hello.", max_tokens=4))).content
        assert children() not in ([], [pid])


async def test_closing_ends_the_process_and_what_waits_for_it(model_file: Path) -> None:
    errors: list[ProviderConnectionError] = []

    async def ask_in_vain(provider: LocalProvider) -> None:
        try:
            await provider.complete(ask("Say hello."))
        except ProviderConnectionError as error:
            errors.append(error)

    async with open_provider(model_file) as provider:
        await provider.start()
        (pid,) = children()
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(ask_in_vain, provider)
            await anyio.wait_all_tasks_blocked()
            await provider.aclose()
        assert len(errors) == 3
        assert wait_gone(pid)
        assert children() == []
        with pytest.raises(ProviderConnectionError, match="is closed"):
            await provider.complete(ask("Say hello."))


async def test_closing_what_never_started_is_nothing(tmp_path: Path) -> None:
    async with open_provider(tmp_path / "none.gguf") as provider:
        await provider.aclose()
    assert children() == []


BROKEN = {"missing": None, "empty": b"", "text": b"hello\n" * 100, "cut": b"GGUF\x03\x00\x00\x00" + bytes(64)}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
async def test_a_file_that_is_no_model_is_told_and_the_next_call_tries_again(
    content: bytes | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("xllamacpp", reason='not installed: pip install "nanobee-gateway[local]"')
    file = tmp_path / "model.gguf"
    if content is not None:
        file.write_bytes(content)
    async with open_provider(file) as provider:
        for _ in range(2):
            with pytest.raises(ProviderConnectionError, match="file cannot be loaded"):
                await provider.complete(ask("Say hello."))
        assert children() == []
    assert capfd.readouterr() == ("", "")


async def test_nobody_else_on_this_machine_can_use_it(model_file: Path) -> None:
    """The key is neither in the arguments nor in the environment of the process."""
    async with open_provider(model_file) as provider:
        await provider.complete(ask("Say hello.", max_tokens=4))
        (pid,) = children()
        assert read_process(pid, "cmdline")[1:] == ["-P", "-m", "nanobee.providers.llama_server"]
        inherited = {item.partition("=")[0] for item in read_process(pid, "environ")}
        assert inherited - {"COLUMNS", "LINES"} <= os.environ.keys()
        address = listening_address(pid)
        assert address.startswith("127.0.0.1:")
        for head in ("", "Authorization: Bearer wrong\r\n", "Origin: http://evil.example\r\n"):
            answer = await post(address, head)
            assert answer.startswith("HTTP/1.1 401 ")
            assert "evil.example" not in answer
            assert "Access-Control-Allow-Origin: *" not in answer


def listening_address(pid: int) -> str:
    """The one address on which a process listens, from the kernel's table."""
    sockets = {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()}
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    (local,) = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
    host, _, port = local.partition(":")
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(host))) + f":{int(port, 16)}"


async def post(address: str, head: str) -> str:
    host, _, port = address.partition(":")
    body = json.dumps({"messages": [{"role": "user", "content": "hello"}], "max_tokens": 1})
    async with await anyio.connect_tcp(host, int(port)) as stream:
        await stream.send(
            f"POST /v1/chat/completions HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\n{head}"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        answer = b""
        while True:
            try:
                answer += await stream.receive()
            except anyio.EndOfStream:
                return answer.decode()


PROGRAM = f"""
import os, sys, anyio
from pathlib import Path
from nanobee.chat import ChatMessage, CompletionRequest
from nanobee.providers.local import LocalProvider, LocalSettings

{inspect.getsource(children)}

async def main(file, way):
    provider = LocalProvider("local", LocalSettings(kind="local", context_tokens=512), Path(file), is_tiny=True)
    await provider.start()
    if way != "loading":
        await provider.complete(CompletionRequest("m", (ChatMessage("user", "Say hello."),), max_tokens=4))
    print(children()[0], flush=True)
    match way:
        case "closed": await provider.aclose()
        case "killed": os.kill(os.getpid(), 9)
        case "gone": os._exit(3)
        case "failed": raise SystemExit(4)

anyio.run(main, *sys.argv[1:])
"""


def run_program(*arguments: str, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=ANSWER_SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    ("way", "status"), [("closed", 0), ("left open", 0), ("loading", 0), ("failed", 4), ("gone", 3), ("killed", -9)]
)
def test_no_process_outlives_its_parent_and_none_speaks(way: str, status: int, model_file: Path) -> None:
    result = run_program(str(model_file), way)
    assert result.returncode == status, result.stderr
    assert "llama" not in result.stderr
    if way in ("closed", "gone", "killed"):  # who leaves a provider open hears of it from asyncio and aiohttp
        assert result.stderr == ""
    assert wait_gone(int(result.stdout))


async def test_an_interrupt_in_the_terminal_does_not_reach_it(model_file: Path) -> None:
    async with open_provider(model_file) as provider:
        await provider.complete(ask("Say hello.", max_tokens=4))
        (pid,) = children()
        assert os.getpgid(pid) != os.getpgid(0)
        os.kill(pid, signal.SIGINT)
        assert (await provider.complete(ask("Say hello.", max_tokens=4))).content
        assert children() == [pid]


async def test_the_chosen_embedded_model_loads_before_it_is_asked(model_file: Path) -> None:
    environ = {"NANOBEE_CACHE": os.environ["NANOBEE_CACHE"]}
    model = await choose_model(Settings(), environ, servers=())
    try:
        assert len(children()) == 1
        with anyio.fail_after(ANSWER_SECONDS):
            completion = await model.provider.complete(
                CompletionRequest(model.name, (ChatMessage("user", "Say hello."),))
            )
        assert completion.content
    finally:
        await model.provider.aclose()


def test_a_folder_with_a_file_of_the_same_name_does_not_stand_in_for_the_package(
    model_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "nanobee").mkdir()
    (tmp_path / "nanobee" / "__init__.py").write_text("raise SystemExit(9)", encoding="utf-8")
    (tmp_path / "xllamacpp.py").write_text("raise SystemExit(9)", encoding="utf-8")
    result = run_program(str(model_file), "closed", folder=tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("order", ["", "{", "null", '{"is_tiny": true}'])
def test_the_process_ends_quietly_without_an_order(order: str) -> None:
    result = subprocess.run(
        [sys.executable, "-P", "-m", "nanobee.providers.llama_server"],
        input=order,
        capture_output=True,
        text=True,
        timeout=ANSWER_SECONDS,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_the_process_ends_when_nobody_takes_its_answer(model_file: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "nanobee.providers.llama_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()  # as if the parent had died while the model loads
    process.stdout = None
    order = {"model_path": str(model_file), "model_name": "m", "context_tokens": 512, "slots": 1, "threads": 1}
    try:
        _, spoken = process.communicate(json.dumps({**order, "api_key": "k", "is_tiny": True}) + "\n", EXIT_SECONDS)
    finally:
        process.kill()
    assert spoken == ""


# Parts without a process

SCHEMAS: dict[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
    "text": ({"type": "string"}, {"type": "string", "maxLength": MAX_TEXT_CHARS}),
    "short text": ({"type": "string", "maxLength": 9}, {"type": "string", "maxLength": 9}),
    "a choice": ({"type": "string", "enum": ["a"]}, {"type": "string", "enum": ["a"]}),
    "a date": ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
    "a list": ({"type": "array", "items": {}}, {"type": "array", "items": {}, "maxItems": MAX_LIST_ITEMS}),
    "a long list": (
        {"type": "array", "items": {"type": "integer"}, "minItems": 90},
        {"type": "array", "items": {"type": "integer"}, "minItems": 90, "maxItems": 90},
    ),
    "text or nothing": (
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"anyOf": [{"type": "string", "maxLength": MAX_TEXT_CHARS}, {"type": "null"}]},
    ),
    "several types": (
        {"type": ["string", "null"]},
        {"type": ["string", "null"], "maxLength": MAX_TEXT_CHARS},
    ),
    "a property named type": (
        {"type": "object", "properties": {"type": {"type": "string"}, "maxItems": {"type": "integer"}}},
        {
            "type": "object",
            "properties": {"type": {"type": "string", "maxLength": MAX_TEXT_CHARS}, "maxItems": {"type": "integer"}},
        },
    ),
    "a definition": (
        {"$defs": {"Name": {"type": "string"}}, "$ref": "#/$defs/Name"},
        {"$defs": {"Name": {"type": "string", "maxLength": MAX_TEXT_CHARS}}, "$ref": "#/$defs/Name"},
    ),
    "a default that looks like a schema": ({"default": {"type": "string"}}, {"default": {"type": "string"}}),
}


@pytest.mark.parametrize(("schema", "expected"), SCHEMAS.values(), ids=SCHEMAS.keys())
def test_bounds_are_put_on(schema: Mapping[str, object], expected: Mapping[str, object]) -> None:
    before = json.dumps(schema)
    assert bound_schema(schema) == expected
    assert json.dumps(schema) == before


def test_the_cores_are_those_that_this_process_may_use() -> None:
    assert 1 <= count_cores() <= (os.cpu_count() or 1)
