"""Memory commands: what is remembered here, and forgetting, said by a person."""

from anyio import to_thread

from nanobee.agent.commands import Command, CommandContext, CommandResult, Commands
from nanobee.arguments import clean_text
from nanobee.memory.entries import Entry, Tier
from nanobee.memory.forgetting import MIN_CHARS, TooWideError
from nanobee.memory.recall import describe
from nanobee.memory.scope import Scope
from nanobee.memory.search import Query
from nanobee.phrases import Phrase

MAX_SHOWN = 40
"""Facts and notes that `/memory` lists."""
MAX_FOUND = 10

OWNERS = Phrase(en="The memory of your private chats; no other chat sees it.", zh="这是您的私聊记忆，其他对话看不到。")
OTHERS = Phrase(en="The memory of this chat; no other chat sees it.", zh="这是本对话的记忆，其他对话看不到。")
NOTHING = Phrase(en="Nothing is remembered yet.", zh="还没有记住任何内容。")
FACTS = Phrase(en="Facts:", zh="长期事实：")
NOTES = Phrase(en="Notes:", zh="近期笔记：")
MORE = Phrase(en="… and {count} more; /memory WORDS searches.", zh="……还有 {count} 条；发送 /memory 关键词 可搜索。")
NOT_FOUND = Phrase(en="Nothing in memory says that.", zh="记忆中没有相关内容。")
HOW_TO_FORGET = Phrase(en="/forget TEXT removes what says it.", zh="发送 /forget 文字 可删除相关内容。")
FORGET_USAGE = Phrase(
    en="Write what is to be forgotten: /forget TEXT. Everything that says exactly this is removed.",
    zh="请写明要忘记的内容：/forget 文字。包含这段文字的记忆都会被删除。",
)
TOO_WIDE = Phrase(
    en="That stands in {places} places; nothing was forgotten. Write more of what is to be forgotten.",
    zh="这段文字出现在 {places} 处，未作任何删除。请写得更具体一些。",
)
FORGOTTEN = Phrase(
    en="Forgotten: {facts} facts, {notes} notes, {history} entries of the history; {lines} lines of conversations are "
    "not read any more. `nanobee sessions redact` removes those lines from disk.",
    zh="已忘记：事实 {facts} 条，笔记 {notes} 条，历史 {history} 条；对话中的 {lines} 行不再被读取。"
    "用 `nanobee sessions redact` 可从磁盘上删除这些行。",
)
HELP_MEMORY = Phrase(en="what is remembered here: /memory [WORDS]", zh="查看这里记住的内容：/memory [关键词]")
HELP_FORGET = Phrase(en="forget what says this: /forget TEXT", zh="忘记包含这段文字的内容：/forget 文字")


async def _memory(context: CommandContext) -> CommandResult:
    keeper, language = context.agent.memory, context.agent.language
    scope = keeper.memories.scopes.of(context.row.session_key)
    if context.arguments:
        found = await keeper.finder.find(scope, Query(context.arguments, limit=MAX_FOUND))
        entries = [match.entry for match in found.matches.found]
        return CommandResult(_list(context, entries) or NOT_FOUND.say(language))
    entries = await to_thread.run_sync(keeper.entries, scope)
    return CommandResult("\n".join(_overview(context, scope, entries)))


def _overview(context: CommandContext, scope: Scope, entries: list[Entry]) -> list[str]:
    language = context.agent.language
    rows = [(OWNERS if scope.is_private else OTHERS).say(language)]
    if not entries:
        return [*rows, NOTHING.say(language)]
    shown = entries[:MAX_SHOWN]
    for title, tiers in ((FACTS, (Tier.IMPORTANT,)), (NOTES, (Tier.DAILY, Tier.MISC))):
        fitting = [entry for entry in shown if entry.tier in tiers]
        if fitting:
            rows += ["", title.say(language), _list(context, fitting)]
    if len(entries) > len(shown):
        rows += ["", MORE.say(language, count=len(entries) - len(shown))]
    return [*rows, "", HOW_TO_FORGET.say(language)]


def _list(context: CommandContext, entries: list[Entry]) -> str:
    clock = context.agent.memory.memories.clock
    rows = [entry.text if entry.tier is Tier.IMPORTANT else describe(entry, clock) for entry in entries]
    return "\n".join(f"- {clean_text(row)}" for row in rows)


async def _forget(context: CommandContext) -> CommandResult:
    language, text = context.agent.language, context.arguments
    if len(text) < MIN_CHARS or not any(character.isalnum() for character in text):
        return CommandResult(FORGET_USAGE.say(language))
    keeper = context.agent.memory
    try:
        gone = await keeper.forgetting.forget(keeper.memories.scopes.of(context.row.session_key), text)
    except TooWideError as error:
        return CommandResult(TOO_WIDE.say(language, places=error.places))
    if not gone.places:
        return CommandResult(NOT_FOUND.say(language))
    counts = {"facts": gone.facts, "notes": gone.notes, "history": gone.history, "lines": gone.lines}
    return CommandResult(FORGOTTEN.say(language, **counts))


def register_memory_commands(commands: Commands) -> None:
    """Add `/memory` and `/forget`."""
    commands.register(Command("/memory", HELP_MEMORY, _memory))
    commands.register(Command("/forget", HELP_FORGET, _forget))
