"""Pictures in rows of data: parts of messages, and the columns `image` and `images` as TRL writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.media import pictures_in, with_pictures
from hocket.core.parts import content_of, open_places, picture_of

COLUMNS = ("image", "images")
_SAYING = ("prompt", "messages", "completion", "chosen", "rejected", "demonstration")
_SHOWING = ("user", "tool")
"""Roles whose messages may hold pictures."""


def with_digests(cells: Mapping[str, Any], folder: Path | None, where: str) -> dict[str, Any]:
    """The cells of a row with pictures as digests in its messages, and without columns of pictures.

    Pictures of a column take the places that messages leave for them, `{"type": "image"}`, or stand before the words of
    the first message of the user.

    Raises:
        ConfigurationError: when a picture cannot be read, or there are more or fewer than places.
    """
    filled = [cells[name] for name in COLUMNS if cells.get(name) is not None]
    sources = [source for cell in filled for source in (cell if isinstance(cell, list) else [cell])]
    pictures = [picture_of(source, f"{where}: picture {place}", folder) for place, source in enumerate(sources)]
    row = {name: cell for name, cell in cells.items() if name not in COLUMNS}
    asks = next((name for name in ("prompt", "messages") if row.get(name) is not None), None)
    for name in _SAYING:
        shown = pictures if name == asks or (asks is None and name in ("chosen", "rejected")) else []
        if isinstance(row.get(name), (list, str)) and (shown or isinstance(row[name], list)):
            row[name] = _messages(row[name], shown, folder, f"{where}: {name}")
    if isinstance(row.get("responses"), list):
        responses = enumerate(row["responses"])
        row["responses"] = [
            _messages(response, [], folder, f"{where}: responses[{place}]") if isinstance(response, list) else response
            for place, response in responses
        ]
    return row


def _messages(cell: Any, pictures: Sequence[str], folder: Path | None, where: str) -> Any:
    if isinstance(cell, str):
        return [{"role": "user", "content": with_pictures(cell, pictures)}]
    places = open_places(cell)
    if pictures and places and places != len(pictures):
        raise ConfigurationError(
            f"{where} has places for {places} pictures and {len(pictures)} are given; give each one"
        )
    filling = iter(pictures)
    first = not places
    messages = []
    for place, message in enumerate(cell):
        if not isinstance(message, Mapping) or message.get("content") is None:
            messages.append(message)  # Whoever reads the row says what is wrong.
            continue
        content = message["content"]
        if isinstance(content, list):
            content = content_of(content, f"{where}, message {place}", folder, _taken(filling, message, places))
        if first and pictures and message.get("role") == "user":
            first, content = False, _before(content, pictures)
        if not isinstance(content, str) and message.get("role") not in _SHOWING:
            raise ConfigurationError(
                f"{where}, message {place}: a message of {message.get('role')!r} holds a picture; put it into one of "
                "user or tool"
            )
        messages.append({**message, "content": content})
    if pictures and not pictures_in(messages):
        raise ConfigurationError(f"{where} has no message of the user's for its pictures; add one")
    return messages


def _taken(filling: Iterator[str], message: Mapping[str, Any], places: int) -> list[str]:
    return [digest for _, digest in zip(range(open_places([message])), filling, strict=False)] if places else []


def _before(content: Any, pictures: Sequence[str]) -> Any:
    return with_pictures(content, pictures) if isinstance(content, str) else [*with_pictures("", pictures), *content]
