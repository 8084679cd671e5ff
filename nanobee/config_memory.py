"""The section `memory` of the configuration."""

import re
from enum import StrEnum
from typing import Annotated

from pydantic import Field, Strict, field_validator

from nanobee.config_section import MODEL_FORM, NAME_PATTERN, SettingError, StrictModel, is_model_label


class MemoryScope(StrEnum):
    """How far the owner's memory reaches. Groups and other people have their own in each case."""

    PERSON = "person"
    """All private chats of the owner share one."""
    CHAT = "chat"
    """The terminal has one, each private chat of the owner has its own."""


class MemorySettings(StrictModel):
    """What is remembered, and for how long."""

    scope: Annotated[MemoryScope, Strict(False)] = MemoryScope.PERSON
    model: str | None = None
    """Writes the memory: `provider/model` or a preset; None takes the agent's."""
    consolidate_after_tokens: int = Field(default=12_000, ge=50)
    """Of conversation that is in no memory yet; half of the model's window, where that is less."""
    max_calls_per_day: int = Field(default=300, ge=0)
    """Model calls for memory, over all conversations."""
    max_memory_chars: int = Field(default=12_000, ge=500, le=24_000)
    """Of MEMORY.md, which stands in every prompt; past it the model is asked to condense."""
    daily_days: int = Field(default=14, ge=2)
    """How long a day's notes stand alone, before they are folded into HISTORY.md."""
    misc_days: int = Field(default=7, ge=1)
    """How long a short-lived note is kept that names no date of its own."""
    recall: bool = True
    """Whether lines of memory that fit a message are put beside it."""

    @field_validator("model")
    @classmethod
    def _model_has_its_form(cls, model: str | None) -> str | None:
        if model is not None and not (is_model_label(model) or re.fullmatch(NAME_PATTERN, model)):
            raise SettingError(MODEL_FORM)
        return model
