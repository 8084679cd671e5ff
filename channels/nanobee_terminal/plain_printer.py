"""PlainPrinter: answers as the model wrote them on stdout, everything else on stderr."""

import sys
from contextlib import suppress

from nanobee.messages import LivePart, OutboundPart
from nanobee.phrases import Language
from nanobee_terminal.control_chars import clean_line, clean_text
from nanobee_terminal.pipes import write_all


class PlainPrinter:
    """Prints without a single escape sequence, for pipes, files and dumb terminals."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._activity: str | None = None

    async def run(self) -> None:
        """Nothing is drawn again and again."""

    def close(self) -> None:
        """Nothing was changed."""

    def grow(self, part: LivePart, text: str) -> None:
        """Tell a new activity; the text itself is printed once it is complete."""
        activity = clean_line(part.activity or "") or None
        if activity is not None and activity != self._activity:
            self.note(f"… {activity}")
        self._activity = activity

    async def answer(self, part: OutboundPart) -> None:
        """Print an answer.

        Raises:
            BrokenPipeError: nobody reads stdout any more.
        """
        if part.text.strip():
            await write_all(sys.stdout, clean_text(part.text).rstrip("\n") + "\n")

    def note(self, text: str, *, is_end: bool = False) -> None:
        """Print a line that is no answer."""
        with suppress(OSError):  # stderr may be closed; there is nobody left to tell
            sys.stderr.write(clean_text(text).rstrip("\n") + "\n")
            sys.stderr.flush()
