"""`ask_user`: the turn sleeps until the person it works for has answered."""

from nanobee.errors import ToolError
from nanobee.tools.decorator import tool
from nanobee.tools.tool import Question, ToolContext, ToolOutput

MAX_CHOICES = 12
MAX_CHOICE_CHARS = 80


@tool(idempotent=True)
async def ask_user(context: ToolContext, question: str, choices: list[str] | None = None) -> ToolOutput:
    """Ask the user a question when you cannot go on without the answer. The answer may take days.

    Args:
        question: What you want to know, in the user's language.
        choices: The possible answers, each a few words; leave out for a free answer.
    """
    text = question.strip()
    words = tuple(choice.strip() for choice in choices or () if choice.strip())
    if not text:
        raise ToolError("the question is empty.")
    if len(words) > MAX_CHOICES or any(len(word) > MAX_CHOICE_CHARS for word in words):
        raise ToolError(f"give {MAX_CHOICES} choices at most, each of {MAX_CHOICE_CHARS} characters at most.")
    if len({word.casefold() for word in words}) != len(words):
        raise ToolError("two choices are the same.")
    return ToolOutput("", question=Question(text, words))
