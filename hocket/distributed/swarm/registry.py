"""What nodes know of each other, without anybody in charge: every copy that heard the same holds the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

Word = Annotated[str, Meta(min_length=1, max_length=200)]

MOST = 4096
"""Entries that are held of all nodes together."""

NAMES = 8
"""Entries that are held of one node."""


class Entry(Struct, frozen=True, order=True):
    """Something that a node says of itself.

    Attributes:
        count: how often it has said something under this name. value: what, the latest time.
    """

    count: Annotated[int, Meta(ge=0, lt=2**53)]
    value: Annotated[str, Meta(max_length=2**10)]


class EntryMessage(Struct, frozen=True, order=True):
    """An entry on its way."""

    node: Word
    name: Word
    entry: Entry


class EntryRegistry:
    """Entries by node and name; of two under one name the later stays, of equally late ones the larger.

    Merging takes a maximum, so it is commutative, associative and idempotent: copies that heard the same entries are
    equal, in whatever order, however often and in whatever company they came (a state-based CRDT, Shapiro et al. 2011:
    a map of registers with one writer each).

    Args:
        node: whose copy it is. Entries of its name are its own to write; who says what of another node is for whoever
            merges to know (`hocket.distributed.swarm.mesh` takes it from that node alone).
    """

    def __init__(self, node: str) -> None:
        self.node = node
        self._held: dict[str, dict[str, Entry]] = {node: {}}
        self._count = 0  # Of others' entries.

    def write(self, name: str, value: str) -> None:
        """Says something of this node."""
        entries = self._held[self.node]
        before = entries.get(name, Entry(0, ""))
        entries[name] = Entry(before.count + 1, value)

    def merge(self, messages: Iterable[EntryMessage]) -> bool:
        """Takes in what others know; whether something was new.

        What they say of this node counts for nothing. Beyond `NAMES` entries of a node new names are left out, and
        beyond `MOST` of all the node that was heard of first is forgotten.
        """
        changed = False
        for message in messages:
            if message.node == self.node:
                continue
            held = self._held.setdefault(message.node, {})
            before = held.get(message.name)
            if before is None and len(held) < NAMES:
                self._count += 1
            elif before is None or not before < message.entry:
                continue
            held[message.name], changed = message.entry, True
            if self._count > MOST:
                self.forget(next(node for node in self._held if node not in (self.node, message.node)))
        return changed

    def forget(self, node: str) -> None:
        """Lets go of all that another node has said."""
        self._count -= len(self._held.pop(node, {}))

    def known(self) -> list[str]:
        """The other nodes that something is held of, who was heard of first in front."""
        return [node for node in self._held if node != self.node]

    def entries(self) -> list[EntryMessage]:
        """Everything, in order."""
        return sorted(
            EntryMessage(node, name, entry) for node, held in self._held.items() for name, entry in held.items()
        )

    def read(self, node: str, name: str) -> str | None:
        """What a node says under a name; None when nothing was heard."""
        entry = self._held.get(node, {}).get(name)
        return None if entry is None else entry.value

    def nodes(self, name: str) -> dict[str, str]:
        """Who says something under a name, and what, in the order of nodes."""
        return {node: self._held[node][name].value for node in sorted(self._held) if name in self._held[node]}
