import errno
import os
import stat
from pathlib import Path

import pytest

from nanobee.errors import ToolError
from nanobee.tools.paths import READ_ONLY_NAMES, open_place, refuse_unless_regular
from nanobee.tools.view import View

CANARY = "canary-6b1f"


@pytest.fixture(autouse=True)
def outside(workspace: Path) -> Path:
    """A folder beside the workspace whose name begins like the workspace's."""
    folder = workspace.parent / "abcdef"
    folder.mkdir()
    (folder / "s").write_text(CANARY, encoding="utf-8")
    return folder


def lead(workspace: Path, path: str, *, for_writing: bool = False) -> str:
    with open_place(View(workspace), path, for_writing=for_writing) as place:
        return place.path


def read(workspace: Path, path: str) -> str:
    with open_place(View(workspace), path) as place:
        descriptor = place.open(os.O_RDONLY)
        with os.fdopen(descriptor, encoding="utf-8") as file:
            return file.read()


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


@pytest.mark.parametrize(
    ("path", "led"),
    [
        ("a.md", "a.md"),
        ("./a.md", "a.md"),
        ("sub//deep/./b.md", "sub/deep/b.md"),
        ("sub/deep/../../a.md", "a.md"),
        ("sub/deep/..", "sub"),
        ("sub/", "sub"),
        ("", "."),
        (".", "."),
        ("sub/..", "."),
        ("to-sub/deep/b.md", "sub/deep/b.md"),
        ("to-sub/../a.md", "a.md"),
        ("sub/up-to-a", "a.md"),
        ("absolute", "sub/deep"),
        ("absolute/b.md", "sub/deep/b.md"),
        ("absolute/..", "sub"),
        ("nothing-there", "nothing-there"),
        ("%2e%2e/..", "."),
        ("…/a", "…/a"),
    ],
)
def test_a_path_inside_leads_to_its_place(workspace: Path, path: str, led: str) -> None:
    for folder in ("sub/deep", "%2e%2e", "…"):
        (workspace / folder).mkdir(parents=True)
    (workspace / "a.md").touch()
    (workspace / "sub/deep/b.md").touch()
    (workspace / "to-sub").symlink_to("sub")
    (workspace / "sub/up-to-a").symlink_to("../a.md")
    (workspace / "absolute").symlink_to(workspace / "sub/deep")
    before = open_descriptors()
    assert lead(workspace, path) == led
    assert open_descriptors() == before


def test_an_absolute_path_under_the_workspace_is_inside(workspace: Path) -> None:
    (workspace / "sub").mkdir()
    assert lead(workspace, f"{workspace}/sub/x") == "sub/x"
    assert lead(workspace, f"{workspace}/sub/../y") == "y"
    assert lead(workspace, str(workspace)) == "."
    assert lead(workspace, f"{workspace}/../abc/y") == "y"


def test_the_workspace_may_be_named_through_a_link(workspace: Path) -> None:
    (workspace.parent / "short").symlink_to(workspace)
    assert lead(workspace, f"{workspace.parent}/short/x") == "x"


def test_home_is_understood(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(workspace.parent))
    assert lead(workspace, "~/abc/x") == "x"
    with pytest.raises(ToolError, match="outside the workspace"):
        lead(workspace, "~/abcdef/s")
    with pytest.raises(ToolError, match="outside the workspace"):
        lead(workspace, "~")
    assert lead(workspace, "~nobody") == "~nobody"


@pytest.mark.parametrize(
    "path",
    [
        "../abcdef/s",
        "../abc/../abcdef/s",
        "sub/../../abcdef/s",
        "sub/../../abc",
        "..",
        "/",
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/root/etc/passwd",
        "{outside}/s",
        "{workspace}/../abcdef/s",
        "{workspace}def/s",
        "to-outside/s",
        "to-outside/new",
        "to-outside/..",
        "to-file",
        "relative-out/s",
        "to-link/s",
        "sub/to-root/etc/passwd",
        "/proc/self/cwd/x",
    ],
)
@pytest.mark.parametrize("for_writing", [False, True])
def test_o46_a_path_outside_is_refused(workspace: Path, outside: Path, path: str, for_writing: bool) -> None:
    (workspace / "sub").mkdir()
    (workspace / "to-outside").symlink_to(outside)
    (workspace / "to-file").symlink_to(outside / "s")
    (workspace / "relative-out").symlink_to("../abcdef")
    (workspace / "to-link").symlink_to("to-outside")
    (workspace / "sub/to-root").symlink_to("/")
    before = open_descriptors()
    with pytest.raises(ToolError, match="outside the workspace"):
        lead(workspace, path.format(workspace=workspace, outside=outside), for_writing=for_writing)
    assert open_descriptors() == before


