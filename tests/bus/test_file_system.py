"""Which folders are on a network file system."""

import os
from pathlib import Path, PurePosixPath

import pytest

from nanobee.bus import file_system
from nanobee.bus.file_system import is_network, network_type, parse_mount, parse_mountinfo, type_at

LINUX = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
36 27 0:45 / /mnt/share rw,relatime shared:1 - nfs4 server:/export rw,vers=4.2
37 36 254:1 / /mnt/share/local rw,relatime - ext4 /dev/vdb rw
38 27 0:46 / /mnt/a\040b\134c rw,relatime master:2 propagate_from:3 - cifs //nas/home rw
39 27 0:47 / /home/ann/remote rw,nosuid - fuse.sshfs ann@host: rw,user_id=0
40 27 0:48 / /srv rw - nfs server:/srv rw
41 27 254:2 / /srv rw - xfs /dev/vdc rw
torn line
42 27 0:49 / /half rw
"""
MACOS = """/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
/dev/disk3s5 on /System/Volumes/Data (apfs, local, journaled, nobrowse)
//ann@nas._smb._tcp.local/home on /Volumes/home (1) (smbfs, nodev, nosuid, mounted by ann)
nas:/export on /Volumes/nfs (nfs, asynchronous)
map auto_home on /System/Volumes/Data/home (autofs, automounted, nobrowse)
server:/x on /mnt/x type nfs4 (rw,relatime)
nonsense
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/deep/er", "nfs4"),
        ("/mnt/shared", "ext4"),
        ("/mnt/share/local/state", "ext4"),
        (r"/mnt/a b\c/state", "cifs"),
        ("/home/ann/remote/x", "fuse.sshfs"),
        ("/srv/state", "xfs"),
    ],
)
def test_the_deepest_and_last_mount_decides(path: str, kind: str) -> None:
    assert type_at(parse_mountinfo(LINUX), PurePosixPath(path)) == kind


def test_the_command_mount_is_read_where_there_is_no_mountinfo() -> None:
    mounts = parse_mount(MACOS)
    assert type_at(mounts, PurePosixPath("/Users/ann")) == "apfs"
    assert type_at(mounts, PurePosixPath("/Volumes/home (1)/state")) == "smbfs"
    assert type_at(mounts, PurePosixPath("/Volumes/nfs")) == "nfs"
    assert type_at(mounts, PurePosixPath("/mnt/x/y")) == "nfs4"


@pytest.mark.parametrize("text", ["", "\n", " - ", "a b c d e - ", "\x00", "on ( type"])
def test_what_is_no_mount_table_tells_nothing(text: str) -> None:
    assert type_at(parse_mountinfo(text), PurePosixPath("/x")) is None
    assert type_at(parse_mount(text), PurePosixPath("/x")) is None


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "afs", "fuse.sshfs", "NFS"]
)
def test_network_file_systems_are_known(kind: str) -> None:
    assert is_network(kind)


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "zfs", "apfs", "overlay", "tmpfs", "fuse", "fuse.gocryptfs", "fuseblk", "vfat", ""]
)
def test_local_file_systems_are_not_taken_for_them(kind: str) -> None:
    assert not is_network(kind)


def test_a_link_onto_a_share_does_not_hide_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    share, table, link = tmp_path / "share", tmp_path / "mounts", tmp_path / "state"
    share.mkdir()
    link.symlink_to(share)
    table.write_text(f"1 0 0:1 / / rw - ext4 /dev/x rw\n2 1 0:2 / {share.resolve()} rw - nfs4 s:/x rw\n", "utf-8")
    monkeypatch.setattr(file_system, "MOUNTS", table)
    assert network_type(link / "below") == "nfs4"
    assert network_type(tmp_path) is None


def test_where_no_table_can_be_read_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_system, "MOUNTS", tmp_path / "none")
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    assert network_type(tmp_path) is None
