"""SystemPrompt: what every call begins with, read from the workspace's files.

The text changes only when a file or the date does, so that servers can keep it in their
prompt cache.
"""

from pathlib import Path

from nanobee.clock import Clock

FILES = ("AGENTS.md", "SOUL.md", "USER.md", "memory/MEMORY.md")
"""In the order in which they stand in the prompt."""
MAX_FILE_CHARS = 24_000
"""A longer file is cut; the prompt says so."""

INTRODUCTION = """\
You are an assistant who talks with people through chat apps. Your workspace is the folder {workspace}; \
file tools take paths relative to it.
Today is {today}. Each user message begins with the time at which it was sent, in brackets; never write such a stamp \
yourself.
Answer in the language of the user's message. Your final text is sent to the chat as Markdown."""

TINY = "You are a friendly assistant. Answer briefly."
"""For toy models, which lose the thread in a longer prompt."""


class SystemPrompt:
    """Builds the prompt, and builds it again only when something in it has changed."""

    def __init__(self, workspace: Path, clock: Clock) -> None:
        self._workspace = workspace
        self._clock = clock
        self._key: tuple[object, ...] = ()
        self._text = ""

    def build(self) -> str:
        """The prompt for a call now. Reads a few small files where they have changed."""
        today = self._clock.local(self._clock.now()).strftime("%A, %Y-%m-%d")
        key = (today, *(self._stamp(name) for name in FILES))
        if key != self._key:
            self._key = key
            introduction = INTRODUCTION.format(workspace=self._workspace, today=today)
            sections = [introduction, *(self._section(name) for name in FILES)]
            self._text = "\n\n".join(section for section in sections if section)
        return self._text

    def _stamp(self, name: str) -> tuple[int, int] | None:
        try:
            stat = (self._workspace / name).stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size

    def _section(self, name: str) -> str:
        try:
            with (self._workspace / name).open(encoding="utf-8-sig", errors="replace") as file:
                text = file.read(MAX_FILE_CHARS + 1)
        except OSError:
            return ""
        if not text.strip():
            return ""
        cut = f"\n[{name} is longer; read the rest with read_file]" if len(text) > MAX_FILE_CHARS else ""
        return f"## {name}\n\n{text[:MAX_FILE_CHARS].strip()}{cut}"
