"""ChaosError: why a run of chaos cannot go on."""

from nanobee.errors import NanobeeError


class ChaosError(NanobeeError):
    """The gateway ends where nothing killed it, or does not end; or a log cannot be falsified as asked."""
