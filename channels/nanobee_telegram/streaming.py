"""Streamer: shows answers while they grow, as a draft in a private chat, elsewhere as a message that is edited.

A draft leaves nothing behind, so nobody has to remember it. A message stays: it is sent only
where its id is given to the bus at once, and the final text edits it. Frames are left out rather
than queued, because the newest text is all that anybody wants to see.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import anyio

from nanobee.messages import Address, Json, JsonObject, LivePart
from nanobee_telegram.faults import ApiFault
from nanobee_telegram.frames import draft_id, frame_text
from nanobee_telegram.parameters import draft_parameters, edit_parameters, is_private, message_id_of, message_parameters
from nanobee_telegram.settings import Streaming

FIRST_FRAME_SECONDS = 0.7
"""How long an answer grows before it is shown: a short one costs no call but its own."""
DRAFT_SECONDS = 1.0
PRIVATE_EDIT_SECONDS = 1.5
GROUP_EDIT_SECONDS = 3.0
"""Pauses between frames. Edits count as messages: too many of them hold the final text up."""
QUICK_FRAMES = 8
"""After so many edits of one answer the pauses are twice as long."""
KEEP_ALIVE_SECONDS = 20.0
"""A draft vanishes after 30 s; while a tool runs it is shown again."""
MAX_SILENCE_SECONDS = 600.0
"""After so long without news an answer under way is forgotten."""
TICK_SECONDS = 0.5
FAULT_SECONDS = 5.0
"""A chat gets no frame for so long after one that failed."""

logger = logging.getLogger(__name__)


class FrameApi(Protocol):
    """The calls that frames make; the first two end soon in any case, and may be repeated freely."""

    async def show_draft(self, parameters: JsonObject) -> None: ...

    async def show_edit(self, parameters: JsonObject) -> None: ...

    async def send_message(self, parameters: JsonObject) -> Json: ...


@dataclass(slots=True)
class _Growing:
    """One answer under way."""

    part: LivePart
    text: str
    due_at: float
    """When the next frame may be shown."""
    heard_at: float = 0.0
    """When there was news of it last."""
    shown: str = ""
    shown_at: float = 0.0
    frames: int = 0
    is_given_up: bool = False
    lock: anyio.Lock = field(default_factory=anyio.Lock)


class Streamer:
    """Decides when a chat sees what, and makes the calls. One object a channel."""

    def __init__(
        self,
        channel: str,
        streaming: Streaming,
        open_api: Callable[[], FrameApi],
        now: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._channel = channel
        self._streaming = streaming
        self._open_api = open_api
        self._now = now
        self._growing: dict[Address, _Growing] = {}
        self._quiet_until: dict[str, float] = {}
        self._no_drafts: set[str] = set()
        self._has_growing = anyio.Event()

    async def show(self, part: LivePart, text: str) -> tuple[str, ...]:
        """Show the text, or leave it out for now; return the ids of the message that the final text has to edit."""
        if self._streaming == "off":
            return part.handle
        now = self._now()
        growing = self._growing.get(part.address)
        if growing is None or growing.part.turn != part.turn:
            growing = self._growing[part.address] = _Growing(part, text, now + FIRST_FRAME_SECONDS)
            self._has_growing.set()
        growing.part, growing.text, growing.heard_at = part, text, now
        if self._may_show(growing):
            return await self._frame(growing)
        return part.handle

    async def close(self, address: Address) -> None:
        """Something is sent to the chat: wait for a frame under way, and show no more of that answer."""
        growing = self._growing.pop(address, None)
        if growing is not None:
            growing.is_given_up = True
            async with growing.lock:
                pass

    async def run(self) -> None:
        """While tools run, and nobody calls `show`: show what was left out, and keep drafts alive."""
        while True:
            await self._has_growing.wait()
            await anyio.sleep(TICK_SECONDS)
            await self.tick()

    async def tick(self) -> None:
        """Look through the answers under way once."""
        now = self._now()
        self._growing = {a: g for a, g in self._growing.items() if now - g.heard_at < MAX_SILENCE_SECONDS}
        self._quiet_until = {chat: until for chat, until in self._quiet_until.items() if until > now}
        if not self._growing:
            self._has_growing = anyio.Event()
        async with anyio.create_task_group() as tasks:
            for growing in self._growing.values():
                # A message that is not there yet must not be sent from here: the bus would not know of it.
                leaves_nothing = growing.part.handle or self._is_draft(growing)
                if growing.part.activity is not None and leaves_nothing and self._may_show(growing):
                    tasks.start_soon(self._frame, growing)

    def _is_draft(self, growing: _Growing) -> bool:
        address = growing.part.address
        if growing.part.handle or self._streaming == "edit":
            return False
        return is_private(address) and address.chat_id not in self._no_drafts

    def _may_show(self, growing: _Growing) -> bool:
        now = self._now()
        if growing.is_given_up or growing.lock.locked() or now < growing.due_at:
            return False
        if self._streaming == "draft" and not (growing.part.handle or self._is_draft(growing)):
            return False
        return now >= self._quiet_until.get(growing.part.address.chat_id, 0.0)

    async def _frame(self, growing: _Growing) -> tuple[str, ...]:
        """Show the newest state; return the ids of the message that stays."""
        async with growing.lock:
            part, is_draft, now = growing.part, self._is_draft(growing), self._now()
            text = frame_text(growing.text, part.activity)
            # An activity alone is not worth a message that rings a bell.
            is_empty = not text if is_draft or part.handle else not growing.text.strip()
            is_fading = is_draft and now - growing.shown_at >= KEEP_ALIVE_SECONDS
            if is_empty or (text == growing.shown and not is_fading):
                return part.handle
            try:
                handle = await self._call(part, text, is_draft)
                growing.shown, growing.shown_at = text, now
            except ApiFault as fault:
                self._take_fault(growing, fault, is_draft)
                handle = part.handle
            growing.frames += 1
            growing.due_at = now + _pause(growing, is_draft)
            return handle

    async def _call(self, part: LivePart, text: str, is_draft: bool) -> tuple[str, ...]:
        api = self._open_api()
        if is_draft:
            await api.show_draft(draft_parameters(part.address, draft_id(part.turn), text))
            return ()
        if not part.handle:
            return message_id_of(await api.send_message(message_parameters(part.address, text, part.reply_to)))
        try:
            await api.show_edit(edit_parameters(part.address, part.handle[0], text))
        except ApiFault as fault:
            if not fault.is_unmodified:
                raise
        return part.handle

    def _take_fault(self, growing: _Growing, fault: ApiFault, is_draft: bool) -> None:
        """Decide what a frame that failed means for those to come; the final text comes in any case."""
        logger.info("channel %s: a growing answer was not shown: %s", self._channel, fault)
        chat_id = growing.part.address.chat_id
        may_stand_there = not (is_draft or growing.part.handle or fault.is_not_sent)
        if is_draft and fault.is_refused and fault.status in (400, 404):
            # This chat, or an older server, has no drafts.
            self._no_drafts.add(chat_id)
        elif fault.is_refused or may_stand_there:
            growing.is_given_up = True
        wait = fault.retry_after_seconds
        self._quiet_until[chat_id] = self._now() + (FAULT_SECONDS if wait is None else wait)


def _pause(growing: _Growing, is_draft: bool) -> float:
    if is_draft:
        return DRAFT_SECONDS
    pause = PRIVATE_EDIT_SECONDS if is_private(growing.part.address) else GROUP_EDIT_SECONDS
    return pause if growing.frames < QUICK_FRAMES else 2 * pause
