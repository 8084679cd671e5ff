"""Config problems: a failed validation in words, made of kinds, limits and places, never of values."""

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ValidationError

from nanobee.config_document import Value
from nanobee.config_origin import KeyPath, Origin
from nanobee.config_section import SettingError
from nanobee.errors import ConfigProblem
from nanobee.phrases import Language, Phrase

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MISSING = Phrase("is missing", "缺少")
UNKNOWN = Phrase("is no key of this section", "本节没有这个键")
UNKNOWN_CLOSE = Phrase("is no key of this section; did you mean {close}?", "本节没有这个键；是否想写 {close}？")
WRONG_TYPE = Phrase("{needed} is needed here, but {found} stands here{hint}", "此处需要{needed}，但写的是{found}{hint}")
QUOTE_HINT = Phrase("; put it in quotes", "；请加引号")
UNQUOTE_HINT = Phrase("; write it without quotes", "；请去掉引号")
LIST_HINT = Phrase('; write ["…"]', '；请写作 ["…"]')
CHOICE = Phrase("is none of {choices}", "不是 {choices} 之一")
AT_LEAST = Phrase("is less than {limit}", "小于 {limit}")
ABOVE = Phrase("is not greater than {limit}", "不大于 {limit}")
AT_MOST = Phrase("is greater than {limit}", "大于 {limit}")
BELOW = Phrase("is not less than {limit}", "不小于 {limit}")
TOO_SHORT = Phrase("is shorter than {limit}", "长度小于 {limit}")
TOO_LONG = Phrase("is longer than {limit}", "长度大于 {limit}")
BAD_FORM = Phrase("does not have the form that is needed", "格式不符合要求")
BAD_NAME = Phrase(
    "a name is 1 to 32 of a–z, 0–9, - and _, and begins with a letter or digit; this one is not",
    "名称由 1 到 32 个 a–z、0–9、-、_ 组成，以字母或数字开头；此名称不符合",
)
REFUSED = Phrase("cannot be used here ({kind})", "不能用在这里（{kind}）")

TEXT = Phrase("text", "文本")
WHOLE_NUMBER = Phrase("a whole number", "整数")
NUMBER = Phrase("a number", "数字")
TRUTH = Phrase("true or false", "true 或 false")
LIST = Phrase("a list", "列表")
MAPPING = Phrase("a mapping of keys", "键值映射")
NOTHING = Phrase("nothing", "空值")

NEEDED = {
    "string_type": TEXT,
    "int_type": WHOLE_NUMBER,
    "int_from_float": WHOLE_NUMBER,
    "float_type": NUMBER,
    "bool_type": TRUTH,
    "list_type": LIST,
    "tuple_type": LIST,
    "set_type": LIST,
    "frozen_set_type": LIST,
    "dict_type": MAPPING,
    "mapping_type": MAPPING,
    "model_type": MAPPING,
    "none_required": NOTHING,
}
LIMITS = {
    "greater_than_equal": (AT_LEAST, "ge"),
    "greater_than": (ABOVE, "gt"),
    "less_than_equal": (AT_MOST, "le"),
    "less_than": (BELOW, "lt"),
    "string_too_short": (TOO_SHORT, "min_length"),
    "too_short": (TOO_SHORT, "min_length"),
    "string_too_long": (TOO_LONG, "max_length"),
    "too_long": (TOO_LONG, "max_length"),
}
MIN_QUOTED_CHARS = 4
"""A value of this length inside a foreign validator's message makes the message unshowable."""


def explain(
    error: ValidationError, model_type: type[BaseModel], values: dict[str, Value], origin: Origin
) -> list[ConfigProblem]:
    """One problem for each value that was refused, in the order of the model's fields."""
    problems: dict[KeyPath, ConfigProblem] = {}
    for details in error.errors(include_url=False, include_input=False):
        path = value_path(details, values)
        if path not in problems:  # a union tells each of its branches
            problems[path] = origin.problem(path, _reason(details, path, model_type, values, origin))
    return list(problems.values())


