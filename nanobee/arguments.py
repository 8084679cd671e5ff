"""Arguments: the JSON object that a model sends with a call, read, checked, and faulted in words for it."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import AliasChoices, AliasPath, BaseModel, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from nanobee.errors import ToolError

MAX_PROBLEMS = 5
"""Faults that are told to the model at once."""
MAX_NESTED_JSON = 3
"""Layers of JSON inside a JSON string or a one-element list that are taken off."""

ArgumentsT = TypeVar("ArgumentsT", bound=BaseModel)


def clean_text(text: str) -> str:
    """`text` without lone surrogates, which no request can hold: they become U+FFFD, split pairs are joined."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def parse_arguments(text: str) -> dict[str, object]:
    """Read a call's raw arguments.

    Nothing and `null` are an object without fields; JSON inside a JSON string, a list of one
    object and raw line breaks inside strings are accepted; lone surrogates are replaced.

    Raises:
        ToolError: it is not one JSON object.
    """
    value: object = text
    for _ in range(MAX_NESTED_JSON):
        if isinstance(value, str):
            value = _load(value)
        elif isinstance(value, list) and len(value) == 1:
            value = value[0]
        else:
            break
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ToolError(f"the arguments must be one JSON object, not {_kind(value)}")
    return {clean_text(key): _clean(item) for key, item in value.items()}


def validate_arguments(arguments_type: type[ArgumentsT], arguments: Mapping[str, object]) -> ArgumentsT:
    """Make an instance of `arguments_type`; unknown fields are left out, also where the type forbids them.

    Raises:
        ToolError: a field is missing or wrong, or not one field is known.
    """
    known = _known_names(arguments_type)
    fields = {name: value for name, value in arguments.items() if name in known}
    if arguments and known and not fields:
        # With defaults for all fields this would pass, and do something that nobody asked for.
        raise ToolError(f"none of {_listed(arguments)} is a known field. {describe_fields(arguments_type)}")
    try:
        return arguments_type.model_validate(fields)
    except ValidationError as error:
        raise ToolError(f"{_describe(error)}. {describe_fields(arguments_type)}") from None


def build_schema(arguments_type: type[BaseModel]) -> dict[str, object]:
    """JSON schema of the object, as short as it can be: it is sent with each request."""
    schema = arguments_type.model_json_schema(schema_generator=_PlainSchema)
    for needless in ("title", "description"):
        schema.pop(needless, None)
    properties = schema.setdefault("properties", {})
    for name, described in properties.items():
        if "default" in described and described["default"] is None:
            properties[name] = _without_null(described)
    return schema


def describe_fields(arguments_type: type[BaseModel]) -> str:
    """One line that names the fields: `Fields: path (required), limit.`"""
    names = [
        f"{field.alias or name} (required)" if field.is_required() else field.alias or name
        for name, field in arguments_type.model_fields.items()
    ]
    return f"Fields: {', '.join(names)}." if names else "It has no fields."


class _PlainSchema(GenerateJsonSchema):
    """Leaves out the titles of fields, which only repeat their names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _without_null(described: dict[str, Any]) -> dict[str, Any]:
    """An optional value is simply left out by the model; `anyOf` with null only confuses small ones."""
    rest = {key: value for key, value in described.items() if key not in ("default", "anyOf")}
    kinds = [kind for kind in described.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        return {**kinds[0], **rest}
    return {"anyOf": kinds, **rest} if kinds else rest


def _load(text: str) -> object:
    if not text.strip():
        return None
    try:
        return json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        raise ToolError(f"the arguments are not valid JSON ({error.msg} at character {error.pos + 1})") from None
    except (ValueError, RecursionError):
        raise ToolError("the arguments are not usable JSON: nested too deeply, or a number too long") from None


def _clean(value: object) -> object:
    match value:
        case str():
            return clean_text(value)
        case list():
            return [_clean(item) for item in value]
        case dict():
            return {clean_text(key): _clean(item) for key, item in value.items()}
        case _:
            return value


def _known_names(arguments_type: type[BaseModel]) -> set[str]:
    names: set[str] = set()
    for name, field in arguments_type.model_fields.items():
        alias = field.validation_alias
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
        for choice in choices:
            if isinstance(choice, AliasPath):
                names.add(str(choice.path[0]))
            elif choice is not None:
                names.add(choice)
        if alias is None or arguments_type.model_config.get("populate_by_name"):
            names.add(name)
    return names


def _describe(error: ValidationError) -> str:
    """The faults with their fields; values are left out, since they may be long or secret."""
    faults = error.errors(include_url=False, include_context=False)
    told = []
    for fault in faults[:MAX_PROBLEMS]:
        where = ".".join(str(part) for part in fault["loc"]) or "the object"
        if fault["type"] == "missing":
            told.append(f"{where}: missing")
        elif fault["type"].endswith("_type"):
            told.append(f"{where}: {fault['msg']}, not {_kind(fault['input'])}")
        else:
            told.append(f"{where}: {fault['msg']}")
    if len(faults) > MAX_PROBLEMS:
        told.append(f"and {len(faults) - MAX_PROBLEMS} more")
    return "; ".join(told)


def _kind(value: object) -> str:
    names = {str: "a string", bool: "a boolean", int: "an integer", float: "a number", list: "a list"}
    return "null" if value is None else names.get(type(value), "an object")


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(repr(name[:40]) for name in list(names)[:MAX_PROBLEMS])
