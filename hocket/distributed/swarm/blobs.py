"""Large things in pieces that are named by what they are, so that whoever has one may hand it on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from hocket.core.errors import HocketError

PIECE = 2**18
"""Bytes of a piece; the last of a thing may have fewer."""

_NAME = "^[0-9a-f]{40}$"
Address = Annotated[str, Meta(pattern=_NAME)]


class MissingPiece(HocketError):
    """Nobody has handed out a piece that is what its name says."""


def address(data: bytes) -> str:
    """The name of a piece: 20 bytes of its BLAKE2b hash, in hexadecimals."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()


def is_name(text: str) -> bool:
    """Whether a piece may have this name."""
    return re.fullmatch(_NAME, text) is not None


class Manifest(Struct, frozen=True):
    """How a thing is put together.

    Attributes:
        size: in bytes. pieces: their names, in order.
    """

    size: Annotated[int, Meta(ge=0, lt=2**40)]
    pieces: Annotated[list[Address], Meta(max_length=2**20)]

    def written(self) -> bytes:
        """As bytes, which are a piece themselves."""
        return msgspec.msgpack.encode(self)

    def joined(self, pieces: Mapping[str, bytes]) -> bytes:
        """The thing.

        Raises:
            MissingPiece: when a piece is not there, is not what its name says, or all together have another size.
        """
        for name in self.pieces:
            if name not in pieces or address(pieces[name]) != name:
                raise MissingPiece(f"piece {name} is missing or damaged")
        data = b"".join(pieces[name] for name in self.pieces)
        if len(data) != self.size:
            raise MissingPiece(f"{len(data)} bytes where {self.size} were announced")
        return data


def taken_apart(data: bytes, piece: int = PIECE) -> tuple[Manifest, dict[str, bytes]]:
    """A thing as its pieces, by name; equal ones are one."""
    parts = [data[start : start + piece] for start in range(0, len(data), piece)]
    return Manifest(len(data), [address(part) for part in parts]), {address(part): part for part in parts}


def manifest_of(data: bytes) -> Manifest:
    """A manifest from its bytes.

    Raises:
        MissingPiece: when they are none.
    """
    try:
        return msgspec.msgpack.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MissingPiece(f"no manifest: {error}") from error


def nearest(name: str, nodes: Iterable[str], count: int) -> Sequence[str]:
    """The `count` nodes that are to hold a piece: those whose hash is nearest to its name by exclusive or (Kademlia).

    Everybody who knows the same nodes finds the same ones; when a node leaves, only its pieces have a new place.
    """
    place = int(name, 16)
    return sorted(nodes, key=lambda node: int(address(node.encode()), 16) ^ place)[:count]
