"""A fake Telegram Bot API on loopback, strict where Telegram is strict.

    async with TelegramServer() as server:
        ann = server.private(1001)
        ann.says("hello")                                 # the bot polls it
        call = (await server.wait_for("sendMessage"))[0]   # what the bot sent
        server.faults.fail("sendMessage", 429, "Too Many Requests: retry after 3", retry_after=3)

`python -m nanobee.testing.telegram_server --port 8081` runs it by itself; `/_fake/says`, `push`,
`fail`, `cut`, `hang`, `page`, `heal`, `calls`, `sent` and `state` drive it from another process.
"""

import argparse
import contextlib
import itertools
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

import anyio
from aiohttp import web

from nanobee.messages import Json, JsonObject
from nanobee.testing.telegram_chats import RefusalError, TelegramChat
from nanobee.testing.telegram_faults import Fault, FaultKind, FaultScript
from nanobee.testing.telegram_text import TextRefusalError, accept_text
from nanobee.testing.telegram_updates import UpdateQueue
from nanobee.testing.watch import Watch

TOKEN = "123456:TEST-token"
_JSON_PARAMETERS = frozenset(
    {"allowed_updates", "entities", "link_preview_options", "reply_markup", "reply_parameters"}
)
_NUMBERS = frozenset({"chat_id", "draft_id", "limit", "message_id", "message_thread_id", "offset", "timeout"})


@dataclass
class Call:
    """One request as the bot made it, and how it was answered."""

    method: str
    parameters: JsonObject
    status: int = 0
    """0 while it is under way, -1 when the connection was cut."""


