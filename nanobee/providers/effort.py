"""Levels of thinking, for servers that know no budgets."""

LOW_BUDGET_TOKENS = 2_048
"""A budget up to this is the level `low`."""
MEDIUM_BUDGET_TOKENS = 8_192
"""And up to this `medium`; beyond it is `high`."""


def pick_effort(budget_tokens: int | None) -> str:
    """The level that a budget comes nearest to; without one, the middle."""
    if budget_tokens is None:
        return "medium"
    if budget_tokens <= LOW_BUDGET_TOKENS:
        return "low"
    return "medium" if budget_tokens <= MEDIUM_BUDGET_TOKENS else "high"
