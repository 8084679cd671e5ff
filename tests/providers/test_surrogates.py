import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobee.arguments import clean_text
from nanobee.providers.surrogates import SurrogateJoiner, clean_json_text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ('{"a": "好 😀"}', '{"a": "好 😀"}'),
        ('{"a": "\ud83d\ude00"}', '{"a": "😀"}'),
        (r'{"a": "\uD83D\uDE00"}', '{"a": "😀"}'),
        (r'{"a": "\ud83d"}', '{"a": "\ufffd"}'),
        (r'{"a": "\ud83d', r'{"a": "\ud83d'),
        ("", ""),
    ],
)
def test_json_text_has_no_halves_in_any_writing(text: str, clean: str) -> None:
    assert clean_json_text(text) == clean


@given(st.text(st.characters(categories=["L", "Cs", "So"])), st.data())
def test_fragments_join_to_the_same_text_and_each_can_be_encoded(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    joiner = SurrogateJoiner()
    pieces = [joiner.feed(text[:cut]), joiner.feed(text[cut:]), joiner.finish()]
    assert "".join(pieces) == clean_text(text)
    assert json.loads(json.dumps(pieces, ensure_ascii=False).encode()) == pieces
