"""Config file: its YAML as plain values, with the place of each and every fault named."""

import errno
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nanobee.config_document import Document, Fault, Value, is_unicode
from nanobee.config_origin import KeyPath, Mark
from nanobee.config_syntax import MAX_DEPTH, TOO_DEEP, compose
from nanobee.phrases import Phrase

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

MAX_FILE_BYTES = 1 << 20
MAX_VALUES = 10_000
"""Values of one file, repeated anchors included."""
YAML_TAG = "tag:yaml.org,2002"
TRUE_WORDS = frozenset({"true", "yes", "on", "y"})
"""What YAML 1.2 and, where a file asks for it, YAML 1.1 resolve to true."""

NOT_THERE = Phrase("there is no such file", "没有这个文件")
NO_FILE = Phrase("this is a folder, not a file", "这是一个文件夹，不是文件")
UNREADABLE = Phrase("cannot be read ({cause})", "无法读取（{cause}）")
TOO_LARGE = Phrase("is larger than {bytes} bytes, so it is no configuration", "大于 {bytes} 字节，不是配置文件")
NO_UTF8 = Phrase("is not UTF-8 text; save it as UTF-8", "不是 UTF-8 文本；请保存为 UTF-8")
EMPTY_FILE = Phrase(
    "holds no settings; write one, or remove the file to use the defaults",
    "没有任何设置；请写入设置，或删除该文件以使用默认值",
)
NO_MAPPING = Phrase('is not a mapping of keys; a line is written "key: value"', '不是键值映射；每行写作 "key: value"')
DUPLICATE = Phrase("the key is written twice; it stands first in line {line}", "该键写了两次；第一次在第 {line} 行")
KEY_IS_NO_TEXT = Phrase("a key is text; put it in quotes", "键必须是文本；请加引号")
MERGE_KEY = Phrase('"<<" is not read here; write the keys out', '此处不支持 "<<"；请把各键写全')
TAG = Phrase('a tag ("!…") is not read here', '此处不支持标签（"!…"）')
NO_NUMBER = Phrase("this number cannot be used", "这个数字不能使用")
NO_UNICODE = Phrase("the text is not valid Unicode", "文本不是有效的 Unicode")


def read_document(path: Path) -> Document:
    """Read a config file; whatever is wrong with it stands in the document's faults."""
    document = Document(str(path), marks={(): Mark(str(path))})
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        document.blame((), NOT_THERE)
    except IsADirectoryError:
        document.blame((), NO_FILE)
    except OSError as error:
        document.blame((), UNREADABLE, cause=os.strerror(error.errno or errno.EIO))
    else:
        _decode(data, document)
    return document


def _decode(data: bytes, document: Document) -> None:
    if len(data) > MAX_FILE_BYTES:
        return document.blame((), TOO_LARGE, bytes=MAX_FILE_BYTES)
    try:
        text = data.decode("utf-8-sig")  # a byte order mark is the editor's, not the user's
    except UnicodeDecodeError as error:
        return document.blame((), NO_UTF8, line=data.count(b"\n", 0, error.start) + 1)
    parse_document(text, document)


def parse_document(text: str, document: Document) -> None:
    """Fill `document` from YAML text."""
    root = compose(text, document)
    if document.faults:
        return
    builder = _Builder(document)
    if root is None or (builder.kind_of(root) == "null" and not root.value):
        document.blame((), EMPTY_FILE)
    elif not isinstance(value := builder.build(root, ()), dict):
        document.blame((), NO_MAPPING, line=root.start_mark.line + 1)
    else:
        document.values = value


def parse_value(text: str) -> Value:
    """The value that `text` is in YAML; `text` itself where it is not YAML, or no plain value."""
    document = Document("value")
    root = compose(text, document)
    if root is None or document.faults:
        return text
    value = _Builder(document).build(root, ())
    return text if document.faults else value


class _Builder:
    """Turns nodes into values, and notes where each stands and what cannot be taken."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._count = 0

    @staticmethod
    def kind_of(node: "Node") -> str:
        """`str`, `int`, `map`, …; empty for a tag that is none of YAML's own."""
        prefix, _, kind = str(node.tag).rpartition(":")
        return kind if prefix == YAML_TAG else ""

    def build(self, node: "Node", path: KeyPath) -> Value:
        self._count += 1
        if self._count > MAX_VALUES or len(path) > MAX_DEPTH:  # an anchor that holds itself ends here
            if self._count <= MAX_VALUES + 1:
                self._blame(node, path[:1], TOO_DEEP)
            self._count = MAX_VALUES + 1
            return None
        match self.kind_of(node):
            case "map":
                return dict(self._items(node, path))
            case "seq":
                return [self._placed(item, (*path, index)) for index, item in enumerate(node.value)]
            case _:
                return self._scalar(node, path)

    def _placed(self, node: "Node", path: KeyPath) -> Value:
        self._document.marks[path] = self._mark(node)
        return self.build(node, path)

    def _items(self, node: "Node", path: KeyPath) -> Iterator[tuple[str, Value]]:
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if self.kind_of(key_node) == "merge":
                self._blame(key_node, path, MERGE_KEY)
            elif self.kind_of(key_node) not in ("str", "timestamp") or not isinstance(key, str):
                self._blame(key_node, path, KEY_IS_NO_TEXT)
            elif key in lines:
                self._blame(key_node, (*path, key), DUPLICATE, line=lines[key])
            else:
                lines[key] = key_node.start_mark.line + 1
                self._document.marks[(*path, key)] = self._mark(key_node)
                yield key, self.build(value_node, (*path, key))

    def _scalar(self, node: "Node", path: KeyPath) -> Value:
        kind, text = self.kind_of(node), str(node.value)
        try:
            match kind:
                case "null":
                    return None
                case "bool":
                    return text.lower() in TRUE_WORDS
                case "int":
                    return _integer(text)
                case "float":
                    return _finite(text)
        except ValueError:
            self._blame(node, path, NO_NUMBER)
            return None
        if kind not in ("str", "timestamp", "value", "merge"):
            self._blame(node, path, TAG)
        elif not is_unicode(text):
            self._blame(node, path, NO_UNICODE)
        else:
            return text
        return None

    def _mark(self, node: "Node") -> Mark:
        return Mark(self._document.source, node.start_mark.line + 1)

    def _blame(self, node: "Node", path: KeyPath, phrase: Phrase, **fields: object) -> None:
        self._document.faults.append(Fault(self._mark(node), path, phrase, fields))


def _integer(text: str) -> int:
    """Decimal, or `0x`, `0o`, `0b`; `_` between digits is allowed."""
    digits = text.replace("_", "").lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    base = {"0x": 16, "0o": 8, "0b": 2}.get(digits[:2], 10)
    return sign * int(digits if base == 10 else digits[2:], base)


def _finite(text: str) -> float:
    number = float(text.replace("_", ""))
    if not math.isfinite(number):
        raise ValueError("not finite")
    return number
