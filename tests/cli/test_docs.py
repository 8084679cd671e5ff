"""The documentation of the command line is what the code says."""

from pathlib import Path

from nanobee.cli.docs import build_docs


def test_the_page_is_made_from_the_code(source_root: Path) -> None:
    page = (source_root / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == build_docs(), "run: python -m nanobee.cli.docs > docs/cli.md"


def test_every_command_that_reads_a_configuration_takes_one() -> None:
    sections = build_docs().split("\n## ")[1:]
    without = {section.partition("\n")[0] for section in sections if "`--config FILE`" not in section}
    groups = {"`nanobee`", "`nanobee models`", "`nanobee bus`", "`nanobee sessions`", "`nanobee memory`"}
    assert without == {*groups, "`nanobee models get`", "`nanobee chaos`"}
