"""Status: the line that says that something is done, what, and for how long."""

import time
from collections.abc import Callable

from nanobee.phrases import Language
from nanobee_terminal import phrases
from nanobee_terminal.control_chars import clean_line

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_PER_SECOND = 10


class Status:
    """Counts from the moment when it is begun until it is ended."""

    def __init__(self, language: Language, clock: Callable[[], float] = time.monotonic) -> None:
        self._language: Language = language
        self._clock = clock
        self._began_at: float | None = None

    @property
    def is_on(self) -> bool:
        """Whether something is done."""
        return self._began_at is not None

    def begin(self) -> None:
        """Something is done from now on; nothing changes where it is already."""
        if self._began_at is None:
            self._began_at = self._clock()

    def end(self) -> None:
        """Nothing is done any more."""
        self._began_at = None

    def describe(self, activity: str | None, *, is_writing: bool, is_stopping: bool) -> str:
        """The line as it is now: `⠋ read_file notes.md · 3 s · Ctrl-C stops`."""
        seconds = self._clock() - (self._began_at if self._began_at is not None else self._clock())
        frame = FRAMES[int(seconds * FRAMES_PER_SECOND) % len(FRAMES)]
        if is_stopping:
            return f"{frame} {phrases.STOPPING.say(self._language)}"
        doing = clean_line(activity or "") or (phrases.WRITING if is_writing else phrases.WORKING).say(self._language)
        return f"{frame} {doing} · {seconds:.0f} s · {phrases.STOP_HINT.say(self._language)}"
