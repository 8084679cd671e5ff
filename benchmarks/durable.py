"""The yardstick: the least a Telegram bot can do that loses nothing, on nanobee's own libraries.

An inbox and an outbox in SQLite, committed by one writer thread; python-telegram-bot's `Bot` and the model's
client on httpx with the aiohttp transport. No agent, no tools, no recovery.

    TG_URL=http://127.0.0.1:9200 LLM_URL=http://127.0.0.1:9100/v1 STATE=folder python -m benchmarks.durable
"""

import json
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import httpx
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from httpx_aiohttp import AiohttpTransport
from telegram import Bot, Update
from telegram.request import HTTPXRequest

SCHEMA = """
pragma journal_mode=wal;
pragma synchronous=full;
create table if not exists inbox(id integer primary key, update_id integer unique, text text, state text);
create table if not exists outbox(id integer primary key, chat_id integer, text text, state text);
"""
TOKEN = "4242:yardstick-token-for-a-fake-server"
Waiting = dict[int, MemoryObjectSendStream[Update]]


def transport() -> AiohttpTransport:
    return AiohttpTransport(limits=httpx.Limits(max_connections=64))


class Database:
    """One connection, used by one thread at a time; `commit` returns once its statements are on disk."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.executescript(SCHEMA)
        self._turn = anyio.CapacityLimiter(1)

    async def commit(self, statements: Sequence[tuple[str, tuple[object, ...]]]) -> None:
        await anyio.to_thread.run_sync(self._run, statements, limiter=self._turn)

    def _run(self, statements: Sequence[tuple[str, tuple[object, ...]]]) -> None:
        self._connection.execute("begin immediate")
        for sql, values in statements:
            self._connection.execute(sql, values)
        self._connection.execute("commit")


class Yardstick:
    """Polls, stores, asks, stores, answers."""

    def __init__(self, state: Path, telegram_url: str, model_url: str) -> None:
        self._database = Database(state / "bus.db")
        request = HTTPXRequest(connection_pool_size=64, httpx_kwargs={"transport": transport()})
        self._bot = Bot(TOKEN, base_url=f"{telegram_url}/bot", request=request)
        self._model = httpx.AsyncClient(base_url=model_url, timeout=60, transport=transport())

    async def run(self) -> None:
        await self._bot.initialize()
        waiting: Waiting = {}
        offset = 0
        async with anyio.create_task_group() as tasks:
            while True:
                updates = await self._bot.get_updates(offset=offset, timeout=30, allowed_updates=["message"])
                insert = "insert or ignore into inbox(update_id, text, state) values (?, ?, 'ready')"
                await self._database.commit([(insert, (update.update_id, update.to_json())) for update in updates])
                for update in updates:
                    offset = update.update_id + 1
                    self._hand_over(update, waiting, tasks)

    def _hand_over(self, update: Update, waiting: Waiting, tasks: TaskGroup) -> None:
        if update.message is None:
            return
        chat_id = update.message.chat.id
        if chat_id not in waiting:
            waiting[chat_id], arriving = anyio.create_memory_object_stream[Update](1000)
            tasks.start_soon(self._chat, chat_id, arriving)
        waiting[chat_id].send_nowait(update)

    async def _chat(self, chat_id: int, arriving: MemoryObjectReceiveStream[Update]) -> None:
        history: list[dict[str, str]] = []
        async for update in arriving:
            history.append({"role": "user", "content": (update.message and update.message.text) or ""})
            answer = await self._ask(history[-40:])
            history.append({"role": "assistant", "content": answer})
            done = ("update inbox set state='done' where update_id=?", (update.update_id,))
            await self._database.commit(
                [done, ("insert into outbox(chat_id, text, state) values (?, ?, 'sending')", (chat_id, answer))]
            )
            await self._bot.send_message(chat_id, answer)
            await self._database.commit([("update outbox set state='sent' where chat_id=?", (chat_id,))])

    async def _ask(self, history: list[dict[str, str]]) -> str:
        body: dict[str, Any] = {"model": "fake", "stream": True, "messages": history}
        text = ""
        async with self._model.stream("POST", "chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    text += "".join(choice["delta"].get("content") or "" for choice in json.loads(line[6:])["choices"])
        return text or "(empty)"


if __name__ == "__main__":
    anyio.run(Yardstick(Path(os.environ["STATE"]), os.environ["TG_URL"], os.environ["LLM_URL"]).run)
