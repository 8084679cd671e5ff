"""Config environment: variables laid over the file, and `${NAME}` references filled in.

`NANOBEE_AGENT__MODEL` is the key `agent.model`. A variable without `__` that names no key of the
first level is not the configuration's: `${NANOBEE_WEB_TOKEN}` may refer to it.
"""

import re
from collections.abc import Collection, Mapping

from nanobee.config_document import Document, Fault, Value, is_unicode
from nanobee.config_origin import KeyPath, Mark
from nanobee.phrases import Phrase

PREFIX = "NANOBEE_"
DELIMITER = "__"
REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[^}]*)(?P<end>\}?)")
REFERENCE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PUBLIC_ENDINGS = ("url", "host", "port")
"""Keys that end so hold no secret: their values may stand in a log."""

EMPTY_VARIABLE = Phrase("is set, but empty; give it a value or unset it", "已设置但为空；请赋值或取消设置")
NO_UNICODE = Phrase("its value is not valid UTF-8", "其值不是有效的 UTF-8")
NO_SECTION = Phrase(
    "there is no section {section}; there are: {sections}", "没有 {section} 这一节；可用的有：{sections}"
)
WHOLE_SECTION = Phrase(
    "is a whole section; name one key of it, as in {prefix}{section}__KEY",
    "是一整节；请指明其中一个键，例如 {prefix}{section}__KEY",
)
BAD_NAME = Phrase(
    'two "__" stand together or at the end, so it names no key', '连续或末尾出现 "__"，因此没有指明任何键'
)
TWICE = Phrase("the variable {other} names the same key", "变量 {other} 指向同一个键")
UNSET = Phrase("refers to {name}, which is not set in the environment", "引用了 {name}，但环境中没有设置它")
EMPTY_REFERENCE = Phrase("refers to {name}, which is set, but empty", "引用了 {name}，但它的值为空")
BAD_REFERENCE = Phrase(
    'a reference is written "${{NAME}}"; a literal "${{" is written "$${{"',
    '引用写作 "${{NAME}}"；字面的 "${{" 写作 "$${{"',
)


def lay_environment(
    document: Document, environ: Mapping[str, str], keys: Collection[str], sections: Collection[str]
) -> None:
    """Put the environment's values over the document's; `sections` are those of `keys` that hold keys."""
    for name in sorted(environ):
        if not name.startswith(PREFIX):
            continue
        path = tuple(name.removeprefix(PREFIX).lower().split(DELIMITER))
        if len(path) == 1 and path[0] not in keys:
            continue
        if (fault := _fault_in(name, path, environ[name], sections)) is not None:
            document.faults.append(fault)
        else:
            _put(document, Mark(name, is_loose=True), path, environ[name])


def _fault_in(name: str, path: tuple[str, ...], value: str, sections: Collection[str]) -> Fault | None:
    def fault(at: KeyPath, phrase: Phrase, **fields: object) -> Fault:
        return Fault(Mark(name), at, phrase, fields)

    if len(path) == 1 and path[0] in sections:
        return fault(path, WHOLE_SECTION, prefix=PREFIX, section=path[0].upper())
    if not all(path):
        return fault((), BAD_NAME)
    if len(path) > 1 and path[0] not in sections:
        return fault((), NO_SECTION, section=path[0].upper(), sections=", ".join(sorted(sections)))
    if not value:
        return fault(path, EMPTY_VARIABLE)
    if not is_unicode(value):
        return fault(path, NO_UNICODE)
    return None


def _put(document: Document, mark: Mark, names: tuple[str, ...], value: str) -> None:
    section: dict[str, Value] = document.values
    path: tuple[str, ...] = ()
    for name in names[:-1]:
        key = _key_for(name, section)
        path = (*path, key)
        inner = section.get(key)
        if not isinstance(inner, dict):
            section[key] = inner = {}
            document.marks[path] = Mark(mark.source)
        section = inner
    key = _key_for(names[-1], section)
    path = (*path, key)
    other = document.marks.get(path)
    if other is not None and other.is_loose:
        document.faults.append(Fault(mark, path, TWICE, {"other": other.source}))
        return
    section[key] = value
    for inside in [at for at in document.marks if at[: len(path)] == path]:
        del document.marks[inside]
    document.marks[path] = mark


def _key_for(name: str, section: Mapping[str, Value]) -> str:
    """The section's own key that `name` can only mean: a variable's name has no `-`."""
    return next((key for key in section if key.lower().replace("-", "_") == name), name)


def fill_references(document: Document, environ: Mapping[str, str]) -> list[str]:
    """Fill in every `${NAME}` of the file; return the values that were filled in: they are secrets."""
    filler = _Filler(document, environ)
    document.values = {key: filler.fill(value, (key,)) for key, value in document.values.items()}
    return filler.secrets


class _Filler:
    def __init__(self, document: Document, environ: Mapping[str, str]) -> None:
        self._document = document
        self._environ = environ
        self.secrets: list[str] = []

    def fill(self, value: Value, path: KeyPath) -> Value:
        if isinstance(value, dict):
            return {key: self.fill(inner, (*path, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.fill(inner, (*path, index)) for index, inner in enumerate(value)]
        if isinstance(value, str) and "${" in value:
            return self._fill_text(value, path)
        return value

    def _fill_text(self, text: str, path: KeyPath) -> str:
        mark = self._document.marks[path]
        if mark.is_loose:  # the environment's own text is taken as it is
            return text
        self._document.marks[path] = Mark(mark.source, mark.line, is_loose=True)
        return REFERENCE.sub(lambda match: self._referred(match, path), text)

    def _referred(self, match: re.Match[str], path: KeyPath) -> str:
        name = match["name"]
        if name is None:
            return "${"
        value = self._environ.get(name, "")
        if not (match["end"] and REFERENCE_NAME.fullmatch(name)):
            self._document.blame(path, BAD_REFERENCE)
        elif name not in self._environ:
            self._document.blame(path, UNSET, name=name)
        elif not value:
            self._document.blame(path, EMPTY_REFERENCE, name=name)
        elif not is_unicode(value):
            self._document.blame(path, NO_UNICODE)
        elif not str(path[-1]).endswith(PUBLIC_ENDINGS):
            self.secrets.append(value)
        return value
