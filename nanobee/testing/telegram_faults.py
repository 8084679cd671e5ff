"""How the fake Telegram's calls go wrong, by script."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import anyio

from nanobee.messages import Json

ANY_METHOD = "*"


class FaultKind(StrEnum):
    """How a call goes wrong."""

    REFUSE = "refuse"
    """A well-formed answer with `ok: false`."""
    PAGE = "page"
    """Not Telegram's answer: a proxy's HTML page."""
    CUT_BEFORE = "cut_before"
    """The connection ends and the call had no effect."""
    CUT_AFTER = "cut_after"
    """The connection ends and the call had its effect."""
    HANG = "hang"
    """The call has its effect, and no answer comes until `heal`."""


@dataclass
class Fault:
    """What the next calls of a method meet."""

    method: str
    kind: FaultKind
    times: int = 1
    """How many calls; -1 for all until `heal`."""
    status: int = 200
    text: str = ""
    parameters: Mapping[str, Json] = field(default_factory=dict)


class FaultScript:
    """The faults to come; of those that fit a call, the oldest is met."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._healed = anyio.Event()

    def fail(self, method: str, status: int, text: str, *, times: int = 1, **parameters: Json) -> None:
        """Answer with an error; `parameters` are such as `retry_after` and `migrate_to_chat_id`."""
        self._faults.append(Fault(method, FaultKind.REFUSE, times, status, text, parameters))

    def page(self, method: str, status: int, text: str = "<html>Bad Gateway</html>", *, times: int = 1) -> None:
        """Answer as a proxy does that cannot reach Telegram."""
        self._faults.append(Fault(method, FaultKind.PAGE, times, status, text))

    def cut(self, method: str, *, after_delivery: bool, times: int = 1) -> None:
        """End the connection instead of an answer."""
        kind = FaultKind.CUT_AFTER if after_delivery else FaultKind.CUT_BEFORE
        self._faults.append(Fault(method, kind, times))

    def hang(self, method: str, *, times: int = 1) -> None:
        """Do as asked, and answer only after `heal`."""
        self._faults.append(Fault(method, FaultKind.HANG, times))

    def heal(self) -> None:
        """End all faults; calls that hang get their answer."""
        self._faults.clear()
        healed, self._healed = self._healed, anyio.Event()
        healed.set()

    async def wait_healed(self) -> None:
        """Hang until `heal`."""
        await self._healed.wait()

    def take(self, method: str) -> Fault | None:
        """The fault that this call meets."""
        for fault in self._faults:
            if fault.times != 0 and fault.method in (method, ANY_METHOD):
                fault.times -= fault.times > 0
                return fault
        return None
