import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobee.providers.surrogates import SurrogateJoiner, join_surrogates


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("plain 好 😀", "plain 好 😀"),
        ("\ud83d\ude00", "😀"),
        ("a\ud83db", "a\ufffdb"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("", ""),
    ],
)
def test_halves_are_joined_or_replaced(text: str, joined: str) -> None:
    assert join_surrogates(text) == joined


@given(st.text(st.characters(categories=["L", "Cs", "So"])), st.data())
def test_fragments_join_to_the_same_text_and_each_can_be_encoded(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    joiner = SurrogateJoiner()
    pieces = [joiner.feed(text[:cut]), joiner.feed(text[cut:]), joiner.finish()]
    assert "".join(pieces) == join_surrogates(text)
    assert json.loads(json.dumps(pieces, ensure_ascii=False).encode()) == pieces
