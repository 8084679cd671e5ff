"""exec: a command can take neither the call, nor the terminal, nor the memory, and leaves no process behind."""

import json
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from nanobee.chat import ToolCall
from nanobee.errors import ToolError
from nanobee.tools.builtin import create_builtin_registry
from nanobee.tools.exec_command import MAX_COMMAND_BYTES, build_environment
from nanobee.tools.exec_output import BoundedOutput
from nanobee.tools.process_group import MARK, ProcessGroup, describe_end
from nanobee.tools.tool import ToolContext

PROC = Path("/proc")
LIMIT_SECONDS = 2
RETURN_SECONDS = 3.5
"""The limit, SIGTERM's grace, and a busy machine."""

Run = Callable[..., Coroutine[Any, Any, str]]


@pytest.fixture
def owner(context: ToolContext, request: pytest.FixtureRequest) -> ToolContext:
    return replace(context, is_owner=True, call_id=f"call_{os.getpid()}_{request.node.name}")


@pytest.fixture
def run(owner: ToolContext) -> Run:
    registry = create_builtin_registry()

    async def run_command(command: str, seconds: float = 30, **arguments: object) -> str:
        values = {"command": command, "timeout_seconds": seconds, **arguments}
        return (await registry.call(owner, ToolCall("call1", "exec", json.dumps(values)))).result.content

    return run_command


def survivors(context: ToolContext) -> list[str]:
    """What still runs of a call, whatever group it is in, by the mark that children inherit."""
    if not PROC.exists():
        return []
    mark = f"{MARK}={context.call_id}".encode()
    found = []
    for folder in PROC.iterdir():
        try:
            if folder.name.isdecimal() and mark in (folder / "environ").read_bytes().split(b"\x00"):
                found.append((folder / "cmdline").read_text().replace("\x00", " "))
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("cat", "[nothing was printed; exit code 0]"),
        ("python3", "[nothing was printed; exit code 0]"),
        ('read x; echo "[$x]"', "[]\n[exit code 0]"),
        ("sleep 300 &", "[nothing was printed; exit code 0; processes that it had left running"),
        ("(sleep 300; touch late) & echo hi", "hi\n[exit code 0; processes that it had left running"),
        ("(trap '' TERM; echo stubborn; sleep 300; touch late) & wait", "stubborn\n[it was ended after 2 s"),
        ("trap '' TERM; echo a; while :; do sleep 1; done; touch late", "a\n[it was ended after 2 s"),
        ("(trap '' TERM HUP; sleep 300; touch late) & echo hi", "hi\n[exit code 0; processes that it had left running"),
        ("exec >&- 2>&-; sleep 300; touch late", "[nothing was printed; it was ended after 2 s"),
        ("kill -STOP $$; touch late", "[nothing was printed; it was ended after 2 s"),
        ("nohup sleep 300 & echo started", "started\n[exit code 0; processes that it had left running"),
    ],
)
async def test_o44_a_command_holds_nothing_up_and_leaves_nothing_behind(
    run: Run, owner: ToolContext, workspace: Path, command: str, printed: str
) -> None:
    with anyio.fail_after(RETURN_SECONDS):
        content = await run(command, LIMIT_SECONDS)
    assert content.startswith(printed)
    assert survivors(owner) == []
    assert not (workspace / "late").exists()


async def test_o44_a_command_that_prints_without_end_is_cut_at_its_limit(run: Run, owner: ToolContext) -> None:
    with anyio.fail_after(RETURN_SECONDS):
        content = await run("yes", LIMIT_SECONDS)
    assert content.startswith("y\ny\n")
    assert "bytes are left out here" in content
    assert content.endswith("[it was ended after 2 s, its time limit; what it did until then is done]")
    assert len(content) < 20_000
    assert survivors(owner) == []


