"""The fake Telegram is strict where Telegram is strict."""

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import anyio
import pytest

from nanobee.messages import JsonObject
from nanobee.testing.telegram_server import TOKEN, TelegramServer
from nanobee.testing.telegram_text import TextRefusalError, accept_text, find_entities


class Client:
    """Calls the fake as any bot would."""

    def __init__(self, server: TelegramServer, http: aiohttp.ClientSession) -> None:
        self._server = server
        self._http = http

    async def __call__(self, method: str, token: str = TOKEN, /, **parameters: Any) -> Any:
        url = f"{self._server.base_url}/bot{token}/{method}"
        async with self._http.post(url, json=parameters) as answer:
            return await answer.json()


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def call(server: TelegramServer) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as http:
        yield Client(server, http)


async def test_an_update_stays_until_a_higher_offset_asks(server: TelegramServer, call: Client) -> None:
    ann = server.private(1001)
    ann.says("one")
    ann.says("two")
    first, second = (update["update_id"] for update in (await call("getUpdates"))["result"])
    assert len((await call("getUpdates", offset=first))["result"]) == 2
    left = (await call("getUpdates", offset=first + 1))["result"]
    assert [update["update_id"] for update in left] == [second]
    assert server.updates.acknowledged == [first]
    assert len((await call("getUpdates", limit=1))["result"]) == 1


async def test_a_long_poll_ends_with_the_first_update(server: TelegramServer, call: Client) -> None:
    answers = []

    async def poll() -> None:
        answers.append(await call("getUpdates", timeout=50))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(poll)
            await server.wait_asked("getUpdates")
            server.private(1001).says("hello")
    assert answers[0]["result"][0]["message"]["text"] == "hello"


async def test_the_older_of_two_polls_is_refused(server: TelegramServer, call: Client) -> None:
    answers = []

    async def poll() -> None:
        answers.append(await call("getUpdates", timeout=50))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(poll)
            await server.wait_asked("getUpdates")
            await call("getUpdates", timeout=0)
    assert answers[0]["error_code"] == 409
    assert answers[0]["description"].startswith("Conflict: terminated by other getUpdates request")


async def test_a_list_of_allowed_updates_sticks(server: TelegramServer, call: Client) -> None:
    await call("getUpdates", allowed_updates=["callback_query"])
    server.private(1001).says("hello")
    assert (await call("getUpdates"))["result"] == []
    await call("getUpdates", allowed_updates=[])
    server.private(1001).says("hello again")
    assert len((await call("getUpdates"))["result"]) == 1
    assert len(server.updates.dropped) == 1


async def test_polling_beside_a_webhook_is_refused(server: TelegramServer, call: Client) -> None:
    server.updates.has_webhook = True
    assert (await call("getUpdates"))["error_code"] == 409
    await call("deleteWebhook")
    assert (await call("getUpdates"))["ok"] is True


async def test_a_wrong_token_and_a_wrong_method_are_refused(call: Client) -> None:
    assert (await call("getMe", "1:wrong"))["error_code"] == 401
    assert (await call("getEverything"))["error_code"] == 404


@pytest.mark.parametrize(
    ("parameters", "description"),
    [
        ({"chat_id": 1001}, "message text is empty"),
        ({"chat_id": 1001, "text": " \n "}, "text must be non-empty"),
        ({"chat_id": 1001, "text": "\U0001f600" * 2049}, "message is too long"),
        ({"chat_id": 1001, "text": "<b>x", "parse_mode": "HTML"}, "can't parse entities"),
        ({"chat_id": 7, "text": "hi"}, "chat not found"),
        ({"text": "hi"}, "chat_id is empty"),
        ({"chat_id": 1001, "text": "hi", "reply_parameters": {"message_id": 99}}, "message to be replied not found"),
        ({"chat_id": -1001, "text": "hi", "message_thread_id": 99}, "message thread not found"),
        ({"chat_id": -1001, "text": "hi", "message_thread_id": 1}, "message thread not found"),
    ],
)
async def test_a_message_that_telegram_refuses_is_refused(
    server: TelegramServer, call: Client, parameters: dict[str, Any], description: str
) -> None:
    server.private(1001)
    server.group(-1001, is_forum=True)
    answer = await call("sendMessage", **parameters)
    assert answer["error_code"] == 400
    assert answer["description"].startswith(f"Bad Request: {description}")
    assert server.sent() == []


