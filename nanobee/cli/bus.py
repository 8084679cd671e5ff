"""`nanobee bus`: the messages that wait, are parked or were given up, and what to do with them."""

import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from nanobee.cli.options import ConfigOption, JsonOption
from nanobee.cli.rows import build_table, describe_entry, entry_to_json
from nanobee.cli.running import load
from nanobee.phrases import Language, Phrase

if TYPE_CHECKING:
    from nanobee.bus.entries import Entry, EntryId
    from nanobee.config import Settings

DEFAULT_LIMIT = 200
NOTHING = Phrase("Nothing waits.", "没有等待中的消息。")
MORE = Phrase("… and {count} more: --limit 0 lists all.", "……还有 {count} 行：用 --limit 0 列出全部。")
NO_ROW = Phrase("There is no row {id}.", "没有 {id} 这一行。")
NO_ID = Phrase("rows are named as in-12 or out-34", "行的名称形如 in-12 或 out-34")
NO_STATE = Phrase("there is no state {state}; there are: {states}", "没有状态 {state}；可用的状态：{states}")
GOES_ON = Phrase("{id}: the gateway goes on with it.", "{id}：网关正在继续处理。")
WAITS = Phrase("{id}: it goes on at the gateway's next start.", "{id}：网关下次启动时继续处理。")
IS_DROPPED = Phrase("{id}: dropped.", "{id}：已移除。")
bus = typer.Typer(help="Show and change the messages that wait.", no_args_is_help=True)
IdsArgument = Annotated[list[str], typer.Argument(metavar="ID...", help="Rows as `ls` names them: in-12, out-34.")]


@bus.command("ls")
def list_rows(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Only rows in this state; may be repeated.", show_default=False),
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="KEY", help="Only rows of this conversation.", show_default=False)
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Ended rows too.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=0, help="How many rows in each direction; 0 for all.")
    ] = DEFAULT_LIMIT,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what waits, is parked or was given up.

    Inbound rows first, the oldest before the newer ones.
    """
    from nanobee.bus.entries import Filter, list_entries
    from nanobee.bus.outside import reading
    from nanobee.clock import load_clock

    settings = load(config)
    states = _read_states(state, show_all, settings.language)
    with reading(settings.state) as db:
        none: tuple[list[Entry], int] = ([], 0)
        entries, more = none if db is None else list_entries(db, Filter(states, session), limit or -1)
    if as_json:
        _print_json({"rows": [entry_to_json(entry) for entry in entries], "more": more})
        return
    for line in build_table(entries, settings.language, load_clock(settings.timezone)):
        typer.echo(line)
    if more:
        typer.echo(MORE.say(settings.language, count=more))
    elif not entries:
        typer.echo(NOTHING.say(settings.language))


@bus.command("show")
def show_row(
    row_id: Annotated[str, typer.Argument(metavar="ID", help="A row as `ls` names it: in-12, out-34.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one row whole, with the rows of its turn."""
    from nanobee.bus.entries import load_entry, load_related
    from nanobee.bus.outside import reading
    from nanobee.clock import load_clock
    from nanobee.errors import BusError

    settings = load(config)
    entry_id = _read_id(row_id, settings.language)
    with reading(settings.state) as db:
        entry = None if db is None else load_entry(db, entry_id)
        if db is None or entry is None:
            raise BusError(NO_ROW.say(settings.language, id=entry_id))
        related = load_related(db, entry)
    if as_json:
        _print_json({**entry_to_json(entry), "turn_rows": [entry_to_json(each) for each in related]})
        return
    clock = load_clock(settings.timezone)
    for line in [*describe_entry(entry, settings.language, clock), "", *build_table(related, settings.language, clock)]:
        typer.echo(line)


@bus.command("retry")
def retry_rows(ids: IdsArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Send a part again that was given up, is postponed or may have arrived."""
    from nanobee.bus.admin import retry

    settings = load(config)
    _change(settings, ids, lambda entry_id: retry(settings.state, entry_id, time.time()), as_json=as_json)


@bus.command("resume")
def resume_rows(ids: IdsArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Work on a message again that was parked."""
    from nanobee.bus.admin import resume

    settings = load(config)
    _change(settings, ids, lambda entry_id: resume(settings.state, entry_id, time.time()), as_json=as_json)


@bus.command("drop")
def drop_rows(ids: IdsArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """End a row that waits, is parked or was given up.

    It stays visible in `ls --all`. The sender of a message that still waited is told.
    """
    from nanobee.bus.admin import drop

    settings = load(config)

    def change(entry_id: "EntryId") -> str:
        return drop(settings.state, entry_id, settings.language, time.time())

    _change(settings, ids, change, as_json=as_json, done=IS_DROPPED)


def _change(
    settings: "Settings",
    ids: Sequence[str],
    change: Callable[["EntryId"], str],
    *,
    as_json: bool,
    done: Phrase | None = None,
) -> None:
    """Change each row by itself, wake the holder, and tell what became of it."""
    import anyio

    from nanobee.bus.admin import ChangeRefusedError
    from nanobee.cli.faults import FAILED
    from nanobee.remote.client import wake_holder

    results: list[dict[str, object]] = []
    for entry_id in [_read_id(text, settings.language) for text in ids]:
        try:
            session_key = change(entry_id)
        except ChangeRefusedError as error:
            results.append({"id": str(entry_id), "changed": False, "reason": error.say(settings.language)})
            continue
        is_awake = anyio.run(wake_holder, settings.state, session_key)
        results.append({"id": str(entry_id), "changed": True, "session": session_key, "gateway": is_awake})
    if as_json:
        _print_json(results)
    for result in [] if as_json else results:
        phrase = done or (GOES_ON if result.get("gateway") else WAITS)
        text = phrase.say(settings.language, id=result["id"]) if result["changed"] else str(result["reason"])
        typer.echo(text, err=not result["changed"])
    if not all(result["changed"] for result in results):
        raise typer.Exit(FAILED)


def _read_id(text: str, language: Language) -> "EntryId":
    from nanobee.bus.entries import EntryId

    try:
        return EntryId.parse(text)
    except ValueError:
        raise typer.BadParameter(NO_ID.say(language), param_hint="ID") from None


def _read_states(states: Sequence[str] | None, show_all: bool, language: Language) -> frozenset[str] | None:
    from nanobee.bus.bus import InboxState, OutboxState

    known = sorted({*InboxState, *OutboxState})
    for state in states or ():
        if state not in known:
            raise typer.BadParameter(NO_STATE.say(language, state=state, states=", ".join(known)), param_hint="--state")
    if states:
        return frozenset(states)
    return frozenset(known) if show_all else None


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))
