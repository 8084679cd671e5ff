"""Forgetting: a fact goes out of every file of a scope, and the session lines that say it are marked.

The one writer that may change HISTORY.md. The lines stay in their session files until
`nanobee sessions redact` removes them; context, search and consolidation skip them.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from anyio import to_thread

from nanobee.bus.lines import Line, LineKind, NewLine
from nanobee.errors import NanobeeError
from nanobee.memory.consolidation import Consolidation
from nanobee.memory.entries import split_source
from nanobee.memory.files import read_text, replace_text
from nanobee.memory.memory import Memories, Memory
from nanobee.memory.scope import Scope
from nanobee.memory.words import normalize
from nanobee.sessions.files import SessionFiles
from nanobee.sessions.forward import read_forward
from nanobee.sessions.texts import texts

MIN_CHARS = 2
"""A shorter text is in everything."""
MAX_PLACES = 300
"""That a person may forget at once: more are a slip."""
MAX_MODEL_PLACES = 40
"""That a model may forget at once."""
MARK = "[forgotten]"
"""Stands in HISTORY.md where something was."""
_SENTENCE = re.compile(r".+?(?:[.!?。！？；;|](?=\s|$)|[。！？；]|$)\s*", re.DOTALL)


class SessionWriter(Protocol):
    """The part of the bus that takes lines that belong to no turn."""

    async def append(self, session_key: str, lines: Sequence[NewLine]) -> tuple[Line, ...]:
        """Append lines that belong to no turn."""
        ...


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What is gone."""

    facts: int = 0
    notes: int = 0
    """Daily and short-lived ones."""
    history: int = 0
    """Entries of HISTORY.md that were changed."""
    lines: int = 0
    """Session lines that nobody reads any more."""

    @property
    def places(self) -> int:
        """All together."""
        return self.facts + self.notes + self.history + self.lines


class TooWideError(NanobeeError):
    """The text stands in more places than whoever asks may mean; nothing was forgotten."""

    def __init__(self, places: int) -> None:
        self.places = places
        super().__init__(f"that text stands in {places:,} places")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be forgotten: a text, in whatever letter case and spacing."""

    text: str

    @property
    def key(self) -> str:
        """The text as it is compared."""
        return " ".join(normalize(self.text).split())

    def is_in(self, text: str) -> bool:
        """Whether `text` says it."""
        return self.key in " ".join(normalize(text).split())

    def cut_lines(self, text: str) -> str:
        """A Markdown text without the lines that say it."""
        return "\n".join(line for line in text.split("\n") if not self.is_in(line))

    def cut_sentences(self, paragraph: str) -> str:
        """An entry of HISTORY.md, with a mark in place of the sentences that say it."""
        if not self.is_in(paragraph):
            return paragraph
        ending = paragraph[len(paragraph.rstrip()) :]
        text, source = split_source(paragraph.rstrip())
        stamp, _, rest = text.partition("] ") if text.startswith("[") else ("", "", text)
        kept = [MARK + " " if self.is_in(part) else part for part in _SENTENCE.findall(rest)]
        said = "".join(kept).strip()
        if self.is_in(said):
            said = MARK  # it stands across two sentences
        head = f"{stamp}] " if stamp else ""
        return f"{head}{said}{f' [{source}]' if source else ''}{ending}"


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Forgets in one scope at a time. Lives on the event loop; files are read and written in threads."""

    memories: Memories
    consolidation: Consolidation
    bus: SessionWriter
    files: SessionFiles
    on_change: Callable[[Scope, Sequence[str]], None]
    """Told of the scope and of its sessions that have new lines, when all is written."""

    async def forget(self, scope: Scope, text: str, *, max_places: int = MAX_PLACES) -> Forgotten:
        """Forget a text wherever it stands in the scope's memory and sessions.

        Raises:
            TooWideError: it stands in more places than that.
            StateError: the disk refuses; forgetting again goes on where it ended.
        """
        wanted = Wanted(text)
        gates = self.consolidation.gates
        gates.note_forget(scope)
        await self._settle(scope)
        async with gates.of(scope):
            found = await to_thread.run_sync(self._find, self.memories.of(scope), wanted)
            takebacks: dict[str, list[tuple[NewLine, int]]] = {}
            for key in await to_thread.run_sync(self._sessions, scope):
                new = await to_thread.run_sync(self._takeback, key, wanted)
                if new:
                    takebacks[key] = new
            lines = sum(count for new in takebacks.values() for _, count in new)
            found = replace(found, lines=lines)
            if found.places > max_places:
                raise TooWideError(found.places)
            await to_thread.run_sync(self._forget_files, self.memories.of(scope), wanted)
            for key, new in takebacks.items():
                await self.bus.append(key, [line for line, _ in new])
        self.on_change(scope, list(takebacks))
        return found

    async def _settle(self, scope: Scope) -> None:
        """What was accepted before goes into the files first, so that it can be taken out of them."""
        for key in await self.consolidation.bus.unfinished_consolidations():
            if self.memories.scopes.of(key).key == scope.key:
                await self.consolidation.settle(key)

    def _find(self, memory: Memory, wanted: Wanted) -> Forgotten:
        facts = sum(wanted.is_in(entry.text) for entry in memory.facts.entries())
        notes = sum(wanted.is_in(note.text) for note in memory.misc.load())
        for day in memory.daily.days():
            notes += sum(wanted.is_in(line) for line in memory.daily.read(day).split("\n"))
        return Forgotten(facts, notes, sum(wanted.is_in(entry.text) for entry in memory.history.entries()))

    def _forget_files(self, memory: Memory, wanted: Wanted) -> None:
        with self.memories.lock.hold(memory.scope):
            memory.facts.update(wanted.cut_lines, "forget")
            memory.facts.versions.redact(wanted.cut_lines)
            memory.misc.remove([memory.misc.id_of(note) for note in memory.misc.load() if wanted.is_in(note.text)])
            for day in memory.daily.days():
                path = memory.daily.path(day)
                current = read_text(path)
                cut = wanted.cut_lines(current)
                if cut != current:
                    replace_text(path, cut)
            memory.history.redact(wanted.cut_sentences)

    def _sessions(self, scope: Scope) -> list[str]:
        return [key for key in self.files.keys() if self.memories.scopes.of(key).key == scope.key]

    def _takeback(self, session_key: str, wanted: Wanted) -> list[tuple[NewLine, int]]:
        """The lines to append to a session, each with how many of its lines it takes back."""
        seqs, summaries, gone = [], [], set()
        for line in read_forward(self.files.path(session_key), 0):
            if line.kind == LineKind.FORGOTTEN:
                found = line.data.get("seqs")
                gone.update(found if isinstance(found, list) else [])
            elif line.kind == LineKind.COMPACTED:
                summaries = [line]
            elif line.kind in (LineKind.MESSAGE, LineKind.RECORD) and wanted.is_in(_all_text(line)):
                seqs.append(line.seq)
        new = []
        left = [seq for seq in seqs if seq not in gone]
        if left:
            new.append((NewLine(LineKind.FORGOTTEN, {"seqs": left}), len(left)))
        for line in summaries:
            summary = str(line.data.get("summary", ""))
            if wanted.is_in(summary):
                new.append((NewLine(line.kind, {**line.data, "summary": wanted.cut_sentences(summary)}), 1))
        return new


def _all_text(line: Line) -> str:
    """Every text in a line, as it was said."""
    return "\n".join(texts(line.data))