def test_o44_a_terminal_is_left_as_it_is(tmp_path: Path) -> None:
    """In a process whose controlling terminal is a real one, as `nanobee cli` is."""
    script = tmp_path / "in_terminal.py"
    script.write_text(
        "import anyio, sys\n"
        "from pathlib import Path\n"
        "from nanobee.tools.exec_process import run_command\n"
        "async def announce(group): pass\n"
        "async def main():\n"
        "    for command in ('cat', 'stty -echo', 'read x </dev/tty', 'echo seen >/dev/tty', 'python3'):\n"
        "        ended = await run_command(command, Path.cwd(), {'PATH': sys.argv[1]}, 'call', 2, announce)\n"
        "        print(ended.code, flush=True)\n"
        "anyio.run(main)\n"
    )
    main, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    done = subprocess.run(
        [sys.executable, str(script), os.environ["PATH"]],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=terminal,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=20,
        check=True,
        # A session of its own, whose controlling terminal the pseudo-terminal becomes.
        preexec_fn=_take_terminal,
    )
    assert termios.tcgetattr(terminal) == before
    codes = done.stdout.decode().split()
    assert codes[0] == codes[4] == "0"
    assert "0" not in codes[1:4]
    os.set_blocking(main, False)
    with pytest.raises(BlockingIOError):
        os.read(main, 1)
    os.close(main)
    os.close(terminal)


def _take_terminal() -> None:
    import fcntl

    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


async def test_o45_of_two_gigabytes_the_first_and_the_last_line_are_kept_and_memory_stays_small(
    run: Run, owner: ToolContext
) -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    content = await run("echo FIRST; head -c 2000000000 /dev/zero; echo; echo ERROR: last", 120)
    assert content.startswith("FIRST\n")
    assert content.endswith("\nERROR: last\n[exit code 0]")
    assert "of 2,000,000,019 bytes are left out here" in content
    assert len(content) < 20_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000, "in KiB"


@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("echo hi", "hi\n[exit code 0]"),
        ("printf hi", "hi\n[exit code 0]"),
        ("echo out; echo err >&2; echo out", "out\nerr\nout\n[exit code 0]"),
        ("exit 3", "[nothing was printed; exit code 3]"),
        ("kill -9 $$", "[nothing was printed; ended by SIGKILL]"),
        ("exec 2>/dev/null; bash -c 'kill -SEGV $$'; exit $?", "[nothing was printed; exit code 139 (SIGSEGV)]"),
        ("no_such_program_here 2>/dev/null", "[nothing was printed; exit code 127]"),
        ("printf 'a\\377b\\n'", "a\ufffdb\n[exit code 0]"),
        ("[[ a == a ]] && echo bash", "bash\n[exit code 0]"),
    ],
)
async def test_what_a_command_printed_and_how_it_ended_is_told(run: Run, command: str, content: str) -> None:
    assert await run(command) == content


async def test_a_command_runs_in_the_workspace(run: Run, workspace: Path) -> None:
    assert await run("pwd; echo x > made") == f"{workspace}\n[exit code 0]"
    assert (workspace / "made").read_text() == "x\n"


async def test_a_command_sees_no_secret(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "CANARY")
    monkeypatch.setenv("SOME_TOKEN", "CANARY")
    monkeypatch.setenv("LD_PRELOAD_X", "CANARY")
    names = {line.partition("=")[0] for line in (await run("env")).splitlines()[:-1]}
    assert names <= {*build_environment(dict(os.environ)), MARK, "PWD", "OLDPWD", "SHLVL", "_"}
    assert "CANARY" not in await run("env; cat /proc/self/environ 2>/dev/null | tr '\\0' '\\n'")


