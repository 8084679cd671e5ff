"""Text for people, in English and Chinese, chosen by the setting `language`."""

from dataclasses import dataclass
from typing import Literal

Language = Literal["en", "zh"]


@dataclass(frozen=True, slots=True)
class Phrase:
    """One sentence in each language, with `str.format` fields of the same names in both."""

    en: str
    zh: str

    def say(self, language: Language, **values: object) -> str:
        """The sentence in `language`, with its fields filled in."""
        return (self.zh if language == "zh" else self.en).format(**values)
