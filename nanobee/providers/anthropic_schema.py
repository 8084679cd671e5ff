"""JSON schemas as the Messages API takes them for an answer's form."""

from collections.abc import Mapping

from nanobee.messages import Json

_UNSUPPORTED = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
    }
)
"""Bounds that it refuses; whoever asked checks the answer anyway."""
_NAMED = frozenset({"properties", "$defs", "definitions"})
"""Keys under which names stand, and the schemas under these."""
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keys under which there is no schema."""


def fit_schema(schema: Mapping[str, object]) -> dict[str, Json]:
    """The same schema without bounds, each object closed."""
    fitted: dict[str, Json] = {}
    for key, value in schema.items():
        if key in _VALUES:
            fitted[key] = value  # type: ignore[assignment]  # a schema is JSON by construction
        elif key in _NAMED and isinstance(value, Mapping):
            fitted[key] = {name: _fit(inner) for name, inner in value.items()}
        elif key not in _UNSUPPORTED:
            fitted[key] = _fit(value)
    if fitted.get("type") == "object":
        fitted["additionalProperties"] = False
    return fitted


def _fit(value: object) -> Json:
    if isinstance(value, Mapping):
        return fit_schema(value)
    if isinstance(value, list | tuple):
        return [_fit(item) for item in value]
    return value  # type: ignore[return-value]  # a schema is JSON by construction
