"""Pictures and sounds in rows of data: parts of messages, and columns: `image`, `images` (TRL's), `audio`, `audios`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.media import KINDS, media_in, with_media
from hocket.core.parts import content_of, media_of, open_places

COLUMNS = {"image": "image", "images": "image", "audio": "audio", "audios": "audio"}
"""Columns that hold media, with their kind."""
_SAYING = ("prompt", "messages", "completion", "chosen", "rejected", "demonstration")
_SHOWING = ("user", "tool")
"""Roles whose messages may hold media."""

Media = Sequence[tuple[str, str]]
"""Kinds and digests."""


def with_digests(cells: Mapping[str, Any], folder: Path | None, where: str) -> dict[str, Any]:
    """The cells of a row with pictures and sounds as digests in its messages, and without columns of them.

    Those of a column take the places that messages leave for them, `{"type": "image"}` or `{"type": "audio"}`, or stand
    before the words of the first message of the user.

    Raises:
        ConfigurationError: when one cannot be read, or there are more or fewer than places.
    """
    media = [item for name, kind in COLUMNS.items() for item in _column(cells.get(name), kind, folder, where)]
    row = {name: cell for name, cell in cells.items() if name not in COLUMNS}
    asks = next((name for name in ("prompt", "messages") if row.get(name) is not None), None)
    for name in _SAYING:
        shown = media if name == asks or (asks is None and name in ("chosen", "rejected")) else []
        if isinstance(row.get(name), (list, str)) and (shown or isinstance(row[name], list)):
            row[name] = _messages(row[name], shown, folder, f"{where}: {name}")
    if isinstance(row.get("responses"), list):
        responses = enumerate(row["responses"])
        row["responses"] = [
            _messages(response, [], folder, f"{where}: responses[{place}]") if isinstance(response, list) else response
            for place, response in responses
        ]
    return row


def _column(cell: Any, kind: str, folder: Path | None, where: str) -> Media:
    sources = [] if cell is None else cell if isinstance(cell, list) else [cell]
    places = enumerate(sources)
    return [(kind, media_of(kind, source, f"{where}: {KINDS[kind]} {place}", folder)) for place, source in places]


def _messages(cell: Any, media: Media, folder: Path | None, where: str) -> Any:
    if isinstance(cell, str):
        return [{"role": "user", "content": with_media(cell, media)}]
    filling, before = {}, list[tuple[str, str]]()
    for kind, word in KINDS.items():
        digests, places = [digest for medium, digest in media if medium == kind], open_places(cell, kind)
        if digests and places and places != len(digests):
            raise ConfigurationError(
                f"{where} has places for {places} {word}s and {len(digests)} are given; give each one"
            )
        filling[kind] = iter(digests if places else ())
        before += [] if places else [(kind, digest) for digest in digests]
    messages = []
    for place, message in enumerate(cell):
        if not isinstance(message, Mapping) or message.get("content") is None:
            messages.append(message)  # Whoever reads the row says what is wrong.
            continue
        content = message["content"]
        if isinstance(content, list):
            content = content_of(content, f"{where}, message {place}", folder, filling)
        if before and message.get("role") == "user":
            parts = with_media(content, before) if isinstance(content, str) else [*with_media("", before), *content]
            before, content = [], parts
        if not isinstance(content, str) and message.get("role") not in _SHOWING:
            word = KINDS[media_in([{"content": content}])[0][0]]
            raise ConfigurationError(
                f"{where}, message {place}: a message of {message.get('role')!r} holds a {word}; put it into one of "
                "user or tool"
            )
        messages.append({**message, "content": content})
    if before:
        raise ConfigurationError(f"{where} has no message of the user's for its {KINDS[before[0][0]]}s; add one")
    return messages