def value_path(details: "ErrorDetails", values: dict[str, Value]) -> KeyPath:
    """The path of the refused value: the error's location without pydantic's own words in it."""
    location = details["loc"]
    value: Value = values
    for depth, key in enumerate(location):
        if isinstance(value, dict) and key in value:
            value = value[str(key)]
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        elif details["type"] == "missing" and depth == len(location) - 1:
            return location
        else:
            return location[:depth]
    return location


def value_at(path: KeyPath, values: dict[str, Value]) -> Value:
    """The value at `path`, None where nothing stands there."""
    value: Value = values
    for key in path:
        if isinstance(value, dict):
            value = value.get(str(key))
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value


def _reason(
    details: "ErrorDetails", path: KeyPath, model_type: type[BaseModel], values: dict[str, Value], origin: Origin
) -> str:
    kind, context, language = details["type"], details.get("ctx", {}), origin.language
    if kind == "missing":
        return MISSING.say(language)
    if kind == "extra_forbidden":
        return _unknown_key(str(path[-1]), fields_at(model_type, path[:-1]), language)
    if kind in NEEDED:
        return _wrong_type(kind, value_at(path, values), language, is_loose=origin.is_loose(path))
    if kind in LIMITS:
        phrase, name = LIMITS[kind]
        return phrase.say(language, limit=f"{context[name]:g}")
    if kind in ("literal_error", "enum"):
        return CHOICE.say(language, choices=context["expected"])
    if kind == "string_pattern_mismatch":
        return (BAD_NAME if details["loc"][-1] == "[key]" else BAD_FORM).say(language)
    if kind == "value_error":
        return _refusal(context.get("error"), value_at(path, values), language)
    return REFUSED.say(language, kind=kind)


def _unknown_key(key: str, known: list[str], language: Language) -> str:
    close = get_close_matches(key.lower().replace("-", "_"), known, n=1)
    return UNKNOWN_CLOSE.say(language, close=close[0]) if close else UNKNOWN.say(language)


def fields_at(model_type: type[BaseModel], path: KeyPath) -> list[str]:
    """The keys that the section at `path` may have; none where it is a plugin's."""
    fields = model_type.model_fields
    for key in path:
        annotation = fields[key].annotation if isinstance(key, str) and key in fields else None
        inner = _model_in(annotation)
        if inner is None:
            return []
        fields = inner.model_fields
    return list(fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(inner) for inner in get_args(annotation))
    return next((model for model in found if model is not None), None)


def _wrong_type(kind: str, value: Value, language: Language, *, is_loose: bool) -> str:
    hint = ""
    if kind == "string_type" and isinstance(value, int | float):
        hint = QUOTE_HINT.say(language)
    elif NEEDED[kind] is LIST and isinstance(value, str):
        hint = LIST_HINT.say(language)
    elif isinstance(value, str) and not is_loose and _is_number(value) and NEEDED[kind] in (WHOLE_NUMBER, NUMBER):
        hint = UNQUOTE_HINT.say(language)
    return WRONG_TYPE.say(language, needed=NEEDED[kind].say(language), found=_found(value).say(language), hint=hint)


def _found(value: Value) -> Phrase:
    match value:
        case None:
            return NOTHING
        case bool():
            return TRUTH
        case int() | float():
            return NUMBER
        case str():
            return TEXT
        case list():
            return LIST
        case dict():
            return MAPPING


def _is_number(text: str) -> bool:
    return text.strip().lstrip("+-").replace(".", "", 1).isdigit()


def _refusal(error: object, value: Value, language: Language) -> str:
    """What a validator says, unless it quotes the value: a plugin's may."""
    if isinstance(error, SettingError):
        return error.phrase.say(language, **error.fields)
    message = str(error or "")
    if not message or any(text in message for text in _texts(value)):
        return BAD_FORM.say(language)
    return message


def _texts(value: Value) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _texts(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _texts(inner)]
    text = "" if value is None or isinstance(value, bool) else str(value)
    return [text] if len(text) >= MIN_QUOTED_CHARS else []
