"""`nanobee memory`: what is remembered, where it is from, what it was before, and forgetting."""

import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from nanobee.cli.options import ConfigOption, JsonOption
from nanobee.cli.running import load
from nanobee.phrases import Phrase

if TYPE_CHECKING:
    from nanobee.config import Settings
    from nanobee.memory.entries import Entry
    from nanobee.memory.memory import Memory
    from nanobee.memory.outside import Outside
    from nanobee.memory.provenance import Origin
    from nanobee.memory.versions import Version

TEXT_WIDTH = 300
NOTHING = Phrase("Nothing is remembered there.", "那里还没有记住任何内容。")
NOT_FOUND = Phrase("Nothing in memory says that.", "记忆中没有相关内容。")
NO_LINES = Phrase("  no line of a conversation says this", "  没有对话内容提到这一点")
NO_VERSION = Phrase("MEMORY.md has no kept version {number}.", "没有保留 MEMORY.md 的版本 {number}。")
RESTORED = Phrase("MEMORY.md is as it was in version {number}.", "MEMORY.md 已恢复为版本 {number}。")
UNCHANGED = Phrase("Nothing differs.", "没有差异。")
FORGOTTEN = Phrase(
    "Forgotten: {facts} facts, {notes} notes, {history} entries of the history, {lines} lines of conversations.",
    "已忘记：事实 {facts} 条，笔记 {notes} 条，历史 {history} 条，对话 {lines} 行。",
)
ASK_GATEWAY = Phrase(
    "A gateway runs (process {pid}): write /forget TEXT in the chat itself, or stop it first.",
    "网关正在运行（进程 {pid}）：请在对话中发送 /forget 文字，或先停止它。",
)
TOO_SHORT = Phrase("Name at least two characters.", "请至少写两个字符。")
BUILDING = Phrase("The index is still being built: there may be more.", "索引仍在建立，可能还有更多结果。")


class TierName(StrEnum):
    """Where to look."""

    ALL = "all"
    IMPORTANT = "important"
    DAILY = "daily"
    MISC = "misc"
    HISTORY = "history"
    SESSION = "session"


ScopeOption = Annotated[
    str,
    typer.Option("--scope", metavar="KEY", help="Whose memory: owner, or a conversation such as telegram:-100."),
]
TextArgument = Annotated[str, typer.Argument(metavar="TEXT", help="What to look for.")]
memory = typer.Typer(help="Show, search and change what is remembered.", no_args_is_help=True)


