"""message: say something in a chat while a turn runs."""

from nanobee.errors import ToolError
from nanobee.messages import RESERVED_CHANNELS, Address, OutboundMessage
from nanobee.tools.decorator import tool
from nanobee.tools.tool import ToolContext, ToolOutput

MAX_MESSAGE_CHARS = 20_000
"""The longest text of one call; a channel cuts it into the parts that its platform takes."""


@tool(idempotent=True)
async def message(context: ToolContext, text: str, to: str | None = None) -> ToolOutput:
    """Send a message before your answer, or to another chat. Your answer itself is sent without this tool.

    Args:
        text: Markdown.
        to: Session key of another chat (`channel:chat_id`); this chat unless given.
    """
    text = text.replace("\x00", "\ufffd")
    if not text.strip():
        raise ToolError("text is empty; nothing was sent")
    if len(text) > MAX_MESSAGE_CHARS:
        raise ToolError(f"text has {len(text):,} characters; {MAX_MESSAGE_CHARS:,} are allowed. Nothing was sent")
    address = _address(context, to)
    return ToolOutput(f"Sent to {address.session_key}.", (OutboundMessage(address, text),))


def _address(context: ToolContext, to: str | None) -> Address:
    own = context.address
    others = ", ".join(context.reachable) or "no other chat"
    if not to or to == own.session_key:
        if own.channel in RESERVED_CHANNELS:
            raise ToolError(f"this turn has no chat of its own; name one in `to` ({others})")
        return own
    if to not in context.reachable:
        raise ToolError(f"{to[:200]!r} is not a chat that you may write to from here ({others}); nothing was sent")
    return Address.from_session_key(to)
