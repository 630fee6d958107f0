"""Content of messages in parts, as people write it: text, pictures and sounds by file, data URL, bytes or object."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.media import KINDS, MEDIA, Parts, media_part
from hocket.core.pictures import check_picture, file_inside, picture_bytes
from hocket.core.sounds import open_sound, sound_bytes

FORMS = '{"type": "text", "text": ..}, {"type": "image", "image": ..} or {"type": "audio", "audio": ..}'
_SOURCES = ("image", "audio", "path", "url", "bytes", "base64")
_TYPES = ("text", *KINDS, "image_url", "input_audio")
Filling = Mapping[str, Iterator[str]]
"""Digests by kind, for parts that stand for media that is given elsewhere; they are taken in order."""


def content_of(content: Any, where: str, folder: Path | None, filling: Filling | None = None) -> str | Parts:
    """Content as messages hold it: a text, or parts that name media by digest. Parts of text alone are joined.

    Args:
        content: a text, or a list of parts. where: its place, in errors.
        folder: where files may lie; None where none may be named.
        filling: what parts without a picture or sound of their own stand for.

    Raises:
        ConfigurationError: for a part that cannot be read.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, (list, tuple)) or not content:
        raise ConfigurationError(f"{where} has neither text nor parts as its content; write {FORMS}")
    parts = [_part(part, f"{where}, part {place}", folder, filling or {}) for place, part in enumerate(content)]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def picture_of(source: Any, where: str, folder: Path | None) -> str:
    """The digest of a picture: a path in `folder`, a data URL, bytes, a Pillow image, or a mapping that holds one.

    Raises:
        ConfigurationError: when it cannot be read, or lies elsewhere.
    """
    return media_of("image", source, where, folder)


def media_of(kind: str, source: Any, where: str, folder: Path | None) -> str:
    """The same of a picture or a sound; a sound may be a `Sound`, or `{"array", "sampling_rate"}`, as well.

    Raises:
        ConfigurationError: as `picture_of`.
    """
    if isinstance(source, Mapping) and "array" not in source:
        stated = [source[name] for name in _SOURCES if source.get(name) is not None]
        sources = [value for value in stated if isinstance(value, (bytes, bytearray))] or stated
        if not sources:
            raise ConfigurationError(f"{where} names no {KINDS[kind]}; write a path, a data URL or its bytes")
        return media_of(kind, sources[0], where, folder)
    if isinstance(source, Path):
        source = str(source)
    if not isinstance(source, str):
        data = picture_bytes(source, where) if kind == "image" else sound_bytes(source, where)
    elif source.startswith("data:"):
        data = _from_url(source, where)
    elif "://" in source:
        raise ConfigurationError(
            f"{where}: {source[:60]!r} would be fetched, and nothing is; put the file beside the data"
        )
    elif folder is None:
        raise ConfigurationError(f"{where}: {source[:60]!r} is a file's name; give its bytes or a data URL")
    else:
        file = file_inside(folder, source, where)
        _check(kind, file.read_bytes(), str(file))
        return MEDIA.put_file(file)
    _check(kind, data, where)
    return MEDIA.put(data, where)


def _check(kind: str, data: bytes, name: str) -> None:
    if kind == "image":
        check_picture(data, name)
    else:
        open_sound(data, name)


def open_places(messages: Any, kind: str) -> int:
    """How many parts of messages stand for a picture or sound that is given elsewhere."""
    contents = [message.get("content") for message in messages if isinstance(message, Mapping)]
    return sum(_open_kind(part) == kind for content in contents if isinstance(content, list) for part in content)


def _open_kind(part: Any) -> str | None:
    """The kind of what a part stands for that names none; None for other parts."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    return str(kind) if kind in KINDS and not any(part.get(name) is not None for name in _SOURCES) else None


def _part(part: Any, where: str, folder: Path | None, filling: Filling) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if (open_kind := _open_kind(part)) is not None:
        digest = next(filling.get(open_kind, iter(())), None)
        if digest is None:
            raise ConfigurationError(
                f"{where} stands for a {KINDS[open_kind]}, and none is left; give as many as there are places"
            )
        return media_part(open_kind, digest)
    if kind in KINDS:
        return media_part(str(kind), media_of(str(kind), part, where, folder))
    if kind == "image_url":
        url = part.get("image_url")
        return media_part("image", picture_of(url if isinstance(url, Mapping) else {"url": url}, where, folder))
    if kind == "input_audio":
        return media_part("audio", media_of("audio", _from_base64(part.get("input_audio"), where), where, folder))
    shown = f"is of type {kind!r}{nearest(str(kind), _TYPES)}" if kind else "has no type"
    raise ConfigurationError(f"{where} {shown}; write {FORMS}")


def _from_url(url: str, where: str) -> bytes:
    heading, comma, body = url.partition(",")
    if not comma or not heading.endswith(";base64"):
        raise ConfigurationError(f"{where}: {heading[:40]!r} is no data URL; write data:image/png;base64,..")
    return _decoded(body, f"{where}: its data URL")


def _from_base64(held: Any, where: str) -> bytes:
    """The bytes in `input_audio` of OpenAI's protocol, `{"data": BASE64, "format": "wav"}`."""
    data = held.get("data") if isinstance(held, Mapping) else None
    if not isinstance(data, str):
        raise ConfigurationError(f'{where} holds no sound; write {{"data": BASE64, "format": "wav"}} as input_audio')
    return _decoded(data, f"{where}: its data")


def _decoded(body: str, name: str) -> bytes:
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ConfigurationError(f"{name} is not valid base64 ({error})") from None
