"""`nanobee cli`: a chat in this terminal."""

from typing import TYPE_CHECKING, Annotated

import typer

from nanobee.cli.beside import chat
from nanobee.cli.options import ConfigOption, LogLevel, LogLevelOption
from nanobee.cli.running import load, prepare, start_quickly

if TYPE_CHECKING:
    from nanobee.config import AgentSettings, PluginSettings, Settings
    from nanobee.messages import Address

TERMINAL = "terminal"
"""Name and kind of the channel, as in its session keys."""
DEFAULT_SESSION = "main"


def cli(
    message: Annotated[
        str | None,
        typer.Option(
            "--message", "-m", metavar="TEXT", help="Say this, print the answer, and leave.", show_default=False
        ),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="KEY", help="The conversation to go on with: a name, or terminal:NAME."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The model that answers: provider/model.")
    ] = None,
    config: ConfigOption = None,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Chat in this terminal.

    Piped input is one message. Answers go to standard output, all else to standard error. The log
    stands in the state folder, in logs/cli.log. Beside a running gateway it is that gateway that
    answers.
    """
    if message is not None and not message.strip():
        raise typer.BadParameter("the message is empty", param_hint="--message")
    start_quickly()
    settings = load(config)
    address = _address(DEFAULT_SESSION if session is None else session)
    section = _section(settings, message, address)
    agent = _agent(settings, model)
    settings = settings.model_copy(update={"channels": {TERMINAL: section}, "agent": agent})
    prepare(settings, log_level, settings.state / "logs" / "cli.log")
    chat(settings, address, names_model=model is not None)


def _section(settings: "Settings", message: str | None, address: "Address") -> "PluginSettings":
    from nanobee.config import PluginSettings

    values: dict[str, object] = {
        "kind": TERMINAL,
        "session": address.chat_id,
        "language": settings.language,
        "history_path": str(settings.state / "terminal_history"),
    }
    if message is not None:
        values["message"] = message
    return PluginSettings.model_validate(values)


def _address(session: str) -> "Address":
    """The chat that `NAME` or `terminal:NAME` stands for."""
    from nanobee.messages import Address

    key = session if ":" in session else f"{TERMINAL}:{session}"
    try:
        address = Address.from_session_key(key)
    except ValueError:
        address = None
    if address is None or address.channel != TERMINAL or address.thread is not None or not address.chat_id:
        raise typer.BadParameter("a session of the terminal is NAME or terminal:NAME", param_hint="--session")
    return address


def _agent(settings: "Settings", model: str | None) -> "AgentSettings":
    from nanobee.config_section import MODEL_FORM, is_model_label

    if model is None:
        return settings.agent
    if not is_model_label(model) and model not in settings.models:
        raise typer.BadParameter(MODEL_FORM.say(settings.language), param_hint="--model")
    return settings.agent.model_copy(update={"model": model})
