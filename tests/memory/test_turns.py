"""Memory in whole turns: what is recalled, promoted, edited by hand meanwhile, and how many are at it at once."""

from datetime import UTC, datetime, timedelta

import anyio

from nanobee.chat import Completion, CompletionRequest
from nanobee.gateway import open_gateway, run_channel
from nanobee.memory.consolidation import MAX_AT_ONCE
from nanobee.memory.misc import MiscNote
from nanobee.memory.scope import OWNER_SCOPE
from nanobee.providers.model import Model
from nanobee.providers.provider import OnDelta, ignore_delta
from nanobee.sessions.files import SessionFiles
from nanobee.testing.gateway_rig import GatewayRig
from nanobee.testing.memory_channel import MemoryChannel
from nanobee.testing.model_replies import RecordedRequest
from nanobee.testing.model_server import ModelServer
from tests.memory.conftest import LIMIT_SECONDS, LONG, is_chat, is_memory_call, memory_file, read, say, settle


def chats(server: ModelServer) -> list[RecordedRequest]:
    return [request for request in server.requests if is_chat(request.json)]


async def test_lines_that_fit_a_message_stand_beside_it_in_that_turn_only(rig: GatewayRig, server: ModelServer) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            keeper = gateway.agent.memory
            memory = keeper.memories.of(OWNER_SCOPE)
            memory.history.append(
                datetime.now(UTC) - timedelta(days=9), "Zelda's birthday is on 3 May.", "memory:1 seq 1–2"
            )
            await keeper.finder.build_changed()
            server.reply_calls(("list_dir", {}), when=is_chat)
            server.reply_text("On 3 May.", when=is_chat)
            await say(channel, "When is the birthday of Zelda?")
            await say(channel, "thank you")
            await say(channel, "When is the birthday of Zelda?", "-100")
    first, second, third, group = chats(server)
    recalled = "Zelda's birthday is on 3 May."
    assert recalled in first.messages[-1]["content"]
    assert recalled in second.messages[1]["content"], "it stays as long as the turn does"
    assert recalled not in str(third.messages)
    assert recalled not in str(group.messages)
    lines = SessionFiles(rig.settings.state).read_backwards("memory:1")
    assert recalled not in str([line.data for line in lines if line.data.get("role") == "user"])


async def test_yesterday_is_answered_from_the_log_of_yesterday(rig: GatewayRig, server: ModelServer) -> None:
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            keeper = gateway.agent.memory
            now = keeper.memories.clock.local(keeper.memories.clock.now())
            for days in range(6):
                at = now.replace(hour=12) - timedelta(days=days)
                keeper.memories.of(OWNER_SCOPE).history.append(
                    at, f"We baked bread number {days}.", f"memory:1 seq {days}–{days}"
                )
            await keeper.finder.build_changed()
            await say(channel, "昨天我们做了什么？")
    text = chats(server)[0].messages[-1]["content"]
    assert "We baked bread number 1." in text
    assert "number 2" not in text


async def test_a_note_that_the_writer_promotes_becomes_a_fact_once(rig: GatewayRig, server: ModelServer) -> None:
    saved = {"history_entry": "They talked.", "promote": ["2", "7", "x"]}
    server.reply_calls(("save_memory", saved), when=is_memory_call)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            memory = gateway.agent.memory.memories.of(OWNER_SCOPE)
            now = datetime.now(UTC)
            for text, is_trusted in (
                ("gate code 12", True),
                ("page says: obey", False),
                ("Ann is allergic to nuts", True),
            ):
                memory.misc.add(MiscNote(text, now, now + timedelta(days=2), "memory:1 seq 1–2", is_trusted))
            await say(channel, LONG)
            await settle(gateway, channel)
    [request] = [request for request in server.requests if is_memory_call(request.json)]
    assert "[1] gate code 12\n[2] Ann is allergic to nuts\n</short" in request.messages[-1]["content"]
    assert read(memory_file(rig, "MEMORY.md")).count("Ann is allergic to nuts") == 1
    assert "allergic" not in read(memory_file(rig, "misc.jsonl"))
    assert "page says: obey" in read(memory_file(rig, "misc.jsonl"))


async def test_a_hand_edit_while_the_model_is_asked_is_merged_with_its_answer(
    rig: GatewayRig, server: ModelServer
) -> None:
    memory_file(rig, "").mkdir(parents=True)
    memory_file(rig, "MEMORY.md").write_text("# Memory\n\n- tea\n- Ann\n", encoding="utf-8")
    hold = anyio.Event()
    saved = {"history_entry": "They talked.", "memory_update": "# Memory\n\n- tea\n- Ann\n- from the model\n"}
    reply = server.reply_calls(("save_memory", saved), when=is_memory_call, hold=hold)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            await say(channel, LONG)
            await reply.asked.wait()
            memory_file(rig, "MEMORY.md").write_text("# Memory\n\n- green tea\n- Ann\n- by hand\n", encoding="utf-8")
            hold.set()
            await settle(gateway, channel)
            versions = gateway.agent.memory.memories.of(OWNER_SCOPE).facts.versions.load()
    lines = set(read(memory_file(rig, "MEMORY.md")).split("\n"))
    assert lines == {"# Memory", "", "- green tea", "- Ann", "- by hand", "- from the model"}
    assert [version.source for version in versions][-2:] == ["hand", "memory:1 seq 1–4"]


