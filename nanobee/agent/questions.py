"""Questions: how a suspension is put to a person in plain text."""

from nanobee.agent import phrases
from nanobee.bus.suspension import NewSuspension
from nanobee.phrases import Language


def word_question(question: NewSuspension, language: Language) -> str:
    """The question with its choices numbered, and how to answer it."""
    choices = [f"{number}. {choice}" for number, choice in enumerate(question.choices, 1)]
    how = phrases.HOW_TO_CHOOSE if question.choices else phrases.HOW_TO_ANSWER
    return "\n".join([question.question, *choices, how.say(language, id=question.id)])