async def test_a_message_stands_in_its_chat_with_topic_and_quote(server: TelegramServer, call: Client) -> None:
    forum = server.group(is_forum=True)
    topic = forum.open_topic("Plans")
    question = forum.says("why?", thread=topic)
    reply = {"message_id": question["message_id"]}
    answer = await call(
        "sendMessage", chat_id=-1001, text=" because\t", message_thread_id=topic, reply_parameters=reply
    )
    assert answer["result"]["text"] == "because"
    assert answer["result"]["reply_to_message"]["text"] == "why?"
    assert answer["result"]["message_thread_id"] == topic
    gone = {"message_id": 1, "allow_sending_without_reply": True}
    assert (await call("sendMessage", chat_id=-1001, text="hm", reply_parameters=gone))["ok"] is True
    assert [message["text"] for message in server.sent(-1001)] == ["because", "hm"]


async def test_a_blocked_or_moved_chat_says_so(server: TelegramServer, call: Client) -> None:
    server.private(1001).is_blocked = True
    assert (await call("sendMessage", chat_id=1001, text="hi"))["error_code"] == 403
    server.group(-7).moved_to = -1007
    answer = await call("sendMessage", chat_id=-7, text="hi")
    assert answer["parameters"] == {"migrate_to_chat_id": -1007}


async def test_faults_meet_the_calls_they_are_for(server: TelegramServer, call: Client) -> None:
    server.private(1001)
    server.faults.fail("sendMessage", 429, "Too Many Requests: retry after 3", retry_after=3)
    assert (await call("getMe"))["ok"] is True
    answer = await call("sendMessage", chat_id=1001, text="hi")
    assert (answer["error_code"], answer["parameters"]) == (429, {"retry_after": 3})
    for after_delivery, delivered in ((False, 0), (True, 1)):
        server.faults.cut("sendMessage", after_delivery=after_delivery)
        with pytest.raises(aiohttp.ClientConnectionError):
            await call("sendMessage", chat_id=1001, text="hi")
        assert len(server.sent()) == delivered
    assert [recorded.status for recorded in server.named("sendMessage")] == [429, -1, -1]


async def test_a_message_is_edited_where_it_is_the_bots_and_changes(server: TelegramServer, call: Client) -> None:
    ann = server.private(1001)
    question = ann.says("hi")
    answer = (await call("sendMessage", chat_id=1001, text="one"))["result"]

    async def edit(text: str, message_id: Any = answer["message_id"]) -> Any:
        return await call("editMessageText", chat_id=1001, message_id=message_id, text=text)

    assert (await edit("two"))["result"]["text"] == "two"
    assert [message["text"] for message in server.sent()] == ["two"]
    assert (await edit("two"))["description"].startswith("Bad Request: message is not modified")
    assert (await edit(""))["description"] == "Bad Request: message text is empty"
    assert (await edit("x" * 4097))["description"] == "Bad Request: message is too long"
    assert (await edit("x", question["message_id"]))["description"] == "Bad Request: message can't be edited"
    assert (await call("deleteMessage", chat_id=1001, message_id=answer["message_id"]))["ok"] is True
    assert (await edit("three"))["description"] == "Bad Request: message to edit not found"
    gone = await call("deleteMessage", chat_id=1001, message_id=answer["message_id"])
    assert gone["description"] == "Bad Request: message to delete not found"
    assert server.sent() == []


async def test_a_draft_is_seen_in_a_private_chat_until_the_next_message(server: TelegramServer, call: Client) -> None:
    ann = server.private(1001)
    server.group(-5)
    for text in ("one", "one two", ""):
        assert (await call("sendMessageDraft", chat_id=1001, draft_id=7, text=text))["result"] is True
        assert ann.drafts == {7: text}
    assert server.sent() == []
    await call("sendMessage", chat_id=1001, text="one two three")
    assert ann.drafts == {}
    in_group = await call("sendMessageDraft", chat_id=-5, draft_id=7, text="one")
    assert in_group["description"] == "Bad Request: TEXTDRAFT_PEER_INVALID"
    assert (await call("sendMessageDraft", chat_id=1001, draft_id=0, text="one"))["error_code"] == 400
    assert (await call("sendMessageDraft", chat_id=1001, draft_id=7, text="x" * 4097))["error_code"] == 400
    topic = await call("sendMessageDraft", chat_id=1001, draft_id=7, text="one", message_thread_id=9)
    assert topic["description"] == "Bad Request: message thread not found"