async def test_r17_no_more_than_a_few_sessions_ask_for_memory_at_once(rig: GatewayRig, server: ModelServer) -> None:
    hold = anyio.Event()
    server.reply_calls(("save_memory", {"history_entry": "They talked."}), when=is_memory_call, times=None, hold=hold)
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            for chat in range(12):
                await say(channel, LONG, str(chat))
            await say(channel, "/model", "0")
            assert sum(is_memory_call(request.json) for request in server.requests) == MAX_AT_ONCE
            hold.set()
            await settle(gateway, channel, *map(str, range(12)))
    assert sum(is_memory_call(request.json) for request in server.requests) == 12


async def test_what_a_tool_alone_said_is_marked_in_what_the_writer_keeps(rig: GatewayRig, server: ModelServer) -> None:
    rig.settings.workspace.mkdir()
    claim = "Ferries to Zanzibar demand payment into account 4711"
    (rig.settings.workspace / "page.md").write_text(f"{claim}\n" + "filler\n" * 2000, encoding="utf-8")
    server.reply_calls(("read_file", {"path": "page.md"}), when=is_chat)
    server.reply_text(f"It says: {claim}", when=is_chat)
    update = f"# Memory\n\n- {claim}\n- Sister Ann moves to Paris in May\n"
    server.reply_calls(
        ("save_memory", {"history_entry": "x1", "memory_update": update, "daily_note": claim}), when=is_memory_call
    )
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open() as (gateway, channel):
            await say(channel, LONG + "Read page.md.")
            await settle(gateway, channel)
    assert read(memory_file(rig, "MEMORY.md")) == update.replace(claim, f"{claim} (unverified)")
    [day] = memory_file(rig, "daily").iterdir()
    assert f"{claim} (unverified) [memory:1" in read(day)


async def test_a_disk_that_refuses_in_the_middle_is_completed_by_the_next_start_without_asking_again(
    rig: GatewayRig, server: ModelServer
) -> None:
    saved = {"history_entry": "They talked.", "memory_update": "# Memory\n\n- tea\n", "daily_note": "boxes at nine"}
    server.reply_calls(("save_memory", saved), when=is_memory_call)
    server.reply_calls(("save_memory", {"history_entry": "asked twice"}), when=is_memory_call, times=None)
    memory_file(rig, "").mkdir(parents=True)
    memory_file(rig, "daily").write_text("a file where a folder belongs", encoding="utf-8")
    channel = MemoryChannel()
    with anyio.fail_after(LIMIT_SECONDS):
        async with rig.open(channel) as (gateway, _):
            await say(channel, LONG)
            await settle(gateway, channel)
            assert "- tea" in read(memory_file(rig, "MEMORY.md"))
        memory_file(rig, "daily").unlink()
        async with rig.open(channel) as (gateway, _):
            await settle(gateway, channel)
    assert read(memory_file(rig, "HISTORY.md")).count("They talked.") == 1
    assert "asked twice" not in read(memory_file(rig, "HISTORY.md"))
    [day] = memory_file(rig, "daily").iterdir()
    assert read(day).count("boxes at nine") == 1


class OneThingAtATime:
    """An embedded model: while it writes memory, nobody else is answered."""

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.broken_off = 0

    async def complete(self, request: CompletionRequest, on_delta: OnDelta = ignore_delta) -> Completion:
        if "<conversation>" not in str(request.messages):
            return Completion("ok", model="m")
        self.asked.set()
        try:
            await anyio.sleep_forever()
            raise AssertionError("it sleeps until it is broken off")
        finally:
            self.broken_off += 1

    async def aclose(self) -> None:
        pass


async def test_an_embedded_model_writes_memory_when_no_turn_needs_it(rig: GatewayRig) -> None:
    provider, channel = OneThingAtATime(), MemoryChannel()
    model = Model(provider, "local/m", "m", 2_048, takes_tools=False, is_tiny=True)
    with anyio.fail_after(LIMIT_SECONDS):
        async with (
            open_gateway(rig.settings, {"memory": channel}, model) as gateway,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(run_channel, gateway, channel)
            await say(channel, LONG)
            await provider.asked.wait()
            await say(channel, "and now?")
            await settle(gateway, channel)
            assert provider.broken_off == 1
            await gateway.wind_down(0)
            tasks.cancel_scope.cancel()
    assert read(memory_file(rig, "HISTORY.md")) == ""
