"""What the turns of a tree are worth, and pairs of those that answer the same history."""

from __future__ import annotations

from typing import Self

from hocket.core.batch import Batch
from hocket.core.nodes import Node
from hocket.core.signals import turn_visits


class TurnNode(Node[int]):
    """A history: a path of turns from the beginning of a scenario's episodes; `turn` is its last, -1 at the root.

    Attributes:
        leaves: the trajectories that came by, in assignment order.
    """

    turn: int

    def __init__(self, parent: Self | None = None, turn: int = -1) -> None:
        super().__init__(parent, turn)
        self.leaves: list[int] = []

    def value(self, of: list[float]) -> float:
        """The mean over its leaves."""
        return sum(of[leaf] for leaf in self.leaves) / len(self.leaves)


def turns_of(batch: Batch) -> list[list[int]]:
    """The turns of each trajectory in order, those without decisions left out."""
    occurrences = batch.occurrences
    _, starts = turn_visits(batch)
    found: list[list[int]] = [[] for _ in range(batch.trajectories)]
    turn = batch.turn[occurrences.decision[starts]].tolist()
    for trajectory, own in zip(occurrences.trajectory[starts].tolist(), turn, strict=True):
        found[trajectory].append(own)
    return found


def tree_of(members: list[int], turns: list[list[int]]) -> TurnNode:
    """The histories of `members`: trajectories share one for as long as their turns are the same."""
    root = TurnNode()
    for trajectory in members:
        told = root
        told.leaves.append(trajectory)
        for turn in turns[trajectory]:
            told = next((child for child in told.children if child.turn == turn), None) or told.add(turn)
            told.leaves.append(trajectory)
    return root
