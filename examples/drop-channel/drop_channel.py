"""A channel of files: `in/ann/question.txt` is what Ann says, `out/ann/00000007.md` is what she is told.

Give each file a name of its own, and move it into place when it is complete.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import anyio
from anyio.to_thread import run_sync

from nanobee.channel import Arrival, Channel, ChannelState, ChannelStatus, Inbox, lane_of
from nanobee.config import ChannelSettings
from nanobee.errors import BusError, NotSentError
from nanobee.messages import Address, InboundMessage, OutboundPart


class DropSettings(ChannelSettings):
    """The keys of a channel of kind `drop`, beside `allow_from`, which every channel has."""

    kind: Literal["drop"] = "drop"
    folder: Path
    poll_seconds: float = 0.5


class DropChannel(Channel[DropSettings]):
    """Looks into a folder for new files, and writes answers into another one."""

    settings_type = DropSettings

    def __init__(self, name: str, settings: DropSettings) -> None:
        super().__init__(name, settings)
        self._status = ChannelStatus(ChannelState.STARTING)

    async def run(self, inbox: Inbox) -> None:
        while True:
            try:
                found = await run_sync(self._look)
                self._status = ChannelStatus(ChannelState.UP)
                if found:
                    await inbox.receive(*found.values())
                    await run_sync(self._forget, list(found))  # only now: what is stored needs no file any more
            except (OSError, BusError) as error:
                self._status = ChannelStatus(ChannelState.DOWN, str(error))
            await anyio.sleep(self.settings.poll_seconds)

    async def send(self, part: OutboundPart) -> tuple[str, ...]:
        folder = self.settings.folder.expanduser() / "out" / part.address.chat_id
        try:
            return (await run_sync(self._write, folder, part),)
        except OSError as error:
            raise NotSentError(f"{folder} cannot be written: {error.strerror}") from error

    def status(self) -> ChannelStatus:
        return self._status

    def _look(self) -> dict[Path, Arrival]:
        """The files that wait, oldest first, each as an arrival."""
        folder = self.settings.folder.expanduser() / "in"
        folder.mkdir(parents=True, exist_ok=True)
        stamped = sorted((file.stat().st_mtime_ns, file) for file in folder.glob("*/*.txt"))
        return {file: self._read(file, stamp) for stamp, file in stamped}

    def _read(self, file: Path, stamp: int) -> Arrival:
        sender = file.parent.name
        address = Address(self.name, sender)
        text = file.read_text(encoding="utf-8", errors="replace").strip()
        written_at = datetime.fromtimestamp(stamp / 1e9, UTC)
        return Arrival(
            event_key=f"{sender}/{file.name}@{stamp}",  # the same file found again has the same key
            session_key=address.session_key,
            sender_id=sender,
            lane=lane_of(text),
            raw={},
            source_id=file.name,
            message=InboundMessage(address, sender, text, written_at, source_id=file.name),
        )

    def _forget(self, files: list[Path]) -> None:
        for file in files:
            file.unlink(missing_ok=True)

    def _write(self, folder: Path, part: OutboundPart) -> str:
        target = folder / f"{part.id:08}.md"  # the same part sent again has the same name
        folder.mkdir(parents=True, exist_ok=True)
        hidden = target.with_suffix(".part")
        hidden.write_text(part.text, encoding="utf-8", errors="replace")
        hidden.replace(target)
        return target.name
