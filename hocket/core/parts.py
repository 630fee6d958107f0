"""Content of messages in parts, as people write it: text, and pictures by file, data URL, bytes or Pillow image."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.media import MEDIA, Parts, image_part
from hocket.core.pictures import check_picture, file_inside, picture_bytes

FORMS = '{"type": "text", "text": ..} or {"type": "image", "image": ..}'
_SOURCES = ("image", "path", "url", "bytes", "base64")


def content_of(content: Any, where: str, folder: Path | None, pictures: Sequence[str] = ()) -> str | Parts:
    """Content as messages hold it: a text, or parts that name pictures by digest. Parts of text alone are joined.

    Args:
        content: a text, or a list of parts. where: its place, in errors.
        folder: where files may lie; None where none may be named.
        pictures: digests of those that parts without a picture of their own stand for, in order; all are used.

    Raises:
        ConfigurationError: for a part that cannot be read.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, (list, tuple)) or not content:
        raise ConfigurationError(f"{where} has neither text nor parts as its content; write {FORMS}")
    left = iter(pictures)
    parts = [_part(part, f"{where}, part {place}", folder, left) for place, part in enumerate(content)]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def picture_of(source: Any, where: str, folder: Path | None) -> str:
    """The digest of a picture: a path in `folder`, a data URL, bytes, a Pillow image, or a mapping that holds one.

    Raises:
        ConfigurationError: when it cannot be read, or lies elsewhere.
    """
    if isinstance(source, Mapping):
        stated = [source[name] for name in _SOURCES if source.get(name) is not None]
        sources = [value for value in stated if isinstance(value, (bytes, bytearray))] or stated
        if not sources:
            raise ConfigurationError(f"{where} names no picture; write a path, a data URL or its bytes")
        return picture_of(sources[0], where, folder)
    if isinstance(source, Path):
        source = str(source)
    if not isinstance(source, str):
        data = picture_bytes(source, where)
    elif source.startswith("data:"):
        data = _from_url(source, where)
    elif "://" in source:
        raise ConfigurationError(
            f"{where}: {source[:60]!r} would be fetched, and nothing is; put the file beside the data"
        )
    elif folder is None:
        raise ConfigurationError(
            f"{where}: {source[:60]!r} is a file's name; give its bytes, a data URL or a Pillow image"
        )
    else:
        file = file_inside(folder, source, where)
        check_picture(file.read_bytes(), str(file))
        return MEDIA.put_file(file)
    check_picture(data, where)
    return MEDIA.put(data, where)


def open_places(messages: Any) -> int:
    """How many parts of messages stand for a picture that is given elsewhere."""
    contents = [message.get("content") for message in messages if isinstance(message, Mapping)]
    return sum(_is_open(part) for content in contents if isinstance(content, list) for part in content)


def _is_open(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "image" and not any(map(part.get, _SOURCES))


def _part(part: Any, where: str, folder: Path | None, left: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if _is_open(part):
        digest = next(left, None)
        if digest is None:
            raise ConfigurationError(
                f"{where} stands for a picture, and none is left; give as many as there are places"
            )
        return image_part(digest)
    if kind == "image":
        return image_part(picture_of(part, where, folder))
    if kind == "image_url":
        url = part.get("image_url")
        return image_part(picture_of(url if isinstance(url, Mapping) else {"url": url}, where, folder))
    shown = f"is of type {kind!r}{nearest(str(kind), ('text', 'image', 'image_url'))}" if kind else "has no type"
    raise ConfigurationError(f"{where} {shown}; write {FORMS}")


def _from_url(url: str, where: str) -> bytes:
    heading, comma, body = url.partition(",")
    if not comma or not heading.endswith(";base64"):
        raise ConfigurationError(f"{where}: {heading[:40]!r} is no data URL; write data:image/png;base64,..")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ConfigurationError(f"{where}: its data URL is not valid base64 ({error})") from None
