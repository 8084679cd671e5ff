import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from nanobee.arguments import build_schema, clean_text, parse_arguments, validate_arguments
from nanobee.errors import ToolError


class Note(BaseModel):
    """A note."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field(max_length=20)
    stars: int = 3
    comment: str | None = None


@pytest.mark.parametrize("text", ["", "  \n", "null", "{}"])
def test_nothing_is_an_object_without_fields(text: str) -> None:
    assert parse_arguments(text) == {}


@pytest.mark.parametrize(
    "text",
    ['{"a": 1}', json.dumps('{"a": 1}'), '[{"a": 1}]', json.dumps('[{"a": 1}]'), '["{\\"a\\": 1}"]'],
)
def test_an_object_is_taken_out_of_strings_and_lists(text: str) -> None:
    assert parse_arguments(text) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": ', "not valid JSON"),
        ('{"a": 1} and more', "not valid JSON"),
        ("[]", "not a list"),
        ('[{"a": 1}, {"a": 2}]', "not a list"),
        ("7", "not an integer"),
        ("true", "not a boolean"),
        ('"text"', "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5_000 + "}", "number too long"),
        (json.dumps(json.dumps(json.dumps(json.dumps({"a": 1})))), "not a string"),
    ],
)
def test_what_is_no_object_is_refused_with_the_reason(text: str, told: str) -> None:
    with pytest.raises(ToolError, match=told):
        parse_arguments(text)


def test_raw_line_breaks_inside_strings_are_accepted() -> None:
    assert parse_arguments('{"a": "one\ntwo\tthree"}') == {"a": "one\ntwo\tthree"}


def test_o17_g_lone_surrogates_are_replaced_and_pairs_are_joined() -> None:
    assert parse_arguments(r'{"a\udc00": ["x\ud800y", {"b": "\ud83d\ude00"}]}') == {
        "a\ufffd": ["x\ufffdy", {"b": "😀"}]
    }
    assert clean_text("a" + "\ud83d" + "\ude00") == "a😀"


@given(st.text(alphabet=st.characters(categories=["L", "Cs", "Cc"])))
def test_cleaned_text_can_always_be_encoded(text: str) -> None:
    cleaned = clean_text(text)
    cleaned.encode()
    assert clean_text(cleaned) == cleaned


def test_unknown_fields_are_left_out_even_where_the_type_forbids_them() -> None:
    assert validate_arguments(Note, {"title": "t", "reason": "because"}) == Note(title="t")


def test_an_object_of_unknown_fields_alone_is_refused() -> None:
    class Defaults(BaseModel):
        limit: int = 5

    with pytest.raises(ToolError, match=r"none of 'max' is a known field. Fields: limit"):
        validate_arguments(Defaults, {"max": 9})
    assert validate_arguments(Defaults, {}) == Defaults()


def test_faults_name_field_and_expectation_but_no_value() -> None:
    with pytest.raises(ToolError) as caught:
        validate_arguments(Note, {"title": "canary " * 9, "stars": ["canary"]})
    text = str(caught.value)
    assert "title: String should have at most 20 characters" in text
    assert "stars: Input should be a valid integer, not a list" in text
    assert "Fields: title (required), stars, comment." in text
    assert "canary" not in text


def test_many_faults_are_told_in_part() -> None:
    class Many(BaseModel):
        values: list[int]

    with pytest.raises(ToolError, match="and 15 more"):
        validate_arguments(Many, {"values": ["x"] * 20})


def test_aliases_are_known_names() -> None:
    class Aliased(BaseModel):
        model_config = ConfigDict(populate_by_name=True)

        json_: str = Field(alias="json")
        to: str = Field(validation_alias=AliasChoices("target", "to_chat"))

    assert validate_arguments(Aliased, {"json": "a", "to_chat": "b"}).to == "b"
    assert validate_arguments(Aliased, {"json_": "a", "to": "b"}).json_ == "a"


def test_a_schema_has_no_titles_and_no_null_for_what_may_be_left_out() -> None:
    assert build_schema(Note) == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "title": {"type": "string", "maxLength": 20},
            "stars": {"type": "integer", "default": 3},
            "comment": {"type": "string"},
        },
        "required": ["title"],
    }
