"""Reading YAML: plain values with their lines, and faults in our own words."""

from pathlib import Path

import pytest

from nanobee.config_document import Document, Value
from nanobee.config_file import MAX_FILE_BYTES, MAX_VALUES, parse_document, parse_value, read_document
from nanobee.config_origin import Mark, Origin


def parse(text: str) -> Document:
    document = Document("f", marks={(): Mark("f")})
    parse_document(text, document)
    return document


def fault(text: str) -> str:
    document = parse(text)
    (only,) = document.faults
    return str(only.problem(Origin()))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1_000", 1000),
        ("a: 0x1F", 31),
        ("a: 0o17", 15),
        ("a: 012", 12),
        ("a: -3", -3),
        ("a: 1e3", 1000.0),
        ("a: 1.5", 1.5),
        ("a: true", True),
        ("a: 'true'", "true"),
        ("a: yes", "yes"),
        ("a: no", "no"),
        ("a: 12:30", "12:30"),
        ("a: 1.5.2", "1.5.2"),
        ("a: 2024-01-01", "2024-01-01"),
        ("a: ~", None),
        ("a:", None),
        ("a: ''", ""),
        ("a: |\n  x\n  y", "x\ny\n"),
        ("a: [1, 'b', {c: d}]", [1, "b", {"c": "d"}]),
        ("%YAML 1.1\n---\na: yes", True),
    ],
)
def test_plain_values_are_read(text: str, value: Value) -> None:
    document = parse(text + "\n")
    assert document.faults == []
    assert document.values == {"a": value}
    assert type(document.values["a"]) is type(value)


def test_an_anchor_repeats_its_value() -> None:
    assert parse("a: &x {b: 1}\nc: *x\n").values == {"a": {"b": 1}, "c": {"b": 1}}


def test_each_value_knows_its_line() -> None:
    marks = parse("a: 1\nb:\n  c: [x,\n    y]\n").marks
    lines = {path: mark.line for path, mark in marks.items() if path}
    assert lines == {("a",): 1, ("b",): 2, ("b", "c"): 3, ("b", "c", 0): 3, ("b", "c", 1): 4}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "f: holds no settings"),
        ("# only a comment\n", "f: holds no settings"),
        ("---\n", "f: holds no settings"),
        ("null\n", "f:1: is not a mapping"),
        ("- a\n", "f:1: is not a mapping"),
        ("a:1\nb:2\n", "f:1: is not a mapping"),
        ("\ta: 1\n", "f:1: a tab"),
        ("a:\n\tb: 1\n", "f:2: a tab"),
        ("a:\n  b: 1\n \tc: 2\n", "f:3: a tab"),
        ("a: b: c\n", 'f:1: a ": " stands'),
        ("one two\nb: 1\n", 'f:1: a ":" is missing'),
        ("one two\n\n# x\nb: 1\n", "f:4: the line does not fit"),
        ("one two\n\nb: 1\n", 'f:1: a ":" is missing'),
        ("a: [1, 2\nb: 3\n", "f:1: a bracket"),
        ("a: {t: ${X}}\n", "f:1: a bracket"),
        ('a: "x\nb: 3\n', "f:1: a quote"),
        ("a: 'it\n", "f:1: a quote"),
        ("a: @x\n", "f:1: a value that begins"),
        ("a: `x`\n", "f:1: a value that begins"),
        ("a: *q\n", 'f:1: "*" begins'),
        ('a: "\\q"\n', 'f:1: an unknown "\\"'),
        ("a: 1\n---\nb: 2\n", "f:2: a second document"),
        ("a: x\n  b: 1\n", 'f:1: a ":" is missing'),
        (" a: 1\nb: 2\n", "f:2: the line does not fit"),
        ("a: |\n  x\n y\n", "f:3: the line does not fit"),
        ("%YAML 9.9\n---\na: 1\n", "f:1: is not valid YAML"),
        ("a: 1\nb: \x00\n", "f:2: a control character"),
        ("a: 1\na: 2\n", "f:2: a: the key is written twice; it stands first in line 1"),
        ("a: {b: 1, b: 2}\n", "f:1: a.b: the key is written twice"),
        ("123: x\n", "f:1: a key is text"),
        ("? [a]\n: b\n", "f:1: a key is text"),
        ("true: b\n", "f:1: a key is text"),
        ("a: {<<: {b: 1}}\n", 'f:1: a: "<<" is not read'),
        ("a: !foo x\n", "f:1: a: a tag"),
        ("a: !!binary aGk=\n", "f:1: a: a tag"),
        ("a: !!python/object:os.system x\n", "f:1: a: a tag"),
        ("a: .inf\n", "f:1: a: this number"),
        ("a: .nan\n", "f:1: a: this number"),
        ("a: !!int x\n", "f:1: a: this number"),
        (f"a: {'9' * 5000}\n", "f:1: a: this number"),
        ('a: "\\ud800"\n', "f:1: a: the text is not valid Unicode"),
        ("a: &x [*x]\n", "f:1: a: too many values"),
        ("a: " + "[" * 40 + "]" * 40 + "\n", "f:1: too many values"),
        ("[" * 5000, "f:1: too many values"),
    ],
)
def test_a_fault_is_told_with_its_line_and_no_text_of_the_file(text: str, expected: str) -> None:
    assert fault(text).startswith(expected)


def test_repeated_anchors_end_at_a_bound() -> None:
    lines = ["k0: &x0 [1]"] + [f"k{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]" for n in range(1, 9)]
    document = parse("\n".join(lines) + "\n")
    assert len(document.marks) < 2 * MAX_VALUES
    assert "too many values" in str(document.faults[0].problem(Origin()))


def test_all_faults_of_a_file_are_told() -> None:
    document = parse("a: 1\na: 2\nb: .inf\n5: x\n")
    assert [fault.mark.line for fault in document.faults] == [2, 3, 4]


def read(path: Path) -> str:
    document = read_document(path)
    return str(document.faults[0].problem(Origin())) if document.faults else "read"


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    assert read(tmp_path / "no.yaml") == f"{tmp_path}/no.yaml: there is no such file"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert read(tmp_path) == f"{tmp_path}: this is a folder, not a file"


def test_a_file_below_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x", encoding="utf-8")
    assert "cannot be read (Not a directory)" in read(tmp_path / "a" / "b.yaml")


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    assert "larger than" in read(tmp_path / "a")


@pytest.mark.parametrize("data", [b"a: 1\nb: \xff\n", "a: 1\nb: ü\n".encode("latin-1")])
def test_what_is_not_utf8_is_told_with_its_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    assert read(tmp_path / "a") == f"{tmp_path}/a:2: is not UTF-8 text; save it as UTF-8"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_another_unicode_encoding_is_refused(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a").write_bytes("workspace: /tmp/x\n".encode(encoding))
    assert read(tmp_path / "a") != "read"


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("[a, '1']", ["a", "1"]), ("true", True), ("{a: 1}", {"a": 1}), ("abc", "abc"), ("[a", "[a"), ("", "")],
)
def test_a_value_of_the_environment_is_yaml_or_text(text: str, value: Value) -> None:
    assert parse_value(text) == value
