"""Every error that nanobee raises on purpose, sorted by whose fault it is.

NanobeeError
├── ConfigError                 the user's: a file, a key or an environment value is wrong
├── StateError                  the machine's or ours: the state folder cannot be used
│   ├── HeldError               another process holds the state folder
│   ├── BusError                a transition of the bus failed (disk full, damaged file)
│   └── StaleTurnError          this turn was stopped or taken over; its writer must end
├── ModelFileError              the machine's: the embedded model's file cannot be fetched or stored
├── PluginError                 a package's: found by entry point, but cannot be loaded
├── ChannelError                a chat platform's
│   ├── ChannelAuthError        the platform refuses our credentials: the channel is down
│   └── DeliveryError           one message could not be handed over
│       ├── NotSentError        it surely did not arrive: try again
│       ├── UnknownOutcomeError it may have arrived: a resend may double it
│       └── RefusedError        the platform will never take it: do not try again
├── ProviderError               a model server's
│   ├── ProviderConnectionError nothing answered at its address
│   ├── ProviderTimeoutError    first token, idle or total limit passed
│   ├── ProviderAuthError       the key is wrong or missing
│   ├── RateLimitError          too many calls, or out of quota
│   ├── ContextLengthError      the request is longer than the model's window
│   ├── RequestRefusedError     the server refuses this request as it is
│   ├── ServerFaultError        5xx: the server's own trouble
│   └── MalformedAnswerError    what came back is not this API's format
├── StructuredError             the model's: no valid structured answer on any rung
└── ToolError                   the model's: shown to it as the result of its tool call
"""

from collections.abc import Sequence
from dataclasses import dataclass


class NanobeeError(Exception):
    """Root of the tree. Its text is fit for people: no secret, no markup, no traceback."""


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One fault in the configuration: where it stands and what is wrong with it.

    `reason` is built from marks and locations, never from a parser's own text, because
    parsers quote values and a value may be a secret.
    """

    source: str
    """A file's path, or the name of an environment variable."""
    path: str
    """Dotted key path (`channels.telegram.token`), empty where the fault has none."""
    reason: str
    line: int | None = None
    """First line is 1."""

    def __str__(self) -> str:
        where = self.source if self.line is None else f"{self.source}:{self.line}"
        return ": ".join(part for part in (where, self.path, self.reason) if part)


class ConfigError(NanobeeError):
    """The configuration cannot be used. The start is refused; nothing was changed."""

    def __init__(self, problems: Sequence[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class StateError(NanobeeError):
    """The state folder cannot be used."""


class HeldError(StateError):
    """Another process holds the state folder; `pid` is None where it could not be read."""

    def __init__(self, message: str, pid: int | None) -> None:
        self.pid = pid
        super().__init__(message)


class BusError(StateError):
    """A transition of the bus failed; nothing of it was stored."""


class StaleTurnError(StateError):
    """The turn's epoch has passed: it was stopped or taken over, and writes no more."""


class ModelFileError(NanobeeError):
    """The embedded model's file cannot be fetched or stored; what was there before is untouched."""


class PluginError(NanobeeError):
    """A plugin was named or found, but it cannot be loaded."""


class ChannelError(NanobeeError):
    """A chat platform failed us."""


class ChannelAuthError(ChannelError):
    """The platform refuses our credentials; trying again does not help."""


class DeliveryError(ChannelError):
    """One outbound part could not be handed over."""


class NotSentError(DeliveryError):
    """It surely did not arrive. `retry_after_seconds` is the platform's own wait, if it gave one."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


class UnknownOutcomeError(DeliveryError):
    """The connection ended during the send: the message may stand in the chat."""


class RefusedError(DeliveryError):
    """The platform will never take it: blocked, chat gone, content refused."""


class ProviderError(NanobeeError):
    """A model server failed us."""


class ProviderConnectionError(ProviderError):
    """Nothing answered at the provider's address, or the connection broke."""


class ProviderTimeoutError(ProviderError):
    """A time-out by name passed. `limit` is its setting's name, such as `idle_timeout_seconds`."""

    def __init__(self, message: str, limit: str = "") -> None:
        self.limit = limit
        super().__init__(message)


class ProviderAuthError(ProviderError):
    """The API key is wrong, missing or has no right to the model."""


class RateLimitError(ProviderError):
    """Too many calls. `retry_after_seconds` is the server's own wait, if it gave one."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


class ContextLengthError(ProviderError):
    """The request is longer than the model's window."""


class RequestRefusedError(ProviderError):
    """The server refuses this request as it is; the same request will be refused again.

    `is_missing`: the address or the model does not exist there, so that no other request helps either.
    """

    def __init__(self, message: str, *, is_missing: bool = False) -> None:
        self.is_missing = is_missing
        super().__init__(message)


class ServerFaultError(ProviderError):
    """The server answered 5xx."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


class MalformedAnswerError(ProviderError):
    """What came back is not this API's format: HTML, cut JSON, an empty stream."""


class StructuredError(NanobeeError):
    """The model gave no valid structured answer on any rung of the ladder."""


class ToolError(NanobeeError):
    """A tool's refusal, worded for the model: what went wrong and what it can do instead."""