@memory.command("scopes")
def list_scopes(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the memories: the owner's, and that of each other chat."""
    keys = [scope.key for scope in _look(load(config)).memories.scopes.all()]
    typer.echo(json.dumps(keys, ensure_ascii=False) if as_json else "\n".join(keys))


@memory.command("ls")
def list_entries(
    tier: Annotated[TierName, typer.Option("--tier", metavar="TIER", help="Only these.")] = TierName.ALL,
    scope: ScopeOption = "owner",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List facts and notes with their ids."""
    settings = load(config)
    outside = _look(settings)
    entries = [entry for entry in _entries(outside, scope) if tier in (TierName.ALL, TierName(entry.tier))]
    _print_entries(settings, entries, as_json)
    if not entries and not as_json:
        typer.echo(NOTHING.say(settings.language))


@memory.command("search")
def search_entries(
    text: TextArgument,
    tier: Annotated[TierName, typer.Option("--tier", metavar="TIER", help="Where to look.")] = TierName.ALL,
    last: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="How many at most.")] = 20,
    scope: ScopeOption = "owner",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search memory and conversations by words, Chinese ones too."""
    from nanobee.memory.entries import Tier
    from nanobee.memory.search import FULL_TIERS, Query

    settings = load(config)
    outside = _look(settings)
    tiers = FULL_TIERS if tier is TierName.ALL else (Tier(tier),)
    found = outside.finder.find_now(outside.scope(scope), Query(text, tiers, limit=last))
    _print_entries(settings, [match.entry for match in found.matches.found], as_json)
    if not found.is_complete:
        typer.echo(BUILDING.say(settings.language), err=True)
    if not found.matches.found and not as_json:
        typer.echo(NOT_FOUND.say(settings.language))


@memory.command("why")
def why(
    text: TextArgument, scope: ScopeOption = "owner", config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Show the lines of conversations that something in memory came from."""
    import anyio

    from nanobee.memory.provenance import Provenance

    settings = load(config)
    outside = _look(settings)
    provenance = Provenance(outside.memories.of(outside.scope(scope)), outside.archive, outside.finder)
    origins = anyio.run(provenance.explain, text)
    if as_json:
        typer.echo(json.dumps([_origin_json(origin) for origin in origins], ensure_ascii=False, indent=2))
        return
    for origin in origins:
        for line in _origin_lines(origin, settings):
            typer.echo(line)
    if not origins:
        typer.echo(NOT_FOUND.say(settings.language))


@memory.command("log")
def log(scope: ScopeOption = "owner", config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the kept texts of MEMORY.md, each with what it came from."""
    from nanobee.bus.lines import format_at
    from nanobee.clock import load_clock

    settings = load(config)
    versions = _memory(settings, scope).facts.versions.load()
    if as_json:
        rows = [
            {"number": each.number, "at": format_at(each.at), "source": each.source, "chars": len(each.text)}
            for each in versions
        ]
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    clock = load_clock(settings.timezone)
    for each in versions:
        typer.echo(
            f"{each.number:>4}  {clock.local(each.at):%Y-%m-%d %H:%M}  {len(each.text):>6}  {_safe(each.source)}"
        )


@memory.command("diff")
def diff(
    old: Annotated[int, typer.Argument(metavar="OLD", help="A number of `log`.")],
    new: Annotated[
        int | None, typer.Argument(metavar="[NEW]", help="Another one; the file as it is unless given.")
    ] = None,
    scope: ScopeOption = "owner",
    config: ConfigOption = None,
) -> None:
    """Show what changed between two texts of MEMORY.md."""
    from difflib import unified_diff

    settings = load(config)
    facts = _memory(settings, scope).facts
    before = _version(settings, facts.versions.load(), old).text
    after = facts.read() if new is None else _version(settings, facts.versions.load(), new).text
    names = (f"MEMORY.md {old}", "MEMORY.md" if new is None else f"MEMORY.md {new}")
    rows = list(unified_diff(before.split("\n"), after.split("\n"), *names, lineterm=""))
    typer.echo("\n".join(map(_safe, rows)) or UNCHANGED.say(settings.language))


@memory.command("restore")
def restore(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="A number of `log`.")],
    scope: ScopeOption = "owner",
    config: ConfigOption = None,
) -> None:
    """Put a kept text of MEMORY.md back; the one it replaces is kept too."""
    settings = load(config)
    outside = _look(settings)
    memory = outside.memories.of(outside.scope(scope))
    with outside.memories.lock.hold(memory.scope):
        text = _version(settings, memory.facts.versions.load(), number).text
        memory.facts.update(lambda current: text, f"restore {number}")
    typer.echo(RESTORED.say(settings.language, number=number))


@memory.command("forget")
def forget(text: TextArgument, scope: ScopeOption = "owner", config: ConfigOption = None) -> None:
    """Forget everything that says a text, or what #ID says. While a gateway runs, /forget in the chat does it."""
    import anyio

    from nanobee.errors import HeldError, StateError
    from nanobee.memory.forgetting import MIN_CHARS

    settings = load(config)
    if len(text.strip()) < MIN_CHARS:
        raise StateError(TOO_SHORT.say(settings.language))
    try:
        anyio.run(_forget, settings, scope, text)
    except HeldError as error:
        raise HeldError(ASK_GATEWAY.say(settings.language, pid=error.pid or "?"), error.pid) from None


async def _forget(settings: "Settings", scope: str, text: str) -> None:
    from nanobee.agent.notices import ChatNotices
    from nanobee.memory.outside import forgetting

    notices = ChatNotices(settings.language, lambda address, words: (words,))
    outside = _look(settings)
    if text.startswith("#"):
        named = {f"#{entry.id}": entry.text for entry in _entries(outside, scope)}
        text = named.get(text.strip(), text)
    async with forgetting(settings, notices) as forgetter:
        gone = await forgetter.forget(outside.scope(scope), text)
    counts = {"facts": gone.facts, "notes": gone.notes, "history": gone.history, "lines": gone.lines}
    typer.echo((FORGOTTEN if gone.places else NOT_FOUND).say(settings.language, **counts))


def _look(settings: "Settings") -> "Outside":
    from nanobee.memory.outside import look_at

    return look_at(settings)


def _memory(settings: "Settings", scope: str) -> "Memory":
    outside = _look(settings)
    return outside.memories.of(outside.scope(scope))


def _entries(outside: "Outside", scope: str) -> list["Entry"]:
    memory = outside.memories.of(outside.scope(scope))
    daily = [entry for day in memory.daily.days() for entry in memory.daily.entries(day)]
    return [*memory.facts.entries(), *daily, *memory.misc.entries(outside.memories.clock.now())]


def _version(settings: "Settings", versions: Iterable["Version"], number: int) -> "Version":
    from nanobee.errors import StateError

    for version in versions:
        if version.number == number:
            return version
    raise StateError(NO_VERSION.say(settings.language, number=number))


def _print_entries(settings: "Settings", entries: Iterable["Entry"], as_json: bool) -> None:
    from nanobee.clock import load_clock

    if as_json:
        typer.echo(json.dumps([_entry_json(entry) for entry in entries], ensure_ascii=False, indent=2))
        return
    clock = load_clock(settings.timezone)
    for entry in entries:
        stamp = f"{clock.local(entry.at):%Y-%m-%d %H:%M}"
        until = f" → {clock.local(entry.expires_at):%Y-%m-%d %H:%M}" if entry.expires_at else ""
        source = f" [{entry.source}]" if entry.source else ""
        typer.echo(f"{entry.id:>16}  {stamp}  {entry.tier:<9}  {_safe(entry.text + source)}{until}")


def _entry_json(entry: "Entry") -> dict[str, object]:
    from nanobee.bus.lines import format_at

    source = entry.source
    return {
        "id": entry.id,
        "tier": entry.tier,
        "text": entry.text.encode("utf-8", "replace").decode(),
        "at": format_at(entry.at),
        "session": source.session_key if source else None,
        "seqs": [source.first, source.last] if source else None,
        "expires_at": format_at(entry.expires_at) if entry.expires_at else None,
        "trusted": entry.is_trusted,
    }


def _origin_json(origin: "Origin") -> dict[str, object]:
    from nanobee.bus.lines import format_at

    said = [
        {"seq": each.seq, "at": format_at(each.at), "role": each.role, "text": each.whole or each.text}
        for each in origin.said
    ]
    return {"entry": _entry_json(origin.entry), "came_by": origin.came_by, "session": origin.session_key, "lines": said}


def _origin_lines(origin: "Origin", settings: "Settings") -> Iterator[str]:
    from nanobee.clock import load_clock

    clock = load_clock(settings.timezone)
    yield f"{origin.entry.tier}: {_safe(origin.entry.text)}"
    if origin.came_by:
        yield f"  [{_safe(origin.came_by)}]"
    for each in origin.said:
        who = each.name or each.role
        yield f"  {each.seq:>6}  {clock.local(each.at):%Y-%m-%d %H:%M}  {_safe(f'{who}: {each.whole or each.text}')}"
    if not origin.said:
        yield NO_LINES.say(settings.language)


def _safe(text: str) -> str:
    from nanobee.cli.printable import one_line

    return one_line(text.encode("utf-8", "replace").decode(), TEXT_WIDTH)
