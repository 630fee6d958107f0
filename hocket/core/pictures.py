"""Pictures as files: opening them with errors that name the file, and writing them."""

from __future__ import annotations

import base64
import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hocket.core.errors import ConfigurationError
from hocket.core.sounds import is_sound

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
MOST_SIDE = 16_384
"""Pixels of a side at most."""
MOST_PIXELS = 2**26
"""Pixels of a picture at most: 67 million, 200 MB when it is opened."""
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA")


def pillow() -> Any:
    """The module `PIL.Image`.

    Raises:
        ConfigurationError: when Pillow is missing.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ConfigurationError("pictures need the package Pillow: pip install 'hocket[media]'") from error
    return Image


def check_picture(data: bytes, name: str) -> None:
    """Refuses what is no picture that can be read, without decoding it.

    Raises:
        ConfigurationError: naming the picture, what is wrong with it and what to do.
    """
    _checked(data, name).close()
    try:
        with _silent(), pillow().open(io.BytesIO(data), formats=FORMATS) as again:
            again.verify()
    except Exception as error:
        raise _broken(name, error) from None


def open_picture(data: bytes, name: str) -> Image:
    """The picture in RGB, over white where it is transparent.

    Raises:
        ConfigurationError: as `check_picture`, and when its data end too early.
    """
    picture = _checked(data, name)
    try:
        with _silent():
            picture.load()
            if picture.has_transparency_data:
                clear = picture.convert("RGBA")
                picture = pillow().new("RGBA", clear.size, "white")
                picture.alpha_composite(clear)
            return picture.convert("RGB")
    except Exception as error:
        raise _broken(name, error) from None


def picture_bytes(picture: Any, name: str = "a picture") -> bytes:
    """The file of a picture: bytes as they are; a Pillow image, or an array `[H, W]` or `[H, W, 3]` of uint8, as PNG.

    Raises:
        ConfigurationError: for anything else.
    """
    if isinstance(picture, (bytes, bytearray, memoryview)):
        return bytes(picture)
    if not hasattr(picture, "save") and getattr(getattr(picture, "dtype", None), "name", "") == "uint8":
        picture = pillow().fromarray(picture)
    if not (hasattr(picture, "save") and hasattr(picture, "mode")):
        raise ConfigurationError(
            f"{name} is of type {type(picture).__name__}; give a file's bytes, a Pillow image or an array of uint8"
        )
    file = io.BytesIO()
    mode = picture.mode if picture.mode in _MODES else None
    if mode is None:
        raise ConfigurationError(f"{name} has the mode {picture.mode}; convert it to RGB")
    picture.save(file, format="PNG")
    return file.getvalue()


def blank_like(data: bytes, name: str) -> bytes:
    """The file of a grey picture of the same size."""
    return picture_bytes(pillow().new("RGB", open_picture(data, name).size, (128, 128, 128)))


def data_url(data: bytes) -> str:
    """The bytes of a picture's or a sound's file as a data URL."""
    if is_sound(data):
        return f"data:audio/wav;base64,{base64.b64encode(data).decode()}"
    kinds = {b"\x89PNG": "png", b"\xff\xd8": "jpeg", b"GIF8": "gif", b"BM": "bmp"}
    kind = next((kind for start, kind in kinds.items() if data.startswith(start)), "webp")
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def file_inside(folder: Path, path: str, where: str) -> Path:
    """The file of a relative path in a folder.

    Raises:
        ConfigurationError: when it lies elsewhere, or is not there.
    """
    from hocket.core.inside import leads_out

    if leads_out(folder, path):
        raise ConfigurationError(f"{where}: {path!r} lies outside {folder}; put the picture beside the data")
    if not (folder / path).is_file():
        raise ConfigurationError(f"{where}: there is no file {str(folder / path)!r}")
    return folder / path


def _checked(data: bytes, name: str) -> Image:
    library = pillow()
    try:
        with _silent():
            picture: Image = library.open(io.BytesIO(data), formats=FORMATS)
            width, height = picture.size
    except library.DecompressionBombError:
        raise ConfigurationError(
            f"{name} has more pixels than may be opened, {MOST_PIXELS:,}; make it smaller"
        ) from None
    except Exception as error:
        raise _broken(name, error) from None
    if not width or not height:
        raise ConfigurationError(f"{name} is {width} x {height} pixels, so it shows nothing; leave it out")
    if max(width, height) > MOST_SIDE or width * height > MOST_PIXELS:
        raise ConfigurationError(
            f"{name} is {width:,} x {height:,} pixels, more than {MOST_SIDE:,} a side or {MOST_PIXELS:,} in all; make "
            "it smaller"
        )
    if (frames := getattr(picture, "n_frames", 1)) > 1:
        raise ConfigurationError(f"{name} is animated ({frames} frames); save one frame of it")
    if picture.mode not in _MODES:
        raise ConfigurationError(f"{name} has the mode {picture.mode}; convert it to RGB")
    return picture


def _broken(name: str, error: Exception) -> ConfigurationError:
    kinds = ", ".join(FORMATS)
    words = " ".join(str(error).split()).split("<")[0].strip() or type(error).__name__
    return ConfigurationError(f"{name} cannot be read as a picture ({words}); give a whole file, one of {kinds}")


def _silent() -> Any:
    """Inside, Pillow warns of nothing: what is too large is refused by its size."""
    return warnings.catch_warnings(action="ignore")
