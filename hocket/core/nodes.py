"""Trees: what follows what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Self, TypeVar

What = TypeVar("What")


class Node(Generic[What]):
    """A place in a tree, compared by identity: what came last, after which `parent`, and what came next.

    Attributes:
        turn: None at the root. children: in the order in which they came.
    """

    def __init__(self, parent: Self | None = None, turn: What | None = None) -> None:
        self.parent, self.turn = parent, turn
        self.children: list[Self] = []

    @property
    def nodes(self) -> list[Self]:
        """From the root to this one, both included."""
        path = [self]
        while (above := path[-1].parent) is not None:
            path.append(above)
        return path[::-1]

    def add(self, turn: What) -> Self:
        """A new child."""
        self.children.append(type(self)(self, turn))
        return self.children[-1]

    def below(self) -> Iterator[Self]:
        """This node and all below it, parents first."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children[::-1]
