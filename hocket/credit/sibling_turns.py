"""The tree of turns of a scenario's trajectories, for values of turns and pairs of turns with the same history."""

from __future__ import annotations

from typing import Self

from hocket.core.batch import Batch
from hocket.core.nodes import Node
from hocket.core.signals import turn_visits


class TurnNode(Node[int]):
    """A history: a path of turns from the beginning of a scenario's episodes; `turn` is its last one, -1 at the root.

    Attributes:
        leaves: the trajectories with this history, in assignment order.
    """

    turn: int

    def __init__(self, parent: Self | None = None, turn: int = -1) -> None:
        super().__init__(parent, turn)
        self.leaves: list[int] = []

    def value(self, of: list[float]) -> float:
        """The mean of `of` over its leaves."""
        return sum(of[leaf] for leaf in self.leaves) / len(self.leaves)


def turns_of(batch: Batch) -> list[list[int]]:
    """The turns of each trajectory in order, without those that have no decisions."""
    occurrences = batch.occurrences
    _, starts = turn_visits(batch)
    turns: list[list[int]] = [[] for _ in range(batch.trajectories)]
    visits = batch.turn[occurrences.decision[starts]].tolist()
    for trajectory, visited in zip(occurrences.trajectory[starts].tolist(), visits, strict=True):
        turns[trajectory].append(visited)
    return turns


def tree_of(members: list[int], turns: list[list[int]]) -> TurnNode:
    """The tree of the histories of `members`: trajectories share a node as long as their turns are the same."""
    root = TurnNode()
    for trajectory in members:
        node = root
        node.leaves.append(trajectory)
        for turn in turns[trajectory]:
            node = next((child for child in node.children if child.turn == turn), None) or node.add(turn)
            node.leaves.append(trajectory)
    return root
