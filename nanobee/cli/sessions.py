"""`nanobee sessions`: the conversations, and their last turns."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from nanobee.cli.options import ConfigOption, JsonOption
from nanobee.cli.running import load
from nanobee.cli.terminal import TERMINAL
from nanobee.phrases import Language, Phrase

if TYPE_CHECKING:
    from nanobee.bus.lines import Line
    from nanobee.clock import Clock
    from nanobee.sessions.reading import Summary, TurnRecord

DEFAULT_LAST = 5
SHORT_WIDTH = 200
"""Of a tool's arguments and results."""
NONE = Phrase("There are no sessions yet.", "还没有会话。")
NO_SESSION = Phrase("There is no session {key}.", "没有会话 {key}。")
SUGGESTION = Phrase(" Did you mean {key}?", "您是否想找 {key}？")
NO_TURN = Phrase("{key} has not {count} turns.", "{key} 没有 {count} 轮。")
LINES = Phrase("{count} lines", "{count} 行")
NEW = Phrase("a new conversation", "新的对话")
UNDONE = Phrase("the exchange before this was undone", "此前的一轮已撤销")
COMPACTED = Phrase("what is older was summed up", "更早的内容已摘要")
TURN_STATES = {
    "started": Phrase("under way", "进行中"),
    "done": Phrase("done", "完成"),
    "failed": Phrase("failed", "失败"),
    "stopped": Phrase("stopped", "已停止"),
    "suspended": Phrase("waits for an answer", "等待回答"),
}
sessions = typer.Typer(help="Show the conversations.", no_args_is_help=True)


@sessions.command("ls")
def list_all(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the conversations, the last used first."""
    from nanobee.cli.printable import describe_age, one_line
    from nanobee.sessions.reading import list_sessions

    settings = load(config)
    found = list_sessions(settings.state)
    if as_json:
        typer.echo(json.dumps([_summary_to_json(summary) for summary in found], ensure_ascii=False, indent=2))
        return
    if not found:
        typer.echo(NONE.say(settings.language))
    now = datetime.now(UTC)
    keys = [one_line(summary.session_key, SHORT_WIDTH) for summary in found]
    width = max(map(len, keys), default=0)
    for summary, key in zip(found, keys, strict=True):
        age = describe_age(now - summary.last_at, settings.language)
        typer.echo(f"{key.ljust(width)}  {age:>8}  {LINES.say(settings.language, count=summary.lines)}")


@sessions.command("show")
def show(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The conversation as `ls` names it, or a terminal's name.")],
    last: Annotated[int, typer.Option("--last", metavar="N", min=1, help="How many turns.")] = DEFAULT_LAST,
    turn: Annotated[
        int | None,
        typer.Option("--turn", metavar="N", min=1, help="Only this turn, counted from the end.", show_default=False),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the last turns of a conversation."""
    from nanobee.clock import load_clock
    from nanobee.errors import StateError
    from nanobee.sessions.reading import list_sessions, load_last_turns

    settings = load(config)
    session_key = key if ":" in key else f"{TERMINAL}:{key}"
    found = load_last_turns(settings.state, session_key, turn or last)
    if found is None:
        known = [summary.session_key for summary in list_sessions(settings.state)]
        close = get_close_matches(session_key, known, n=1)
        suggestion = SUGGESTION.say(settings.language, key=close[0]) if close else ""
        raise StateError(NO_SESSION.say(settings.language, key=session_key) + suggestion)
    if turn is not None:
        found = _only(found, turn)
        if not found:
            raise StateError(NO_TURN.say(settings.language, key=session_key, count=turn))
    if as_json:
        typer.echo(json.dumps([_turn_to_json(record) for record in found], ensure_ascii=False, indent=2))
        return
    clock = load_clock(settings.timezone)
    for record in found:
        for line in _tell_turn(record, settings.language, clock):
            typer.echo(line)


def _only(found: Sequence["TurnRecord"], turn: int) -> list["TurnRecord"]:
    turns = [record for record in found if record.state is not None]
    return turns[:1] if len(turns) == turn else []


def _tell_turn(record: "TurnRecord", language: Language, clock: "Clock") -> Iterator[str]:
    from nanobee.cli.printable import one_line

    if record.state is not None:
        state = TURN_STATES[record.state].say(language) if record.state in TURN_STATES else record.state
        reason = f": {one_line(record.reason, SHORT_WIDTH)}" if record.reason else ""
        yield f"── {clock.local(record.started_at):%Y-%m-%d %H:%M:%S} · {state}{reason}"
    for line in record.lines:
        yield from _tell_line(line, language)
    yield ""


def _tell_line(line: "Line", language: Language) -> Iterator[str]:
    from nanobee.cli.printable import one_line, printable

    data = line.data
    content = str(data.get("content") or data.get("text") or "")
    role = data.get("role")
    if role == "user":
        yield "> " + printable(content).strip().replace("\n", "\n  ")
    elif role == "tool":
        mark = "✗" if data.get("is_error") else "→"
        yield f"  {mark} {one_line(content, SHORT_WIDTH)}"
    elif role == "assistant":
        if content.strip():
            yield printable(content).strip()
        for call in _calls(data.get("tool_calls")):
            yield f"  · {one_line(call, SHORT_WIDTH)}"
    elif line.kind in _EVENTS:
        yield f"· {_EVENTS[line.kind].say(language)}"
    elif line.kind == "settings":
        chosen = ", ".join(f"{name}: {value}" for name, value in data.items())
        yield f"· {one_line(chosen, SHORT_WIDTH)}"
    elif content.strip():
        yield printable(content).strip()


_EVENTS = {"reset": NEW, "undone": UNDONE, "compacted": COMPACTED}


def _calls(calls: object) -> Iterator[str]:
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            yield f"{call.get('name', '?')} {call.get('arguments', '')}"


def _summary_to_json(summary: "Summary") -> dict[str, object]:
    return {"session": summary.session_key, "lines": summary.lines, "last_at": _utc(summary.last_at)}


def _turn_to_json(record: "TurnRecord") -> dict[str, object]:
    return {
        "turn": record.turn,
        "state": record.state,
        "reason": record.reason,
        "started_at": _utc(record.started_at),
        "lines": [json.loads(line.to_json()) for line in record.lines],
    }


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
