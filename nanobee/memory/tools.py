"""The memory's tools: search, save and forget, each in the memory of its own conversation."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Literal

from anyio import to_thread

from nanobee.errors import ToolError
from nanobee.memory.entries import UNVERIFIED, Entry, Source, Tier, one_line
from nanobee.memory.forgetting import MAX_MODEL_PLACES, MIN_CHARS, TooWideError
from nanobee.memory.keeper import MemoryKeeper
from nanobee.memory.misc import MiscNote
from nanobee.memory.scope import Scope
from nanobee.tools.decorator import tool
from nanobee.tools.tool import Tool, ToolContext

MAX_TEXT_CHARS = 1_000
"""Of one thing that is saved."""
MAX_SHOWN_CHARS = 600
"""Of one entry that is found."""
MAX_FOUND = 12
MAX_FORGOTTEN = 5
"""Entries that a model may forget with one text; with more it must name them."""
MAX_GREP_SESSIONS = 500
"""Sessions that a pattern is looked for in, the last used first."""
NEARLY_FULL = 1.1
"""Of the limit of MEMORY.md, up to which single facts are still added."""

SaveTier = Literal["important", "daily", "misc"]
SearchTier = Literal["all", "important", "daily", "misc", "history", "session"]


def create_memory_tools(keeper: MemoryKeeper) -> tuple[Tool, ...]:
    """The tools on the memories of one gateway."""
    hands = _Hands(keeper)

    @tool(parallel_safe=True, idempotent=True)
    async def memory_search(
        context: ToolContext, query: str, tier: SearchTier = "all", since: str = "", until: str = ""
    ) -> str:
        """Search the memory and the old conversations of this chat by words; the best and newest come first.

        Args:
            query: A few words, as names or things are written; empty for the newest of a time. `/…/` is a pattern.
            tier: Where to look; history is the log of what happened, session what was said word for word.
            since: First day, as 2026-10-03.
            until: Last day, as 2026-10-05.
        """
        return await hands.search(context, query, tier, since, until)

    @tool(idempotent=True)
    async def memory_save(context: ToolContext, tier: SaveTier, text: str, expires: str = "") -> str:
        """Remember something: important for facts that last, daily for what matters on these days, misc for the rest.

        Args:
            tier: How lasting it is.
            text: One fact or note, complete in itself: with names and dates.
            expires: For misc: how long it is kept, as 3d, 12h or 2026-10-05.
        """
        return await hands.save(context, tier, text, expires)

    @tool
    async def memory_forget(context: ToolContext, what: str) -> str:
        """Forget something everywhere, for good, because the user wants it.

        Args:
            what: The id of one entry as memory_search shows it, or the text that is to be forgotten.
        """
        return await hands.forget(context, what)

    return memory_search, memory_save, memory_forget


@dataclass(frozen=True, slots=True)
class _Hands:
    """What the tools do."""

    keeper: MemoryKeeper

    def _scope(self, context: ToolContext) -> Scope:
        return self.keeper.memories.scopes.of(context.session_key)

    async def search(self, context: ToolContext, text: str, tier: str, since: str, until: str) -> str:
        from nanobee.memory.search import FULL_TIERS, Query

        scope = self._scope(context)
        if len(text) > 2 and text.startswith("/") and text.endswith("/"):
            return await self._grep(scope, text[1:-1], tier)
        tiers = FULL_TIERS if tier == "all" else (Tier(tier),)
        first, last = self._day(since, is_last=False), self._day(until, is_last=True)
        found = await self.keeper.finder.find(scope, Query(text, tiers, first, last, MAX_FOUND))
        entries = [match.entry for match in found.matches.found]
        await self.keeper.note_use(scope, entries)
        rows = [self._show(entry) for entry in entries] or ["Nothing was found."]
        if not found.is_complete:
            rows.append("[The index is still being built: there may be more.]")
        return "\n".join(rows)

    def _day(self, text: str, *, is_last: bool) -> datetime | None:
        if not text.strip():
            return None
        from nanobee.memory.dates import find_spans

        clock = self.keeper.memories.clock
        spans = find_spans(text, clock.local(clock.now()).date())
        if not spans:
            raise ToolError(f"{text[:40]!r} is no day; write it as 2026-10-03")
        day = spans[0].last + timedelta(days=1) if is_last else spans[0].first
        local = datetime.combine(day, time())
        return local.astimezone() if clock.zone is None else local.replace(tzinfo=clock.zone)

    def _show(self, entry: Entry) -> str:
        clock = self.keeper.memories.clock
        stamp = clock.local(entry.at).strftime("%Y-%m-%d %H:%M")
        text = entry.text if len(entry.text) <= MAX_SHOWN_CHARS else f"{entry.text[: MAX_SHOWN_CHARS - 1]}…"
        doubt = "" if entry.is_trusted or UNVERIFIED in text else f" {UNVERIFIED}"
        source = f" [{entry.source}]" if entry.source else ""
        return f"#{entry.id} {stamp} {entry.tier}: {text}{doubt}{source}"

    async def _grep(self, scope: Scope, pattern: str, tier: str) -> str:
        from nanobee.memory.grep import grep

        files = await to_thread.run_sync(self._files, scope, tier)
        lines = await grep(pattern, files)
        rows = [f"{_name(line.path)}:{line.number}: {one_line(line.text)[:MAX_SHOWN_CHARS]}" for line in lines.found]
        rows = rows or ["Nothing was found."]
        if not lines.is_complete:
            rows.append("[Stopped: the time was up. A simpler pattern finds more.]")
        return "\n".join(rows)

    def _files(self, scope: Scope, tier: str) -> Sequence[Path]:
        from nanobee.memory.indexed import memory_files

        own = memory_files(self.keeper.memories.of(scope))
        paths = [file.path for file in own if tier in ("all", file.tier)]
        if tier in ("all", Tier.SESSION):
            paths += self.keeper.finder.session_files(scope)[:MAX_GREP_SESSIONS]
        return paths

    async def save(self, context: ToolContext, tier: str, text: str, expires: str) -> str:
        from nanobee.memory.expiry import read_expiry
        from nanobee.memory.transcript import said_in
        from nanobee.memory.trust import Origins

        text = one_line(text)
        if not any(character.isalnum() for character in text):
            raise ToolError("there is nothing to remember in an empty text")
        if len(text) > MAX_TEXT_CHARS:
            raise ToolError(
                f"that is too long for one entry ({len(text):,} characters, {MAX_TEXT_CHARS:,} are allowed)"
            )
        clock = self.keeper.memories.clock
        now = clock.now()
        expires_at = now + timedelta(days=self.keeper.settings.misc_days)
        if expires.strip():
            read = read_expiry(expires, clock)
            if read is None:
                raise ToolError(f"{expires[:40]!r} is no time to come; write 3d, 12h or a day as 2026-10-05")
            expires_at = read
        session = await self.keeper.sessions.load(context.session_key)
        lines = session.lines
        source = str(Source(context.session_key, *_range(session.turn_lines(context.turn) or lines[-1:])))
        is_trusted = Origins(said_in(lines)).is_trusted(text)
        shown = text if is_trusted or UNVERIFIED in text else f"{text} {UNVERIFIED}"
        scope = self._scope(context)

        def write() -> bool:
            memory = self.keeper.memories.of(scope)
            with self.keeper.memories.lock.hold(scope):
                if tier == Tier.IMPORTANT:
                    self._check_room(len(memory.facts.read()) + len(shown))
                    return memory.facts.add_fact(shown, source)
                if tier == Tier.DAILY:
                    return memory.daily.add(now, shown, source)
                return memory.misc.add(MiscNote(text, now, expires_at, source, is_trusted))

        is_new = await to_thread.run_sync(write)
        self.keeper.note_change(scope)
        until = f", until {clock.local(expires_at).strftime('%Y-%m-%d %H:%M')}" if tier == Tier.MISC else ""
        doubt = "" if is_trusted else " It is marked as unverified, since only a tool said so."
        return f"{'Remembered' if is_new else 'This was remembered already'} ({tier}{until}).{doubt}"

    def _check_room(self, chars: int) -> None:
        limit = self.keeper.settings.max_memory_chars
        if chars > limit * NEARLY_FULL:
            raise ToolError(
                f"MEMORY.md is full ({limit:,} characters): forget what is over with memory_forget, or save it as daily"
            )

    async def forget(self, context: ToolContext, what: str) -> str:
        what = what.strip().removeprefix("#")
        scope = self._scope(context)
        if what.isdecimal() and len(what) > 6:
            is_gone = await self.keeper.forget_entry(scope, int(what))
            return "It is forgotten." if is_gone else f"There is no entry #{what} here; memory_search shows the ids."
        if len(what) < MIN_CHARS or not any(character.isalnum() for character in what):
            raise ToolError("name what is to be forgotten by a text that stands in it")
        fitting = await to_thread.run_sync(self.keeper.entries_with, scope, what)
        if len(fitting) > MAX_FORGOTTEN:
            rows = "\n".join(self._show(entry) for entry in fitting[:MAX_FOUND])
            raise ToolError(f"{len(fitting)} entries say that; forget them by id, or with a more exact text:\n{rows}")
        try:
            gone = await self.keeper.forgetting.forget(scope, what, max_places=MAX_MODEL_PLACES)
        except TooWideError as error:
            raise ToolError(f"{error}; name more of what is to be forgotten") from None
        if not gone.places:
            return "Nothing here says that."
        return (
            f"Forgotten: {gone.facts} facts, {gone.notes} notes, {gone.history} entries of the history, "
            f"{gone.lines} lines of conversations. Do not repeat it."
        )


def _range(lines: Sequence[object]) -> tuple[int, int]:
    seqs = [getattr(line, "seq", 0) for line in lines] or [0]
    return seqs[0], seqs[-1]


def _name(path: Path) -> str:
    return path.name
