"""Orphans: processes that tools started and that outlived the end of the gateway."""

import logging
from collections.abc import Iterator, Sequence

from nanobee.bus.lines import Line, LineKind
from nanobee.sessions.store import SessionStore
from nanobee.tools.process_group import ProcessGroup

logger = logging.getLogger(__name__)


async def end_orphans(sessions: SessionStore, turns: Sequence[tuple[str, str]]) -> None:
    """End what still runs of commands without a result in these turns (session key, turn), before any is resumed."""
    for session_key, turn in turns:
        session = await sessions.load(session_key)
        for group in open_groups(session.turn_lines(turn)):
            if group.is_found_again():
                logger.warning("%s: what outlived the last stop is ended: process group %d", session_key, group.id)
                await group.end()


def open_groups(lines: Sequence[Line]) -> Iterator[ProcessGroup]:
    """The process groups of a turn's calls that have no result."""
    answered = {line.data.get("tool_call_id") for line in lines}
    for line in lines:
        call_id = line.data.get("call")
        if line.kind == LineKind.TOOL_STARTED and isinstance(call_id, str) and call_id not in answered:
            group = ProcessGroup.from_json(line.data.get("process"), call_id)
            if group is not None:
                yield group
