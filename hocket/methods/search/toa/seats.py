"""Which of several models should answer next, and after which answers: trees whose actions are seats."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from hocket.rollout.message_search import RETURN, UCT
from hocket.rollout.message_tree import MessageNode


def worth(node: MessageNode) -> float:
    """What the answer of a node itself is worth."""
    return float(RETURN.get(node.episodes[0]))


class Growth(ABC):
    """Where a tree of answers grows. Every node but the root has one answer; the role of its turn is its seat."""

    @abstractmethod
    def place(self, root: MessageNode, seats: Sequence[str]) -> tuple[MessageNode, str]:
        """The node to go on from, and who answers."""


@dataclass(frozen=True)
class WideningTree(Growth):
    """Monte Carlo tree search over seats with progressive widening.

    From the root it goes to the child with the largest `Q + c sqrt(ln N_parent / N_child)`, Q the mean worth of the
    answers from there on, until a node has fewer children than `widen N^power`, rounded up; there a seat answers: first
    those that have not, the best so far in the whole tree before others, then the one of the largest bound.
    No chain gets longer than `depth`, and nodes below which nothing can grow are not gone to.

    Attributes:
        c: exploration, for worths in [0, 1].
    """

    c: float = 0.2
    widen: float = 1.5
    power: float = 0.4
    depth: int = 4

    def __post_init__(self) -> None:
        if self.c < 0 or self.widen <= 0 or self.power < 0 or self.depth < 1:
            raise ValueError(
                f"c = {self.c} and power = {self.power} must be at least 0, widen = {self.widen} above 0, and "
                f"depth = {self.depth} at least 1"
            )

    def place(self, root: MessageNode, seats: Sequence[str]) -> tuple[MessageNode, str]:
        node, depth = root, 0
        while depth + 1 < self.depth and len(node.children) >= self._width(node):
            node, depth = UCT(self.c).chosen(node), depth + 1
        return node, self._seat(root, node, seats)

    def _width(self, node: MessageNode) -> int:
        return max(1, math.ceil(self.widen * math.pow(node.visits, self.power)))

    def _seat(self, root: MessageNode, node: MessageNode, seats: Sequence[str]) -> str:
        here = {seat: [child for child in node.children if seat_of(child) == seat] for seat in seats}
        fresh = [seat for seat in seats if not here[seat]]
        if fresh:
            said = {seat: [worth(one) for one in root.below() if seat_of(one) == seat] for seat in fresh}
            return max(fresh, key=lambda seat: sum(said[seat]) / len(said[seat]) if said[seat] else math.inf)
        explored = math.log(sum(child.visits for child in node.children))

        def bound(seat: str) -> float:
            visits = sum(child.visits for child in here[seat])
            return sum(child.total for child in here[seat]) / visits + self.c * math.sqrt(explored / visits)

        return max(seats, key=bound)


@dataclass(frozen=True)
class SeatBeam(Growth):
    """Level by level: each of the `width` best answers of a level is gone on from by `candidates` seats in turn.

    Levels are at most `depth` deep; then another tree is begun beside the first.
    """

    width: int = 2
    candidates: int = 3
    depth: int = 4

    def __post_init__(self) -> None:
        if min(self.width, self.candidates, self.depth) < 1:
            raise ValueError(
                f"width = {self.width}, candidates = {self.candidates} and depth = {self.depth} must be at least 1"
            )

    def place(self, root: MessageNode, seats: Sequence[str]) -> tuple[MessageNode, str]:
        begun = len(root.children)
        if begun % self.candidates or not begun:
            return root, seats[begun % len(seats)]
        level = root.children[-self.candidates :]
        for _ in range(1, self.depth):
            beam = sorted(level, key=lambda node: -worth(node))[: self.width]
            short = next((node for node in beam if len(node.children) < self.candidates), None)
            if short is not None:
                return short, seats[len(short.children) % len(seats)]
            level = [child for node in beam for child in node.children]
        return root, seats[begun % len(seats)]


@dataclass(frozen=True)
class Alone(Growth):
    """Every answer is to the question alone, by the seats in turn: with one seat, the best of n of it."""

    def place(self, root: MessageNode, seats: Sequence[str]) -> tuple[MessageNode, str]:
        return root, seats[len(root.children) % len(seats)]


def seat_of(node: MessageNode) -> str | None:
    """Who gave the answer of a node; None for the root."""
    return None if node.turn is None else node.turn.role


def best_answer(root: MessageNode) -> MessageNode | None:
    """The node of the best answer, the earliest of equals in its tree; None where there is none."""
    return max(root.ends, key=worth, default=None)
