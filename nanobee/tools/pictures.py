"""Pictures: files that a model can look at, made small enough for any server."""

import io
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass

from nanobee.chat import Image
from nanobee.errors import ToolError
from nanobee.messages import Attachment
from nanobee.tools.paths import open_place
from nanobee.tools.view import View

logger = logging.getLogger(__name__)

MAX_SIDE_PIXELS = 1568
"""Longer sides are scaled down: servers do it too, and charge for the bytes."""
MAX_PLAIN_BYTES = 1_500_000
"""A smaller file within the side limit is sent as it is."""
MAX_FILE_BYTES = 20 * 1024 * 1024
"""A larger file is not opened."""
MAX_PIXELS = 80_000_000
"""A larger picture is not unpacked: a few kilobytes can claim gigapixels."""
JPEG_QUALITY = 85
MAX_PICTURES = 8
"""Of one request; the newest ones."""
MARKS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def picture_type(head: bytes) -> str | None:
    """The MIME type of a picture that models take, by its first bytes."""
    for mark, mime_type in MARKS:
        if head.startswith(mark):
            return mime_type
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


@dataclass(frozen=True, slots=True)
class Loaded:
    """Pictures for one request, and what could not be shown."""

    images: tuple[Image, ...]
    missing: tuple[str, ...]
    """Paths, each with its reason."""


def load_pictures(view: View, pictures: Sequence[Attachment]) -> Loaded:
    """Read and shrink the newest pictures. Blocking: call it in a thread."""
    images: list[Image] = []
    missing = [f"{each.path}: too many pictures" for each in pictures[:-MAX_PICTURES]]
    for picture in pictures[-MAX_PICTURES:]:
        try:
            images.append(_shrink(_read(view, picture.path)))
        except ToolError as error:
            missing.append(str(error))
        except OSError as error:
            missing.append(f"{picture.path}: {error.strerror}")
    return Loaded(tuple(images), tuple(missing))


def _read(view: View, path: str) -> tuple[str, bytes]:
    with open_place(view, path) as place:
        descriptor = place.open(os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ToolError(f"{path}: larger than {MAX_FILE_BYTES // (1024 * 1024)} MB")
    return path, data


def _shrink(named: tuple[str, bytes]) -> Image:
    path, data = named
    mime_type = picture_type(data)
    if mime_type is None:
        raise ToolError(f"{path}: is no picture any more")
    try:
        from PIL import Image as Pillow
        from PIL import UnidentifiedImageError
    except ImportError:
        return _plain(path, mime_type, data)
    try:
        with Pillow.open(io.BytesIO(data)) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise ToolError(f"{path}: {opened.width} × {opened.height} pixels are too many")
            is_small = max(opened.size) <= MAX_SIDE_PIXELS and len(data) <= MAX_PLAIN_BYTES
            if is_small:
                return Image(mime_type, data)
            opened.draft("RGB", (MAX_SIDE_PIXELS, MAX_SIDE_PIXELS))
            smaller = opened.convert("RGB")
            smaller.thumbnail((MAX_SIDE_PIXELS, MAX_SIDE_PIXELS))
            buffer = io.BytesIO()
            smaller.save(buffer, "JPEG", quality=JPEG_QUALITY)
    except (UnidentifiedImageError, SyntaxError, ValueError, Pillow.DecompressionBombError) as error:
        raise ToolError(f"{path}: is damaged ({type(error).__name__})") from None
    return Image("image/jpeg", buffer.getvalue())


def _plain(path: str, mime_type: str, data: bytes) -> Image:
    if len(data) > MAX_PLAIN_BYTES:
        raise ToolError(f'{path}: too large to be sent unscaled; pip install "nanobee-gateway[images]"')
    return Image(mime_type, data)
