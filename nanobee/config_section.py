"""What every section of the configuration is made of: strict models, refusals, and the forms of names."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

from nanobee.phrases import Phrase

NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,31}$"
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, strict=True)]
"""An instance's name: a channel's or a provider's, as it stands in session keys."""

MODEL_FORM = Phrase(
    'a model is written "provider/model", for example "main/gpt-4o-mini"',
    '模型写作 "provider/model"，例如 "main/gpt-4o-mini"',
)
NO_PRESET = Phrase(
    "model or fallbacks name a preset that `models` does not have; a model is written provider/model",
    "model 或 fallbacks 指定的预设不在 models 中；模型写作 provider/model",
)


class SettingError(ValueError):
    """A validator's refusal, in both languages. Its fields must not hold the value: it may be a secret."""

    def __init__(self, phrase: Phrase, **fields: object) -> None:
        self.phrase = phrase
        self.fields = fields
        super().__init__(phrase.say("en", **fields))


class StrictModel(BaseModel):
    """Base of every settings model: unknown keys and wrong types are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


def is_model_label(text: str) -> bool:
    """Whether `text` has the form `provider/model`."""
    provider, slash, name = text.partition("/")
    return bool(provider.strip() and slash and name.strip())
