"""What servers of the chat-completions API want back unchanged: signed reasoning, signed calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nanobee.chat import Echo
from nanobee.messages import Json, JsonObject

_GROWING = ("text", "summary")
"""Fields of a reasoning detail that come in fragments."""


@dataclass(frozen=True, slots=True)
class OpenAIEcho:
    """An echo, read."""

    details: Sequence[Json] = ()
    """`reasoning_details` as they came."""
    call_extras: Mapping[int, Json] = field(default_factory=dict)
    """`extra_content` by the call's place."""


def read_echo(echo: Echo | None, source: str) -> OpenAIEcho:
    """What an echo holds for the server `source`; nothing where another one made it."""
    if echo is None or echo.source != source or not isinstance(echo.data, Mapping):
        return OpenAIEcho()
    details, extras = echo.data.get("details"), echo.data.get("call_extras")
    return OpenAIEcho(
        details if isinstance(details, list) else (),
        {int(place): extra for place, extra in extras.items()} if isinstance(extras, Mapping) else {},
    )


class EchoCollector:
    """Collects one answer's echo from its chunks."""

    def __init__(self) -> None:
        self._details: list[dict[str, Json]] = []
        self._call_extras: dict[int, JsonObject] = {}

    def feed_details(self, details: Json) -> str:
        """Take `reasoning_details`; returns the readable text in them."""
        texts: list[str] = []
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, Mapping):
                texts += (value for key in _GROWING if isinstance(value := detail.get(key), str))
                self._add(detail)
        return "".join(texts)

    def note_call_extra(self, key: int, extra: Json) -> None:
        """Take a call's `extra_content`."""
        if isinstance(extra, Mapping):
            self._call_extras.setdefault(key, extra)

    def echo(self, source: str, keys: Sequence[int]) -> Echo | None:
        """The echo, None where there is nothing to send back. `keys` are the calls that are kept."""
        extras = {str(place): self._call_extras[key] for place, key in enumerate(keys) if key in self._call_extras}
        data: dict[str, Json] = {}
        if self._details:
            data["details"] = self._details
        if extras:
            data["call_extras"] = extras
        return Echo(source, data) if data else None

    def _add(self, detail: JsonObject) -> None:
        known = self._find(detail)
        if known is None:
            self._details.append(dict(detail))
            return
        for key, value in detail.items():
            old = known.get(key)
            if key in _GROWING and isinstance(old, str) and isinstance(value, str):
                known[key] = old + value
            elif value is not None:
                known[key] = value

    def _find(self, detail: JsonObject) -> dict[str, Json] | None:
        """The detail that a fragment goes on with; encrypted ones come whole."""
        if not any(key in detail for key in _GROWING) and "signature" not in detail:
            return None
        last = self._details[-1] if self._details else None
        return last if last and all(last.get(key) == detail.get(key) for key in ("type", "index")) else None
