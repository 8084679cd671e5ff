"""Modes: which screen fits the way in which nanobee was started."""

import os
import sys
from collections.abc import Mapping

from nanobee_terminal.exchange import Exchange
from nanobee_terminal.line_screen import LineScreen
from nanobee_terminal.one_message import OneMessageScreen, Printer
from nanobee_terminal.plain_printer import PlainPrinter
from nanobee_terminal.screen import Screen
from nanobee_terminal.settings import TerminalSettings


def create_screen(settings: TerminalSettings, exchange: Exchange) -> Screen:
    """Keyboard and terminal: a chat. A message in the settings, or a pipe at either end: that message only."""
    is_drawable = sys.stdout.isatty() and not is_dumb(os.environ)
    if settings.message is None and sys.stdin.isatty() and sys.stdout.isatty():
        if not is_drawable:
            return LineScreen(settings, exchange)
        from nanobee_terminal.prompt_screen import PromptScreen

        return PromptScreen(settings, exchange)
    return OneMessageScreen(settings, exchange, _create_printer(settings, is_drawable=is_drawable))


def has_color(settings: TerminalSettings, environ: Mapping[str, str]) -> bool:
    """Whether colors are wanted: not where the settings or NO_COLOR say no."""
    return settings.color == "auto" and not environ.get("NO_COLOR")


def is_dumb(environ: Mapping[str, str]) -> bool:
    """Whether the terminal obeys no escape sequences."""
    return environ.get("TERM", "").lower() in ("", "dumb", "unknown") and os.name != "nt"


def _create_printer(settings: TerminalSettings, *, is_drawable: bool) -> Printer:
    if not is_drawable:
        return PlainPrinter(settings.language)
    from nanobee_terminal.live_printer import LivePrinter

    return LivePrinter(settings.language, color=has_color(settings, os.environ))