def test_o46_percent_codes_are_not_decoded(workspace: Path) -> None:
    with pytest.raises(ToolError, match="no such file"):
        read(workspace, "%2e%2e/abcdef/s")


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("a\x00b", "NUL"),
        ("missing/x", "no such file or directory"),
        ("file/x", "not a directory"),
        ("loop/x", "links that go in circles"),
        ("loop", "links that go in circles"),
        ("n" * 300, "File name too long"),
        ("d/../" * 600 + "x", "the path is too long"),
    ],
)
def test_a_path_that_leads_nowhere_is_told_with_the_reason(workspace: Path, path: str, told: str) -> None:
    (workspace / "file").touch()
    (workspace / "d").mkdir()
    (workspace / "loop").symlink_to("loop")
    with pytest.raises(ToolError, match=told) as caught:
        read(workspace, path)
    assert len(str(caught.value)) < 400
    assert str(workspace) not in str(caught.value)


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.EACCES, "a.md: permission denied"),
        (errno.EPERM, "a.md: permission denied"),
        (errno.ENOSPC, "a.md: No space left on device"),
        (errno.EROFS, "a.md: Read-only file system"),
    ],
)
def test_what_the_system_refuses_is_told(workspace: Path, number: int, told: str) -> None:
    def fail() -> None:
        with open_place(View(workspace), "a.md"):
            raise OSError(number, f"canary {workspace}", str(workspace))

    with pytest.raises(ToolError) as caught:
        fail()
    assert str(caught.value) == told


def test_a_missing_workspace_is_told(workspace: Path) -> None:
    with pytest.raises(ToolError, match="workspace cannot be opened"):
        lead(workspace / "gone", "x")


def test_parents_are_created_only_when_asked_for(workspace: Path) -> None:
    with pytest.raises(ToolError, match="no such file"):
        lead(workspace, "a/b/c.md", for_writing=True)
    with open_place(View(workspace), "a/b/c.md", for_writing=True, creates_parents=True) as place:
        assert place.look() is None
    assert (workspace / "a/b").is_dir()


@pytest.mark.parametrize("name", [*READ_ONLY_NAMES, "Tools", "agents.MD", "ſkills"])
@pytest.mark.parametrize("rest", ["", "/x", "/x/y"])
def test_what_steers_the_agent_is_read_only(workspace: Path, name: str, rest: str) -> None:
    with (
        pytest.raises(ToolError, match="read-only for tools, because it steers the agent"),
        open_place(View(workspace), name + rest, for_writing=True, creates_parents=True),
    ):
        pass
    assert list(workspace.iterdir()) == []


def test_the_same_names_deeper_down_are_ordinary(workspace: Path) -> None:
    (workspace / "projects/tools").mkdir(parents=True)
    assert lead(workspace, "projects/tools/x", for_writing=True) == "projects/tools/x"
    assert lead(workspace, "projects/AGENTS.md", for_writing=True) == "projects/AGENTS.md"


def test_what_steers_the_agent_is_read_only_under_another_name_too(workspace: Path) -> None:
    (workspace / "skills").mkdir()
    (workspace / "AGENTS.md").touch()
    (workspace / "plain").mkdir()
    (workspace / "to-skills").symlink_to("skills")
    (workspace / "to-agents").symlink_to("AGENTS.md")
    (workspace / "same-file").hardlink_to(workspace / "AGENTS.md")
    (workspace / "elsewhere").mkdir()
    (workspace / "agents").symlink_to("elsewhere")
    for path in (
        "to-skills/x",
        "to-skills",
        "plain/../skills/x",
        "to-agents",
        "same-file",
        "elsewhere/x",
        "elsewhere/new/x",
        f"{workspace}/skills/x",
    ):
        with (
            pytest.raises(ToolError, match="read-only for tools"),
            open_place(View(workspace), path, for_writing=True, creates_parents=True),
        ):
            pass
        assert lead(workspace, path.replace("/new", ""))
    assert list((workspace / "skills").iterdir()) == []
    assert list((workspace / "elsewhere").iterdir()) == []


def test_a_place_does_not_follow_a_link_that_has_come_there_since(workspace: Path, outside: Path) -> None:
    (workspace / "s").write_text("mine", encoding="utf-8")

    def read_after_the_swap() -> None:
        with open_place(View(workspace), "s") as place:
            (workspace / "s").unlink()
            (workspace / "s").symlink_to(outside / "s")
            place.open(os.O_RDONLY)

    with pytest.raises(ToolError, match="changed while it was opened"):
        read_after_the_swap()


def test_a_place_stays_in_the_directory_that_was_opened(workspace: Path, outside: Path) -> None:
    (workspace / "d").mkdir()
    (workspace / "d/s").write_text("mine", encoding="utf-8")
    with open_place(View(workspace), "d/s") as place:
        (workspace / "d").rename(workspace / "moved")
        (workspace / "d").symlink_to(outside)
        with os.fdopen(place.open(os.O_RDONLY), encoding="utf-8") as file:
            assert file.read() == "mine"


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (stat.S_IFIFO, "is a pipe"),
        (stat.S_IFSOCK, "is a socket"),
        (stat.S_IFLNK, "is a link"),
        (stat.S_IFDIR, "is a directory; list_dir"),
        (stat.S_IFCHR, "is a device"),
        (stat.S_IFBLK, "is a device"),
    ],
)
def test_only_ordinary_files_pass(kind: int, told: str) -> None:
    refuse_unless_regular(os.stat_result((stat.S_IFREG | 0o644, *range(9))), "x")
    with pytest.raises(ToolError, match=f"^x: {told}"):
        refuse_unless_regular(os.stat_result((kind | 0o644, *range(9))), "x")
