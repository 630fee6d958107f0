"""What nodes know of each other, without anybody in charge: every copy that heard the same holds the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

Word = Annotated[str, Meta(min_length=1, max_length=200)]

MOST = 4096
"""Entries that are held of all nodes together."""


class Entry(Struct, frozen=True, order=True):
    """Something that a node says of itself.

    Attributes:
        count: how often it has said something under this name. value: what, the latest time.
    """

    count: Annotated[int, Meta(ge=0, lt=2**53)]
    value: Annotated[str, Meta(max_length=2**16)]


class Said(Struct, frozen=True, order=True):
    """An entry on its way."""

    node: Word
    name: Word
    entry: Entry


class Registry:
    """Entries by node and name; of two under one name the later stays, of equally late ones the larger.

    Merging takes a maximum, so it is commutative, associative and idempotent: copies that heard the same entries are
    equal, in whatever order, however often and in whatever company they came (a state-based CRDT, Shapiro et al. 2011:
    a map of registers with one writer each).

    Args:
        node: whose copy it is. Entries of its name are its own to write; nothing but the key that nodes share keeps
            others from it.
    """

    def __init__(self, node: str) -> None:
        self.node = node
        self._held: dict[tuple[str, str], Entry] = {}

    def write(self, name: str, value: str) -> None:
        """Says something of this node."""
        before = self._held.get((self.node, name), Entry(0, ""))
        self._held[self.node, name] = Entry(before.count + 1, value)

    def merge(self, said: Iterable[Said]) -> bool:
        """Takes in what others know; whether something was new. Beyond `MOST` entries new names are left out."""
        changed = False
        for one in said:
            place = one.node, one.name
            held = self._held.get(place)
            if held is None and len(self._held) >= MOST:
                continue
            if held is None or held < one.entry:
                self._held[place], changed = one.entry, True
        return changed

    def entries(self) -> list[Said]:
        """Everything, in order."""
        return sorted(Said(node, name, entry) for (node, name), entry in self._held.items())

    def read(self, node: str, name: str) -> str | None:
        """What a node says under a name; None when nothing was heard."""
        found = self._held.get((node, name))
        return None if found is None else found.value

    def nodes(self, name: str) -> dict[str, str]:
        """Who says something under a name, and what, in the order of nodes."""
        return {one.node: one.entry.value for one in self.entries() if one.name == name}
