"""Pictures for a request: found, shrunk, or left out with a reason."""

import io
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image as Pillow

from nanobee.messages import Attachment
from nanobee.tools.pictures import MAX_FILE_BYTES, MAX_PICTURES, MAX_SIDE_PIXELS, load_pictures, picture_type
from nanobee.tools.view import View


def picture(path: str) -> Attachment:
    return Attachment("image", path, path)


def save(path: Path, width: int, height: int, kind: str = "PNG") -> None:
    Pillow.new("RGB", (width, height), "orange").save(path, kind)


@pytest.mark.parametrize(
    ("kind", "mime_type"), [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("GIF", "image/gif"), ("WEBP", "image/webp")]
)
def test_a_small_picture_is_sent_as_it_is(kind: str, mime_type: str, tmp_path: Path) -> None:
    save(tmp_path / "a", 20, 10, kind)
    loaded = load_pictures(View(tmp_path), [picture("a")])
    assert [(image.mime_type, image.data) for image in loaded.images] == [(mime_type, (tmp_path / "a").read_bytes())]


def test_a_large_picture_is_scaled_to_what_servers_take(tmp_path: Path) -> None:
    save(tmp_path / "a.png", 4000, 1000)
    [image] = load_pictures(View(tmp_path), [picture("a.png")]).images
    assert image.mime_type == "image/jpeg"
    with Pillow.open(io.BytesIO(image.data)) as shrunk:
        assert shrunk.size == (MAX_SIDE_PIXELS, MAX_SIDE_PIXELS // 4)


def test_what_cannot_be_shown_is_told_with_its_reason_and_costs_no_other(tmp_path: Path) -> None:
    save(tmp_path / "good.png", 5, 5)
    (tmp_path / "torn.png").write_bytes((tmp_path / "good.png").read_bytes()[:40])
    (tmp_path / "text.png").write_text("not a picture")
    with (tmp_path / "huge.png").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    (tmp_path / "outside.png").symlink_to("/etc/hostname")
    names = ["torn.png", "text.png", "huge.png", "outside.png", "gone.png", "../x.png", "good.png"]
    loaded = load_pictures(View(tmp_path), [picture(name) for name in names])
    assert len(loaded.images) == 1
    assert len(loaded.missing) == len(names) - 1


def test_a_small_file_that_claims_gigapixels_is_not_unpacked(tmp_path: Path) -> None:
    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + head + struct.pack(">I", zlib.crc32(b"IHDR" + head))
    (tmp_path / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk)
    loaded = load_pictures(View(tmp_path), [picture("bomb.png")])
    assert loaded.images == ()
    assert len(loaded.missing) == 1


def test_only_the_newest_pictures_are_shown(tmp_path: Path) -> None:
    for number in range(MAX_PICTURES + 2):
        save(tmp_path / f"{number}.png", 2, 2)
    loaded = load_pictures(View(tmp_path), [picture(f"{number}.png") for number in range(MAX_PICTURES + 2)])
    assert len(loaded.images) == MAX_PICTURES
    assert [each.split(":")[0] for each in loaded.missing] == ["0.png", "1.png"]


def test_text_that_begins_like_no_picture_is_none() -> None:
    assert picture_type(b"RIFF....WAVE") is None
    assert picture_type(b"") is None
