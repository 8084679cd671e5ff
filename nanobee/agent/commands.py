"""Commands: messages that begin with a slash, answered without the model.

A command is registered, not imported by who runs it. Those in the control lane overtake
everything; the others wait for their turn in the session.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from nanobee.agent import phrases
from nanobee.agent.agent import Agent
from nanobee.bus.bus import InboxRow
from nanobee.bus.lines import LineKind, NewLine
from nanobee.channel import command_of
from nanobee.messages import InboundMessage
from nanobee.phrases import Language, Phrase


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command answers, and the session lines that it writes (session lane only)."""

    text: str
    """Empty for a command whose answer comes otherwise."""
    lines: Sequence[NewLine] = ()
    requeue: InboundMessage | None = None
    """A message to answer again (session lane only)."""


@dataclass(frozen=True, slots=True)
class CommandContext:
    """Who asked for what, where."""

    agent: Agent
    commands: "Commands"
    row: InboxRow
    arguments: str
    settings: Mapping[str, str]
    """What a person chose for the session."""


Run = Callable[[CommandContext], Awaitable[CommandResult]]


@dataclass(frozen=True, slots=True)
class Command:
    """One slash command."""

    name: str
    """With its slash."""
    summary: Phrase
    run: Run


@dataclass(frozen=True, slots=True)
class Commands:
    """The commands by name."""

    language: Language
    _by_name: dict[str, Command] = field(default_factory=dict)

    def register(self, command: Command) -> None:
        """Add a command; a second one of the same name replaces the first."""
        self._by_name[command.name] = command

    async def run(self, agent: Agent, row: InboxRow) -> CommandResult:
        """Run the command that the row's text begins with; an unknown one gets a suggestion."""
        text = row.message.text if row.message is not None else ""
        name = command_of(text) or text
        command = self._by_name.get(name)
        if command is None:
            return CommandResult(self._unknown(name))
        arguments = text.strip().partition(" ")[2].strip()
        settings = await agent.around.bus.settings(row.session_key)
        return await command.run(CommandContext(agent, self, row, arguments, settings))

    @staticmethod
    def name_of(row: InboxRow) -> str | None:
        """The command that the row's text begins with."""
        return command_of(row.message.text) if row.message is not None else None

    def _unknown(self, name: str) -> str:
        close = get_close_matches(name, self._by_name, n=1)
        suggestion = phrases.SUGGESTION.say(self.language, name=close[0]) if close else ""
        return phrases.UNKNOWN_COMMAND.say(self.language, name=name, suggestion=suggestion)

    def help(self) -> str:
        """All commands, a line each."""
        return "\n".join(
            f"{command.name}: {command.summary.say(self.language)}" for _, command in sorted(self._by_name.items())
        )


async def _start(context: CommandContext) -> CommandResult:
    """What the start button of some platforms sends."""
    return CommandResult(phrases.GREETING.say(context.agent.language))


async def _help(context: CommandContext) -> CommandResult:
    return CommandResult(context.commands.help())


async def _new(context: CommandContext) -> CommandResult:
    return CommandResult(phrases.NEW_SESSION.say(context.agent.language), [NewLine(LineKind.RESET)])


async def _status(context: CommandContext) -> CommandResult:
    waiting = await context.agent.around.bus.waiting(context.row.session_key)
    doing = phrases.WORKING if waiting.is_running else phrases.IDLE
    language = context.agent.language
    text = phrases.STATUS.say(
        language,
        model=(await context.agent.models.chain(context.settings.get("model")))[0].name,
        doing=doing.say(language),
        waiting=waiting.queued,
        parked=waiting.parked,
    )
    asked = [phrases.OPEN_QUESTION.say(language, id=each.id, question=each.question) for each in waiting.questions]
    if waiting.undelivered:
        asked.append(phrases.UNDELIVERED_HERE.say(language, count=waiting.undelivered))
    return CommandResult("\n".join([text, *asked]))


async def _resume(context: CommandContext) -> CommandResult:
    count = await context.agent.around.bus.resume(context.row.session_key)
    if not count and context.row.attempts:
        # A kill came before the reply: whatever was kept aside went on then.
        return CommandResult(phrases.RESUMED_BEFORE.say(context.agent.language))
    phrase = phrases.RESUMED if count else phrases.NOTHING_PARKED
    return CommandResult(phrase.say(context.agent.language, count=count))


async def _answer(context: CommandContext) -> CommandResult:
    language = context.agent.language
    suspension_id, _, text = context.arguments.partition(" ")
    if not text.strip():
        return CommandResult(phrases.ANSWER_USAGE.say(language))
    shown = suspension_id.removeprefix("#").lower()
    answered = await context.agent.around.bus.answer(shown, context.row.session_key, text)
    if answered.suspension is None:
        return CommandResult(phrases.NO_LONGER_VALID.say(language, id=shown))
    if not answered.is_valid:
        choices = ", ".join(answered.suspension.choices)
        return CommandResult(phrases.NOT_A_CHOICE.say(language, id=shown, choices=choices))
    phrase = phrases.MORE_QUESTIONS if answered.open_questions else phrases.ANSWER_NOTED
    return CommandResult(phrase.say(language, count=answered.open_questions))


def create_commands(language: Language) -> Commands:
    """The commands that every chat has; `/stop` is the dispatcher's, which owns the running turns."""
    commands = Commands(language)
    for name, summary, run in (
        ("/start", phrases.HELP_START, _start),
        ("/help", phrases.HELP_HELP, _help),
        ("/new", phrases.HELP_NEW, _new),
        ("/status", phrases.HELP_STATUS, _status),
        ("/resume", phrases.HELP_RESUME, _resume),
        ("/answer", phrases.HELP_ANSWER, _answer),
    ):
        commands.register(Command(name, summary, run))
    return commands
