"""Session commands: what a person sets or takes back in one conversation."""

from dataclasses import replace
from datetime import UTC, datetime
from textwrap import shorten

from nanobee.agent import phrases
from nanobee.agent.commands import Command, CommandContext, CommandResult, Commands
from nanobee.bus.bus import message_of
from nanobee.bus.lines import Line, LineKind, NewLine
from nanobee.config import BusyMode
from nanobee.errors import ConfigError

MAX_QUOTED_CHARS = 60


async def _model(context: CommandContext) -> CommandResult:
    models, language = context.agent.models, context.agent.language
    if not context.arguments:
        now = (await models.chain(context.settings.get("model")))[0].name
        names = ", ".join(dict.fromkeys((models.default.name, *models.preset_names)))
        text = phrases.MODEL_IS.say(language, model=now) + "\n" + phrases.MODEL_CHOICES.say(language, names=names)
        return CommandResult(text)
    try:
        choice = await models.find(context.arguments)
    except ConfigError as error:
        return CommandResult(phrases.NO_SUCH_MODEL.say(language, reason=error.problems[0].reason))
    line = NewLine(LineKind.SETTINGS, {"model": choice.name})
    return CommandResult(phrases.MODEL_NOW.say(language, model=choice.name), [line])


async def _busy(context: CommandContext) -> CommandResult:
    language, wanted = context.agent.language, context.arguments.lower()
    modes = ", ".join(BusyMode)
    if wanted in frozenset(BusyMode):
        line = NewLine(LineKind.SETTINGS, {"busy": wanted})
        return CommandResult(phrases.BUSY_IS.say(language, mode=wanted, modes=modes), [line])
    now = context.settings.get("busy", context.agent.settings.busy)
    return CommandResult(phrases.BUSY_IS.say(language, mode=now, modes=modes))


async def _reasoning(context: CommandContext) -> CommandResult:
    language, wanted = context.agent.language, context.arguments.lower()
    if wanted in ("on", "off"):
        line = NewLine(LineKind.SETTINGS, {"reasoning": wanted})
        return CommandResult(phrases.REASONING_IS.say(language, state=wanted), [line])
    return CommandResult(phrases.REASONING_IS.say(language, state=context.settings.get("reasoning", "off")))


async def _undo(context: CommandContext) -> CommandResult:
    user = await _last_user_line(context)
    language = context.agent.language
    if user is None:
        return CommandResult(phrases.NOTHING_TO_UNDO.say(language))
    text = shorten(str(user.data.get("content", "")), MAX_QUOTED_CHARS, placeholder="…")
    return CommandResult(phrases.UNDONE.say(language, text=text), [await _undone(context, user)])


async def _retry(context: CommandContext) -> CommandResult:
    user = await _last_user_line(context)
    if user is None:
        return CommandResult(phrases.NOTHING_TO_UNDO.say(context.agent.language))
    asked = message_of(context.row)
    source_id, quoted = user.data.get("source_id"), user.data.get("quoted")
    again = replace(
        asked,
        text=str(user.data.get("content", "")),
        received_at=datetime.now(UTC),
        source_id=source_id if isinstance(source_id, str) else None,
        quoted_text=quoted if isinstance(quoted, str) else None,
        reply_to=None,
    )
    return CommandResult("", [await _undone(context, user)], again)


async def _last_user_line(context: CommandContext) -> Line | None:
    session = await context.agent.around.sessions.load(context.row.session_key)
    lines = [line for line in session.lines if line.kind == LineKind.MESSAGE and line.data.get("role") == "user"]
    return lines[-1] if lines else None


async def _undone(context: CommandContext, user: Line) -> NewLine:
    session = await context.agent.around.sessions.load(context.row.session_key)
    return NewLine(LineKind.UNDONE, {"from": user.seq, "through": session.lines[-1].seq})


def register_session_commands(commands: Commands) -> None:
    """Add `/model`, `/busy`, `/reasoning`, `/undo` and `/retry`."""
    for name, summary, run in (
        ("/model", phrases.HELP_MODEL, _model),
        ("/busy", phrases.HELP_BUSY, _busy),
        ("/reasoning", phrases.HELP_REASONING, _reasoning),
        ("/undo", phrases.HELP_UNDO, _undo),
        ("/retry", phrases.HELP_RETRY, _retry),
    ):
        commands.register(Command(name, summary, run))