async def test_an_outage_refuses_and_ends_connections(server: TelegramServer, call: Client) -> None:
    await call("getMe")
    await server.stop_listening()
    with pytest.raises(aiohttp.ClientConnectionError):
        await call("getMe")
    await server.start_listening()
    assert (await call("getMe"))["ok"] is True


@pytest.mark.parametrize(
    ("text", "mode", "entities"),
    [
        ("<br>", "HTML", None),
        ("a < b", "HTML", None),
        ("</b>", "HTML", None),
        ("<b><i>x</b></i>", "HTML", None),
        ("<b", "HTML", None),
        ("*x*", "MarkdownV3", None),
        ("x" * 40_000, None, None),
        ("\u202e\r", None, None),
        ("abc", None, "bold"),
        ("abc", None, ["bold"]),
        ("abc", None, [{"type": "huge", "offset": 0, "length": 1}]),
        ("abc", None, [{"type": "bold", "offset": "0", "length": 1}]),
        ("abc", None, [{"type": "bold", "offset": 1, "length": 3}]),
        ("abc", None, [{"type": "bold", "offset": -1, "length": 1}]),
        ("\U0001f600", None, [{"type": "bold", "offset": 1, "length": 1}]),
        ("abc", None, [{"type": "text_link", "offset": 0, "length": 1, "url": "http://localhost:3000"}]),
    ],
)
def test_a_text_that_telegram_refuses_is_refused(text: str, mode: str | None, entities: Any) -> None:
    with pytest.raises(TextRefusalError):
        accept_text(text, mode, entities)


def test_a_text_is_changed_as_telegram_changes_it() -> None:
    assert accept_text("\n a\tb\r\n ") == "a b"
    assert accept_text("<b>a &lt; b</b> &nbsp;", "HTML") == "a < b &nbsp;"
    link: JsonObject = {"type": "text_link", "offset": 0, "length": 2, "url": "https://example.org/x"}
    assert accept_text("\U0001f600 x", None, [link]) == "\U0001f600 x"


def test_commands_and_mentions_are_marked_in_utf16() -> None:
    assert find_entities("\U0001f600 @helper, x@helper.org /stop") == [
        {"type": "mention", "offset": 3, "length": 7},
        {"type": "bot_command", "offset": 25, "length": 5},
    ]


async def test_another_process_drives_it() -> None:
    command = [sys.executable, "-m", "nanobee.testing.telegram_server", "--port", "0", "--token", "9:x"]
    async with await anyio.open_process(command, stdin=None) as process:
        try:
            assert process.stdout is not None
            with anyio.fail_after(20):
                started = json.loads(await process.stdout.receive())
            async with aiohttp.ClientSession(started["base_url"]) as http:
                await drive(http)
        finally:
            process.terminate()


async def drive(http: aiohttp.ClientSession) -> None:
    async def post(path: str, **body: Any) -> Any:
        async with http.post(path, json=body) as answer:
            return await answer.json()

    await post("/_fake/says", chat_id=-5, text="hi", thread=158, sender=7)
    await post("/_fake/push", edited_message={"text": "x"})
    updates = (await post("/bot9:x/getUpdates"))["result"]
    assert updates[0]["message"]["message_thread_id"] == 158
    assert updates[0]["message"]["from"]["id"] == 7
    await post("/_fake/fail", method="sendMessage", status=500, text="no")
    sends = [await post("/bot9:x/sendMessage", chat_id=-5, text="yes") for _ in range(2)]
    assert [send["ok"] for send in sends] == [False, True]
    async with http.get("/_fake/calls", params={"method": "sendMessage"}) as answer:
        assert [call["status"] for call in await answer.json()] == [500, 200]
    assert [message["text"] for message in await post("/_fake/sent")] == ["yes"]
    assert len((await post("/_fake/state"))["waiting"]) == 2
