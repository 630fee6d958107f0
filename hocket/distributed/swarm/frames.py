"""What nodes say on a line: checked, bounded data."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from hocket.core.errors import HocketError
from hocket.distributed.swarm.blobs import PIECE
from hocket.distributed.swarm.lines import Line
from hocket.distributed.swarm.messages import LARGEST
from hocket.distributed.swarm.registry import MOST, EntryMessage, Word

FRAME = 4 * LARGEST
"""Bytes of a message on a line."""

Place = Annotated[str, Meta(max_length=200)]


class EntryList(Struct, frozen=True, tag="told"):
    """Everything a node knows, by which the other answers with the same.

    Attributes:
        node: who knows it. life: differs when a node begins anew under its name.
    """

    entries: Annotated[list[EntryMessage], Meta(max_length=MOST)]
    node: Annotated[str, Meta(max_length=200)] = ""
    life: Annotated[str, Meta(max_length=40)] = ""


class SentGroups(Struct, frozen=True, tag="sent"):
    """Something for the node that hears it."""

    data: bytes


class PieceRequest(Struct, frozen=True, tag="asked"):
    """Asks for a piece; the answer is `Given`, with None where it is not there."""

    name: Place


class Given(Struct, frozen=True, tag="given"):
    """A piece: as an answer, or to be kept."""

    data: Annotated[bytes, Meta(max_length=PIECE)] | None


class Yours(Struct, frozen=True, tag="yours"):
    """Asks whether the node has opened a line with this token to this place."""

    token: Place
    place: Place


class Mine(Struct, frozen=True, tag="mine"):
    """The answer: who is asked, and whether it has."""

    node: Word
    opened: bool


Frame = EntryList | SentGroups | PieceRequest | Given | Yours | Mine


class Hello(Struct, frozen=True):
    """The first thing on a line: who has opened it, where it listens, and what proves there that it has."""

    node: Word
    where: Place = ""
    token: Place = ""


_READER = msgspec.msgpack.Decoder(Frame)
_HELLO = msgspec.msgpack.Decoder(Hello)


def read(line: Line) -> Frame:
    """The next thing on a line.

    Raises:
        HocketError: when it is none. OSError, EOFError: when it does not come in time.
    """
    frame: Frame = _decoded(_READER, line.recv_bytes(FRAME))
    return frame


def greeting(line: Line) -> Hello:
    """The first thing on a line; raises as `read`."""
    hello: Hello = _decoded(_HELLO, line.recv_bytes(LARGEST))
    return hello


def _decoded(reader: msgspec.msgpack.Decoder[Any], data: bytes) -> Any:
    try:
        return reader.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HocketError(f"no message: {error}") from error


def encoded(frame: Frame | Hello) -> bytes:
    """As it goes over a line."""
    return msgspec.msgpack.encode(frame)
