"""Secrets: the values that no log line, error or status may show, and their removal from text."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

REDACTED = "[secret]"
MIN_SECRET_CHARS = 6
"""A shorter value is no secret worth the name, and taking it out would garble every text."""

SECRET_NAME = re.compile(r"(^|_)(TOKEN|KEY|APIKEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
"""Names of keys and environment variables whose values are secrets."""

SECRET_SHAPES = re.compile(
    r"(?<![\w-])sk-[\w-]{16,}"  # API keys
    r"|\d{6,}:[\w-]{30,}"  # Telegram bot tokens
    r"|(?<=Bearer )[^\s'\",]{6,}"
    r"|(?<=://)[^\s/@:'\"]*:[^\s/@'\"]+(?=@)"  # user and password of an address
)
"""Secrets that are told by their shape, also where nobody named them."""


class SecretSet:
    """A growing set of secret values."""

    def __init__(self) -> None:
        self._forms: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def add(self, values: Iterable[str]) -> None:
        """Take these out of every text from now on, also percent-coded and with escapes."""
        for value in values:
            value = value.strip()
            if len(value) >= MIN_SECRET_CHARS:
                self._forms |= {value, quote(value, safe=""), quote(value), repr(value)[1:-1]}
                self._forms |= {line for line in value.splitlines() if len(line) >= MIN_SECRET_CHARS}
        longest_first = sorted(self._forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def redact(self, text: str) -> str:
        """`text` without the secrets that are known, and without what looks like one."""
        if self._pattern is not None:
            text = self._pattern.sub(REDACTED, text)
        return SECRET_SHAPES.sub(REDACTED, text)


_known = SecretSet()


def remember_secrets(values: Iterable[str]) -> None:
    """Add to the secrets of this process: they are of one configuration, as its log is one."""
    _known.add(values)


def redact(text: str) -> str:
    """`text` without this process's secrets."""
    return _known.redact(text)


def is_secret_name(name: str) -> bool:
    """Whether a key or variable of this name holds a secret (`api_key`, `TELEGRAM_TOKEN`)."""
    return SECRET_NAME.search(name) is not None


def environment_secrets(environ: Mapping[str, str]) -> list[str]:
    """Values of the environment whose names say that they are secrets."""
    return [value for name, value in environ.items() if is_secret_name(name)]


def literal_secrets(values: object) -> list[str]:
    """Texts in a configuration that stand under a secret's name, other than `${NAME}` references."""
    if isinstance(values, Mapping):
        found = [
            text
            for key, text in values.items()
            if isinstance(text, str) and text and "${" not in text and is_secret_name(str(key))
        ]
        return found + [text for inner in values.values() for text in literal_secrets(inner)]
    if isinstance(values, list):
        return [text for inner in values for text in literal_secrets(inner)]
    return []