async def test_a_command_inherits_no_open_file(run: Run, tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        assert str(tmp_path / "open") not in await run("ls -l /proc/self/fd 2>/dev/null; readlink /proc/$$/fd/*")


@pytest.mark.parametrize("command", ["", " \n", "echo \x00"])
async def test_a_command_that_is_none_is_refused(run: Run, command: str) -> None:
    assert (await run(command)).startswith("Error: ")


async def test_a_command_that_is_too_long_is_refused_with_a_way_out(run: Run, workspace: Path) -> None:
    content = await run("touch made; echo " + "x" * MAX_COMMAND_BYTES)
    assert "write it into a file" in content
    assert not (workspace / "made").exists()
    assert (await run("echo " + "x" * (MAX_COMMAND_BYTES - 100))).endswith("[exit code 0]")


@pytest.mark.parametrize("seconds", [0, -1, 601, 1e9])
async def test_a_time_limit_out_of_bounds_is_refused(run: Run, workspace: Path, seconds: float) -> None:
    assert (await run("touch made", seconds)).startswith("Error: exec was not run")
    assert not (workspace / "made").exists()


async def test_a_workspace_that_is_gone_is_told(run: Run, workspace: Path) -> None:
    assert await run("rmdir ../abc") == "[nothing was printed; exit code 0]"
    assert (await run("echo hi")).startswith("Error: the command could not be started: No such file")


async def test_half_an_emoji_in_a_command_does_no_harm(run: Run) -> None:
    assert await run("echo a\ud83db") == "a\ufffdb\n[exit code 0]"


async def test_o37_a_cancelled_call_ends_the_command_and_its_children(
    owner: ToolContext, run: Run, workspace: Path
) -> None:
    os.mkfifo(workspace / "begun")
    with anyio.fail_after(RETURN_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, "(trap '' TERM; sleep 300; touch late) & (sleep 300) & echo x > begun; wait")
            await anyio.to_thread.run_sync((workspace / "begun").read_text)
            assert survivors(owner) != [] or sys.platform != "linux"
            tasks.cancel_scope.cancel()
    assert survivors(owner) == []
    assert not (workspace / "late").exists()


async def test_a_command_that_is_asked_to_end_may_clean_up(run: Run, workspace: Path) -> None:
    await run("trap 'touch cleaned; exit' TERM; sleep 300 & wait", 1)
    assert (workspace / "cleaned").exists()


async def test_a_command_does_nothing_before_its_group_is_announced(owner: ToolContext, workspace: Path) -> None:
    announced: list[ProcessGroup] = []

    async def announce(group: ProcessGroup) -> None:
        announced.append(group)
        assert group.is_alive
        assert not (workspace / "made").exists()

    context = replace(owner, announce_process=announce)
    call = ToolCall(
        "call1", "exec", json.dumps({"command": f"touch made; {sys.executable} -c 'import os; print(os.getpgid(0))'"})
    )
    content = (await create_builtin_registry().call(context, call)).result.content
    (group,) = announced
    assert content.split() == [str(group.id), "[exit", "code", "0]"]
    assert (workspace / "made").exists()
    assert not group.is_alive


async def test_a_command_that_cannot_be_recorded_is_not_run(owner: ToolContext, workspace: Path) -> None:
    groups: list[ProcessGroup] = []

    async def announce(group: ProcessGroup) -> None:
        groups.append(group)
        raise ToolError("the disk is full")

    context = replace(owner, announce_process=announce)
    call = ToolCall("call1", "exec", json.dumps({"command": "touch made"}))
    with anyio.fail_after(RETURN_SECONDS):
        assert "the disk is full" in (await create_builtin_registry().call(context, call)).result.content
    assert not groups[0].is_alive
    assert not (workspace / "made").exists()


async def test_only_the_owner_has_it(context: ToolContext, workspace: Path) -> None:
    registry = create_builtin_registry()
    assert "exec" not in [spec.name for spec in registry.specs()]
    assert "exec" in [spec.name for spec in registry.specs(is_owner=True)]
    outcome = await registry.call(context, ToolCall("call1", "exec", '{"command": "touch made"}'))
    assert outcome.result.is_error
    assert outcome.result.content.startswith("Error: there is no tool 'exec'")
    assert "exec" not in outcome.result.content.partition("The tools are")[2]
    assert not (workspace / "made").exists()


KILLED = """
import anyio, os, sys
from pathlib import Path
from nanobee.tools.exec_process import run_command
async def announce(group):
    print(group.id, flush=True)
    if sys.argv[2] == "before":
        await anyio.sleep_forever()
async def main():
    await run_command(sys.argv[1], Path.cwd(), {"PATH": os.environ["PATH"]}, sys.argv[3], 300, announce)
anyio.run(main)
"""


@pytest.mark.parametrize("when", ["before", "while"])
def test_a_command_dies_with_the_process_that_runs_it(owner: ToolContext, workspace: Path, when: str) -> None:
    os.mkfifo(workspace / "begun")
    command = "(trap '' TERM HUP; sleep 300; touch late) & echo x > begun; wait"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, command, when, owner.call_id],
        cwd=workspace,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None
        group = ProcessGroup(int(process.stdout.readline()), owner.call_id, None, None)
        if when == "while":
            assert (workspace / "begun").read_text() == "x\n"
        process.kill()
    assert anyio.run(wait_gone, group)
    assert survivors(owner) == []


