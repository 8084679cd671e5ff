"""Assembly of streamed tool calls, without I/O.

Servers disagree on what tells the calls of one answer apart: some number them and give no ids,
some give ids and number all of them 0, some give the id once and an empty one afterwards, some
send each call whole. So neither field is trusted alone.
"""

from dataclasses import dataclass, field

from nanobee.chat import ToolCall, ToolCallDelta
from nanobee.errors import MalformedAnswerError
from nanobee.providers.json_reading import read_json
from nanobee.providers.surrogates import clean_json_text

CUT_ARGUMENTS = "{"
"""Stands for the arguments of a call that was cut before they came: no JSON, so that nobody runs it."""


@dataclass(frozen=True, slots=True)
class CallFragment:
    """One streamed piece of a tool call; what the server left out is None or empty."""

    index: int | None = None
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class _OpenCall:
    key: int
    index: int | None
    id: str
    name: str
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def is_followed_by(self, fragment: CallFragment) -> bool:
        """Whether a fragment with a name begins another call: this one's arguments are a whole object."""
        if not (fragment.name and self.name and fragment.arguments.strip()):
            return False
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        return isinstance(read_json(self.arguments), dict)


class ToolCallAssembler:
    """Collects the fragments of one completion into its calls, in the order in which they began."""

    def __init__(self) -> None:
        self._calls: list[_OpenCall] = []

    def feed(self, fragment: CallFragment) -> ToolCallDelta:
        """Add a fragment to the call that it belongs to."""
        call = self._find(fragment)
        if call is None:
            call = _OpenCall(len(self._calls), fragment.index, fragment.id, "")
            self._calls.append(call)
        call.id = call.id or fragment.id
        # Some servers repeat the name with each fragment.
        name = "" if call.name else fragment.name
        call.name = call.name or fragment.name
        if fragment.arguments:
            call.pieces.append(fragment.arguments)
        return ToolCallDelta(call.key, name, fragment.arguments)

    def calls(self, *, is_cut: bool = False) -> dict[int, ToolCall]:
        """The calls by their deltas' keys, each with an id of its own and `{}` for arguments that were left out.

        A call that came twice, id and all, is one. `is_cut` says that the output limit ended the
        answer: arguments that are missing then were not left out, and stay broken.

        Raises:
            MalformedAnswerError: a call has no name.
        """
        taken: set[str] = set()
        seen: set[tuple[str, str, str]] = set()
        calls: dict[int, ToolCall] = {}
        for call in self._calls:
            if not call.name:
                raise MalformedAnswerError("The model server sent a tool call without a name.")
            as_sent = (call.id, call.name, call.arguments)
            if call.id and as_sent in seen:
                continue
            seen.add(as_sent)
            call_id = free_id(call.id, call.key, taken)
            taken.add(call_id)
            arguments = clean_json_text(call.arguments)
            if not arguments.strip():
                arguments = CUT_ARGUMENTS if is_cut else "{}"
            calls[call.key] = ToolCall(call_id, call.name, arguments)
        return calls

    def _find(self, fragment: CallFragment) -> _OpenCall | None:
        call = self._find_by_id(fragment) if fragment.id else self._find_by_index(fragment)
        return None if call is None or call.is_followed_by(fragment) else call

    def _find_by_id(self, fragment: CallFragment) -> _OpenCall | None:
        same_id = [call for call in self._calls if call.id == fragment.id]
        for call in reversed(same_id):
            if call.index == fragment.index:
                return call
        if same_id:
            # Another index: a further call if it brings a name, else a server that counts fragments.
            return None if fragment.name else same_id[-1]
        latest = self._latest(fragment.index)
        id_is_late = latest is not None and not latest.id and not (fragment.name and latest.name)
        return latest if id_is_late else None

    def _find_by_index(self, fragment: CallFragment) -> _OpenCall | None:
        call = self._latest(fragment.index)
        is_other = call is not None and fragment.name and call.name and call.name != fragment.name
        return None if is_other else call

    def _latest(self, index: int | None) -> _OpenCall | None:
        for call in reversed(self._calls):
            if index is None or call.index == index:
                return call
        return None


def free_id(wanted: str, key: int, taken: set[str]) -> str:
    """The server's id, or where that is empty or taken one made from the call's position."""
    call_id = wanted or f"call_{key}"
    while call_id in taken:
        key += 1
        call_id = f"{wanted or 'call'}_{key}"
    return call_id