class TelegramServer:
    """The fake. What it was asked is in `calls`, what stands in the chats in their `messages`."""

    def __init__(self, token: str = TOKEN, *, username: str = "nanobee_bot", port: int = 0) -> None:
        self.token = token
        self.port = port
        self.bot: JsonObject = {
            "id": int(token.partition(":")[0]),
            "is_bot": True,
            "first_name": "nanobee",
            "username": username,
        }
        self.updates = UpdateQueue()
        self.chats: dict[int, TelegramChat] = {}
        self.calls: list[Call] = []
        self.faults = FaultScript()
        self._message_ids = itertools.count(101)
        self._watch = Watch()
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/_fake/{action}", self._control)
        app.router.add_route("*", "/bot{token}/{method}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await self.start_listening()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.faults.heal()
        self.cut_connections()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def base_url(self) -> str:
        """The host, as the setting `base_url` takes it."""
        return f"http://127.0.0.1:{self.port}"

    # People

    def private(self, user_id: int, name: str = "Ann") -> TelegramChat:
        """The chat of one person with the bot."""
        return self._chat(TelegramChat(user_id, "private", self.updates.push, self._message_ids, name))

    def group(self, chat_id: int = -1001, title: str = "Group", *, is_forum: bool = False) -> TelegramChat:
        """A supergroup."""
        return self._chat(TelegramChat(chat_id, "supergroup", self.updates.push, self._message_ids, title, is_forum))

    def channel(self, chat_id: int = -1002, title: str = "News") -> TelegramChat:
        """A channel that the bot may write in."""
        return self._chat(TelegramChat(chat_id, "channel", self.updates.push, self._message_ids, title))

    def _chat(self, chat: TelegramChat) -> TelegramChat:
        return self.chats.setdefault(chat.id, chat)

    async def start_listening(self) -> None:
        """Take connections, on the same port as before."""
        assert self._runner is not None, "enter the server first"
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await self._site.start()
        self.port = int(self._runner.addresses[0][1])

    async def stop_listening(self) -> None:
        """Refuse new connections and end those there are."""
        if self._site is not None:
            await self._site.stop()
        self.cut_connections()

    def cut_connections(self) -> None:
        """End every connection, idle ones too."""
        server = None if self._runner is None else self._runner.server
        for connection in [] if server is None else list(server.connections):
            if connection.transport is not None:
                connection.transport.abort()

    # What happened

    def named(self, method: str) -> list[Call]:
        """The calls of a method."""
        return [call for call in self.calls if call.method == method]

    def sent(self, chat_id: int | None = None) -> list[JsonObject]:
        """The bot's messages that stand in the chats, in their order."""
        messages = (message for chat in self.chats.values() for message in chat.messages.values())
        own = [message for message in messages if message.get("from") == self.bot]
        own = [message for message in own if chat_id is None or _chat_id(message) == chat_id]
        return sorted(own, key=lambda message: int(str(message["message_id"])))

    async def wait_for(self, method: str, count: int = 1, *, status: int | None = 200) -> list[Call]:
        """Wait until a method was answered `count` times (with `status`, None for any), and return the calls."""

        def answered() -> list[Call]:
            return [call for call in self.named(method) if call.status and status in (None, call.status)]

        await self._watch.until(lambda: len(answered()) >= count)
        return answered()

    async def wait_texts(self, *texts: str, chat_id: int | None = None) -> None:
        """Wait until exactly these texts of the bot stand in the chat, or in all."""
        await self._watch.until(lambda: [message["text"] for message in self.sent(chat_id)] == list(texts))

    async def wait_acknowledged(self, count: int) -> list[int]:
        """Wait until so many updates were acknowledged, and return their ids."""
        await self._watch.until(lambda: len(self.updates.acknowledged) >= count)
        return self.updates.acknowledged

    async def wait_asked(self, method: str, count: int = 1) -> list[Call]:
        """Wait until a method was called `count` times, answered or not, and return the calls."""
        await self._watch.until(lambda: len(self.named(method)) >= count)
        return self.named(method)

    # The API

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        call = Call(request.match_info["method"], await _read(request))
        self.calls.append(call)
        self._watch.notify()
        fault = self.faults.take(call.method)
        if fault is not None and fault.kind is FaultKind.CUT_BEFORE:
            return self._cut(request, call)
        if fault is not None and fault.kind is FaultKind.PAGE:
            self._end(call, fault.status)
            return web.Response(status=fault.status, text=fault.text, content_type="text/html")
        status, answer = await self._perform(request.match_info["token"], call, fault)
        if fault is not None and fault.kind is FaultKind.HANG:
            await self.faults.wait_healed()
        if fault is not None and fault.kind is FaultKind.CUT_AFTER:
            return self._cut(request, call)
        self._end(call, status)
        return web.json_response(answer, status=status)

    async def _perform(self, token: str, call: Call, fault: Fault | None) -> tuple[int, JsonObject]:
        try:
            if token != self.token:
                raise RefusalError(401, "Unauthorized")
            if fault is not None and fault.kind is FaultKind.REFUSE:
                raise RefusalError(fault.status, fault.text, **fault.parameters)
            return 200, {"ok": True, "result": await self._do(call)}
        except TextRefusalError as error:
            refusal = RefusalError(400, f"Bad Request: {error}")
        except RefusalError as error:
            refusal = error
        answer: dict[str, Json] = {"ok": False, "error_code": refusal.status, "description": refusal.description}
        if refusal.parameters:
            answer["parameters"] = refusal.parameters
        return refusal.status, answer

    async def _do(self, call: Call) -> Json:
        match call.method:
            case "getMe":
                return {**self.bot, "can_join_groups": True, "can_read_all_group_messages": True}
            case "getUpdates":
                self.updates.acknowledge(call.parameters)
                self._watch.notify()
                return await self.updates.take(call.parameters)
            case "deleteWebhook":
                self.updates.has_webhook = False
                return True
            case "sendMessage":
                return self._chat_of(call.parameters).receive(self.bot, _text(call.parameters), call.parameters)
            case "editMessageText":
                return self._chat_of(call.parameters).edit(self.bot, _text(call.parameters), call.parameters)
            case "deleteMessage":
                return self._chat_of(call.parameters).delete(call.parameters)
            case "sendMessageDraft":
                text = _text(call.parameters) if call.parameters.get("text") else ""
                return self._chat_of(call.parameters).take_draft(text, call.parameters)
        raise RefusalError(404, "Not Found")

    def _chat_of(self, parameters: JsonObject) -> TelegramChat:
        """The chat that a call names, where the bot may write in it."""
        chat_id = parameters.get("chat_id")
        chat = self.chats.get(chat_id) if isinstance(chat_id, int) else None
        if chat is None:
            raise RefusalError(400, "Bad Request: chat not found" if chat_id else "Bad Request: chat_id is empty")
        if chat.moved_to is not None:
            raise RefusalError(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                migrate_to_chat_id=chat.moved_to,
            )
        if chat.is_blocked:
            was = "blocked by the user" if chat.type == "private" else f"kicked from the {chat.type} chat"
            raise RefusalError(403, f"Forbidden: bot was {was}")
        return chat

    def _cut(self, request: web.Request, call: Call) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        self._end(call, -1)
        return web.Response(status=500)

    def _end(self, call: Call, status: int) -> None:
        call.status = status
        self._watch.notify()

    # Another process

    async def _control(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else {}
        match request.match_info["action"]:
            case "says":
                return web.json_response(self._say(**body))
            case "push":
                return web.json_response({"update_id": self.updates.push(body)})
            case "fail" | "cut" | "page" | "hang" | "heal" as action:
                getattr(self.faults, action)(**body)
                return web.json_response({"ok": True})
            case "calls":
                method = request.query.get("method")
                calls = self.calls if method is None else self.named(method)
                return web.json_response([asdict(call) for call in calls])
            case "sent":
                return web.json_response(self.sent())
            case "state":
                updates = self.updates
                return web.json_response({"waiting": list(updates.waiting), "acknowledged": updates.acknowledged})
        raise web.HTTPNotFound

    def _say(self, *, chat_id: int, text: str, **fields: Any) -> JsonObject:
        if chat_id not in self.chats:
            if chat_id > 0:
                self.private(chat_id)
            else:
                self.group(chat_id, is_forum="thread" in fields)
        chat = self.chats[chat_id]
        if (thread := fields.get("thread")) is not None:
            chat.topics.setdefault(thread, f"topic {thread}")
        return chat.says(text, **fields)


async def _read(request: web.Request) -> JsonObject:
    """The parameters of a call, from its address and a form or JSON body."""
    raw: dict[str, Json] = dict(request.query)
    if request.content_type == "application/json":
        raw.update(await request.json())
    elif request.can_read_body:
        form = await request.post()
        raw.update({name: value for name, value in form.items() if isinstance(value, str)})
    return {name: _typed(name, value) for name, value in raw.items()}


def _typed(name: str, value: Json) -> Json:
    """Forms hold texts only."""
    if not isinstance(value, str):
        return value
    if name in _NUMBERS and re.fullmatch(r"-?[0-9]+", value):
        return int(value)
    if name in _JSON_PARAMETERS:
        try:
            parsed: Json = json.loads(value)
        except ValueError:
            return value
        return parsed
    return value


def _text(parameters: JsonObject) -> str:
    return accept_text(parameters.get("text"), parameters.get("parse_mode"), parameters.get("entities"))


def _chat_id(message: JsonObject) -> Json:
    chat = message["chat"]
    return chat.get("id") if isinstance(chat, Mapping) else None


async def serve(port: int, token: str) -> None:
    """Run one until the process is ended."""
    async with TelegramServer(token, port=port) as server:
        sys.stdout.write(json.dumps({"base_url": server.base_url, "token": token}) + "\n")
        sys.stdout.flush()
        await anyio.sleep_forever()


def main() -> None:
    """The command line: one JSON line tells the address."""
    parser = argparse.ArgumentParser(description="A fake Telegram Bot API on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free one")
    parser.add_argument("--token", default=TOKEN)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        anyio.run(serve, options.port, options.token)


if __name__ == "__main__":
    main()
