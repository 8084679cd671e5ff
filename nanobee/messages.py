"""People's side: what was said in a chat, what is said back, and where.

`text` is what people read and write; what a model reads and writes is in `nanobee.chat`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

Json = str | int | float | bool | None | Mapping[str, "Json"] | Sequence["Json"]
"""A JSON value."""
JsonObject = Mapping[str, Json]
"""A JSON object, as a wire payload that has not been validated."""

RESERVED_CHANNELS = frozenset({"agent", "cron", "heartbeat"})
"""First words of session keys that belong to workers, jobs and ticks, never to a channel."""


def encode_key_part(text: str) -> str:
    """Percent-code `%` and `:` so that a chat id or thread can stand between colons."""
    return text.replace("%", "%25").replace(":", "%3A")


def decode_key_part(text: str) -> str:
    """The inverse of `encode_key_part`."""
    return text.replace("%3A", ":").replace("%25", "%")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a message goes: a channel instance, a chat on it, and a thread or topic in the chat."""

    channel: str
    chat_id: str
    thread: str | None = None

    @property
    def session_key(self) -> str:
        """`channel:chat_id[:thread]`, with `:` and `%` percent-coded inside the parts."""
        parts = [self.channel, encode_key_part(self.chat_id)]
        if self.thread is not None:
            parts.append(encode_key_part(self.thread))
        return ":".join(parts)

    @classmethod
    def from_session_key(cls, key: str) -> "Address":
        """Read `channel:chat_id[:thread]` back.

        Raises:
            ValueError: the key has not two or three parts.
        """
        parts = key.split(":")
        if len(parts) not in (2, 3) or not parts[0]:
            raise ValueError(f"{key!r} is not a session key (channel:chat_id[:thread])")
        thread = decode_key_part(parts[2]) if len(parts) == 3 else None
        return cls(parts[0], decode_key_part(parts[1]), thread)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file with a message, by reference: the bytes stay on disk."""

    kind: str
    """`image`, `audio`, `video` or `file`."""
    name: str
    """File name for people, already cleaned of path parts."""
    path: str
    """Where the bytes are, as the file tools name it: `media/…` for what was received, else inside the workspace."""
    mime_type: str = "application/octet-stream"
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class InboundMessage:
    """What somebody said in a chat, complete: downloads done, quotes read."""

    address: Address
    sender_id: str
    """The platform's own id of the person; names are for reading only and grant nothing."""
    text: str
    received_at: datetime
    """Aware UTC."""
    sender_name: str = ""
    source_id: str | None = None
    """The platform's id of this message, for replies, quotes and edits."""
    reply_to: str | None = None
    """`source_id` of the message that this one quotes."""
    quoted_text: str | None = None
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class OutboundMessage:
    """What the gateway says in a chat; `text` is Markdown as models write it."""

    address: Address
    text: str
    reply_to: str | None = None
    """`source_id` of the inbound message that this answers."""
    attachments: tuple[Attachment, ...] = ()


class PartKind(StrEnum):
    """Why an outbound part is sent."""

    ANSWER = "answer"
    """The final text of a turn."""
    NOTICE = "notice"
    """One plain line of the gateway's own: stopped, failed, command output."""
    MESSAGE = "message"
    """Said by the agent through its `message` tool while a turn runs."""
    QUESTION = "question"
    """A suspension that waits for a person."""


@dataclass(frozen=True, slots=True)
class OutboundPart:
    """One platform message of an outbound message, as a channel's `send` gets it."""

    id: int
    """The outbox row."""
    address: Address
    text: str
    kind: PartKind
    part: int = 0
    """Counts from 0; part k+1 is not sent before part k."""
    parts: int = 1
    turn: str | None = None
    reply_to: str | None = None
    attachments: tuple[Attachment, ...] = ()
    idempotency_key: str = ""
    """The same for each try of this row, for platforms that take one."""
    attempt: int = 1
    handle: tuple[str, ...] = ()
    """Platform ids of the streamed message that this text completes: edit it instead of sending a new one."""

    @property
    def is_last(self) -> bool:
        """Whether the message is complete with this part."""
        return self.part == self.parts - 1


@dataclass(frozen=True, slots=True)
class LivePart:
    """The platform message that a stream grows, as a channel's `stream` gets it."""

    address: Address
    turn: str
    part: int = 0
    reply_to: str | None = None
    activity: str | None = field(default=None, compare=False)
    """What the agent does at the moment (`read_file notes.md`), None while it writes."""
    handle: tuple[str, ...] = ()
    """What `stream` returned for the turn's last frame: the platform message to edit; empty for the first."""
