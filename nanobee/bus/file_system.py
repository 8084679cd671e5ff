"""File system: whether a folder is on this machine's own disk.

SQLite's write-ahead log needs memory that all its processes share, and locks that hold: a network
file system gives neither, and breaks both silently.
"""

import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

NETWORK_TYPES = frozenset(
    {
        *("9p", "afpfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "gfs", "gfs2", "glusterfs"),
        *("gpfs", "lustre", "ncp", "ncpfs", "nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb2", "smb3"),
        *("smbfs", "vboxsf", "vmhgfs", "webdav"),
    }
)
NETWORK_DRIVERS = frozenset(
    {
        *("afpfs", "blobfuse", "ceph", "ceph-fuse", "cifs", "curlftpfs", "davfs", "davfs2", "gcsfuse", "glusterfs"),
        *("google-drive-ocamlfuse", "goofys", "juicefs", "moosefs", "nfs", "rclone", "s3fs", "seaweedfs", "smb"),
        *("smbnetfs", "sshfs", "vmhgfs-fuse"),
    }
)
"""What stands after `fuse.`; other drivers (encryption, overlays) work on a local disk."""
MOUNTS = Path("/proc/self/mountinfo")
MOUNT_SECONDS = 5.0
"""How long the command `mount` may take where there is no such file."""
_ESCAPE = re.compile(r"\\([0-7]{3})")
_MOUNT_LINE = re.compile(r"^.* on (?P<point>/.*?) (?:type (?P<type>\S+) )?\((?P<options>[^)]*)\)$")


def network_type(folder: Path) -> str | None:
    """The type of the network file system that holds the folder; None on a local disk, or where it cannot be told."""
    path = PurePosixPath(folder.resolve().as_posix())
    if sys.platform == "win32":
        return "smb" if path.as_posix().startswith("//") else None
    mounts = _read_mounts()
    kind = type_at(mounts, path)
    return kind if kind is not None and is_network(kind) else None


def is_network(kind: str) -> bool:
    """Whether a type of file system reaches over a network."""
    prefix, dot, driver = kind.lower().partition(".")
    return driver in NETWORK_DRIVERS if prefix in ("fuse", "fuseblk") and dot else prefix in NETWORK_TYPES


def type_at(mounts: list[tuple[str, str]], path: PurePosixPath) -> str | None:
    """The type of the mount that `path` is in: the deepest one, and of several in one place the last."""
    found, depth = None, -1
    for point, kind in mounts:
        mount = PurePosixPath(point)
        if path.is_relative_to(mount) and len(mount.parts) >= depth:
            found, depth = kind, len(mount.parts)
    return found


def parse_mountinfo(text: str) -> list[tuple[str, str]]:
    """(mount point, type) of each line of Linux's /proc/self/mountinfo."""
    mounts = []
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if dash and len(fields) >= 5 and kind:
            mounts.append((_ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]), kind[0]))
    return mounts


def parse_mount(text: str) -> list[tuple[str, str]]:
    """(mount point, type) of each line that the command `mount` prints on macOS and the BSDs."""
    matches = (_MOUNT_LINE.match(line) for line in text.splitlines())
    return [(match["point"], match["type"] or match["options"].split(",")[0]) for match in matches if match]


def _read_mounts() -> list[tuple[str, str]]:
    try:
        return parse_mountinfo(MOUNTS.read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        return _ask_mount()


def _ask_mount() -> list[tuple[str, str]]:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(["mount"], capture_output=True, env=environment, timeout=MOUNT_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return parse_mount(os.fsdecode(done.stdout))
