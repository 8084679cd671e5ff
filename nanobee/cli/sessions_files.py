"""`nanobee sessions export|rm|prune|redact`: conversations as files, and off the disk.

Nothing but these commands ever deletes a conversation.
"""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nanobee.cli.options import ConfigOption
from nanobee.cli.running import load
from nanobee.cli.sessions import NO_SESSION
from nanobee.cli.terminal import TERMINAL
from nanobee.phrases import Phrase

if TYPE_CHECKING:
    from nanobee.bus.lines import Line
    from nanobee.config import Settings
    from nanobee.sessions.removal import Removal

ASK = Phrase("Delete {count} conversations for good?", "永久删除 {count} 个会话？")
REMOVED = Phrase("{key} is deleted.", "{key} 已删除。")
WOULD = Phrase("{key}, last used {at}", "{key}，最后使用于 {at}")
NONE_OLD = Phrase("No conversation is that old.", "没有这么旧的会话。")
REDACTED = Phrase(
    "{key}: {lines} lines and {rows} rows of the bus are redacted.", "{key}：已清除 {lines} 行，总线中 {rows} 条。"
)
WHAT = Phrase("Say what to redact: --text, --seq or --forgotten.", "请说明要清除的内容：--text、--seq 或 --forgotten。")
SEQ_FORM = Phrase("--seq is a number or a range such as 3-9.", "--seq 是数字或范围，例如 3-9。")
KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="The conversation as `ls` names it, or a terminal's name.")
]


def export(
    key: KeyArgument,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write; standard output unless given.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="What was said as Markdown, not all lines as JSON.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Write a whole conversation out. Works beside a running gateway."""
    from nanobee.errors import StateError

    settings = load(config)
    rows = _markdown(settings, _key(key)) if markdown else (line.to_json() for line in _lines(settings, _key(key)))
    first = next(rows, None)
    if first is None:
        raise StateError(NO_SESSION.say(settings.language, key=_key(key)))
    try:
        file = sys.stdout if out is None else out.open("w", encoding="utf-8")
        file.write(f"{first}\n")
        file.writelines(f"{row}\n" for row in rows)
        file.flush() if out is None else file.close()
    except OSError as error:
        raise StateError(f"{out}: {error.strerror}") from error


def remove(
    keys: Annotated[list[str], typer.Argument(metavar="KEY", help="Conversations as `ls` names them.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigOption = None,
) -> None:
    """Delete conversations for good. What is remembered of them stays. No gateway may run."""
    settings = load(config)
    _remove(settings, [_key(key) for key in keys], yes)


def prune(
    days: Annotated[int, typer.Option("--older-than", metavar="DAYS", min=1, help="Not used for so many days.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigOption = None,
) -> None:
    """Delete the conversations that were not used for long. No gateway may run."""
    from nanobee.sessions.reading import list_sessions

    settings = load(config)
    before = datetime.now(UTC) - timedelta(days=days)
    old = [summary for summary in list_sessions(settings.state) if summary.last_at < before]
    if not old:
        typer.echo(NONE_OLD.say(settings.language))
    elif dry_run:
        for each in old:
            typer.echo(WOULD.say(settings.language, key=each.session_key, at=f"{each.last_at:%Y-%m-%d}"))
    else:
        _remove(settings, [each.session_key for each in old], yes)


def redact(
    key: KeyArgument,
    text: Annotated[
        str, typer.Option("--text", metavar="TEXT", help="Every line that says this.", show_default=False)
    ] = "",
    seq: Annotated[
        str, typer.Option("--seq", metavar="A[-B]", help="The lines with these numbers.", show_default=False)
    ] = "",
    forgotten: Annotated[bool, typer.Option("--forgotten", help="The lines that /forget marked.")] = False,
    config: ConfigOption = None,
) -> None:
    """Take lines of a conversation off the disk for good: its file and the bus. No gateway may run."""
    from nanobee.bus.holder import hold
    from nanobee.errors import StateError
    from nanobee.memory.forgetting import Wanted
    from nanobee.memory.transcript import gone_seqs

    settings = load(config)
    session_key = _key(key)
    if not (text.strip() or seq or forgotten):
        raise StateError(WHAT.say(settings.language))
    seqs = _seqs(settings, seq)
    with hold(settings.state):
        lines = list(_lines(settings, session_key))
        if not lines:
            raise StateError(NO_SESSION.say(settings.language, key=session_key))
        if forgotten:
            seqs |= gone_seqs(line for line in lines if line.kind == "forgotten")
        wanted = Wanted(text) if text.strip() else None
        removal = _removal(settings)
        removed = removal.redact(session_key, lambda said: wanted is not None and wanted.is_in(said), frozenset(seqs))
        _delete_index(settings, session_key)
    typer.echo(REDACTED.say(settings.language, key=session_key, lines=removed.lines, rows=removed.rows))


def _remove(settings: "Settings", keys: list[str], yes: bool) -> None:
    from nanobee.bus.holder import hold
    from nanobee.errors import StateError

    with hold(settings.state):
        for key in keys:
            if next(_lines(settings, key), None) is None:
                raise StateError(NO_SESSION.say(settings.language, key=key))
        if not yes:
            typer.confirm(ASK.say(settings.language, count=len(keys)), abort=True)
        for key in keys:
            _removal(settings).remove(key)
            _delete_index(settings, key)
            typer.echo(REMOVED.say(settings.language, key=key))


def _removal(settings: "Settings") -> "Removal":
    from nanobee.sessions.files import SessionFiles
    from nanobee.sessions.removal import Removal

    return Removal(settings.state, SessionFiles(settings.state))


def _delete_index(settings: "Settings", session_key: str) -> None:
    """The index of the memory that knows the session: it is made anew without what is gone."""
    from nanobee.memory.outside import look_at

    outside = look_at(settings)
    outside.finder.index(outside.memories.scopes.of(session_key)).delete()


def _key(key: str) -> str:
    return key if ":" in key else f"{TERMINAL}:{key}"


def _seqs(settings: "Settings", text: str) -> set[int]:
    from nanobee.errors import StateError

    if not text:
        return set()
    first, _, last = text.partition("-")
    if not first.isdecimal() or not (last or first).isdecimal():
        raise StateError(SEQ_FORM.say(settings.language))
    return set(range(int(first), int(last or first) + 1))


def _lines(settings: "Settings", session_key: str) -> Iterator["Line"]:
    """All lines of a session, in order, those that are in the journal only as well."""
    from nanobee.bus.lines import Line
    from nanobee.bus.outside import reading
    from nanobee.sessions.files import FOLDER, SessionFiles
    from nanobee.sessions.forward import read_forward

    with reading(settings.state) as db:
        sql = "select line from journal where session = ? order by seq"
        found = [] if db is None else db.execute(sql, (session_key,)).fetchall()
    last = 0
    if (settings.state / FOLDER).is_dir():
        for line in read_forward(SessionFiles(settings.state).path(session_key), 0):
            last = line.seq
            yield line
    yield from (line for line in (Line.from_json(text) for (text,) in found) if line.seq > last)


def _markdown(settings: "Settings", session_key: str) -> Iterator[str]:
    from nanobee.clock import load_clock
    from nanobee.memory.transcript import said_in

    clock = load_clock(settings.timezone)
    for said in said_in(_lines(settings, session_key)):
        who = said.name or said.role
        yield f"**{who}** · {clock.local(said.at):%Y-%m-%d %H:%M}\n\n{said.text}\n"