async def wait_gone(group: ProcessGroup) -> bool:
    for _ in range(500):
        if not group.is_alive:
            return True
        await anyio.sleep(0.01)
    return False


# Process groups


@pytest.fixture
def sleeper(owner: ToolContext) -> "subprocess.Popen[bytes]":
    """The first process of a group, with a child that ignores being asked to end."""
    process = subprocess.Popen(
        ["sh", "-c", "(trap '' TERM; echo x; sleep 300) & wait"],
        start_new_session=True,
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], MARK: owner.call_id},
    )
    assert process.stdout is not None
    process.stdout.read(1)
    process.stdout.close()
    return process


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")


@needs_proc
async def test_a_recorded_group_is_found_again_and_ended(
    owner: ToolContext, sleeper: "subprocess.Popen[bytes]"
) -> None:
    stored = json.loads(json.dumps(ProcessGroup.of_leader(sleeper.pid, owner.call_id).to_json()))
    group = ProcessGroup.from_json(stored, owner.call_id)
    assert group is not None
    assert group.is_found_again()
    assert await group.end()
    sleeper.wait()
    assert not await group.end()
    assert not group.is_found_again()


@needs_proc
async def test_a_group_whose_first_process_ended_is_found_by_its_mark(
    owner: ToolContext, sleeper: "subprocess.Popen[bytes]"
) -> None:
    group = ProcessGroup.of_leader(sleeper.pid, owner.call_id)
    sleeper.kill()
    sleeper.wait()
    assert group.is_found_again()
    assert not replace(group, call_id="call_of_another").is_found_again()
    await group.end()
    assert survivors(owner) == []


@needs_proc
async def test_a_group_of_another_process_or_boot_is_left_alone(
    owner: ToolContext, sleeper: "subprocess.Popen[bytes]"
) -> None:
    group = ProcessGroup.of_leader(sleeper.pid, owner.call_id)
    assert group.started is not None
    assert not replace(group, started=group.started - 1).is_found_again()
    assert not replace(group, boot="another").is_found_again()
    assert not replace(group, boot=None, started=None).is_found_again()
    await group.end()
    sleeper.wait()


@pytest.mark.parametrize(
    "value", [None, 7, {}, {"group": "7"}, {"group": 1}, {"group": 0}, {"group": -5}, {"group": True}]
)
def test_what_is_no_group_is_not_taken_for_one(value: object) -> None:
    assert ProcessGroup.from_json(value, "call") is None


def test_a_damaged_group_is_never_found(owner: ToolContext) -> None:
    group = ProcessGroup.from_json({"group": os.getpgid(0), "started": "1", "boot": 2}, owner.call_id)
    assert group is not None
    assert not group.is_found_again()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exit code 0"),
        (1, "exit code 1"),
        (128, "exit code 128"),
        (143, "exit code 143 (SIGTERM)"),
        (255, "exit code 255"),
        (-signal.SIGKILL, "ended by SIGKILL"),
        (-200, "ended by signal 200"),
    ],
)
def test_an_end_is_told_in_words(code: int, text: str) -> None:
    assert describe_end(code) == text


# Output


@pytest.mark.parametrize("size", [1, 3, 10, 1000])
def test_the_first_and_the_last_bytes_are_kept_whatever_the_pieces(size: int) -> None:
    whole = "".join(f"é汉{number}\U0001f600" for number in range(200)).encode()
    for head, tail in ((7, 9), (8, 10), (10, 8), (11, 11)):
        output = BoundedOutput(head, tail)
        for start in range(0, len(whole), size):
            output.add(whole[start : start + size])
        first, _, rest = output.text().partition("\n[cut: ")
        note, _, last = rest.partition("]\n")
        assert whole.decode().startswith(first)
        assert whole.decode().endswith(last)
        assert head - 3 <= len(first.encode()) <= head
        assert tail - 3 <= len(last.encode()) <= tail
        assert note.startswith(f"{len(whole) - head - tail:,} of {len(whole):,} bytes")


def test_an_output_that_fits_is_whole() -> None:
    output = BoundedOutput(4, 4)
    for chunk in (b"ab", b"cd", b"", b"ef", b"gh"):
        output.add(chunk)
    assert output.text() == "abcdefgh"
