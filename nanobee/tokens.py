"""Tokens: how many a text costs, estimated without a tokenizer's download."""

BYTES_PER_TOKEN = 3.5
"""A cautious estimate for English, code and CJK alike."""


def estimate_tokens(text: str) -> int:
    """Roughly how many tokens `text` costs."""
    return int(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN) + 1
