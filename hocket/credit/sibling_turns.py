"""What the turns of a tree are worth, and pairs of those that answer the same history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hocket.core.batch import Batch
from hocket.core.signals import turn_visits


@dataclass
class TurnNode:
    """A history: a path of turns from the beginning of a scenario's episodes; `turn` is its last, -1 at the root.

    Attributes:
        leaves: the trajectories that came by, in assignment order. children: what was said next.
    """

    turn: int = -1
    leaves: list[int] = field(default_factory=list)
    children: dict[int, TurnNode] = field(default_factory=dict)

    def value(self, of: list[float]) -> float:
        """The mean over its leaves."""
        return sum(of[leaf] for leaf in self.leaves) / len(self.leaves)

    def below(self) -> Iterator[TurnNode]:
        """This history and all that go on from it, shorter ones first."""
        waiting = [self]
        while waiting:
            told = waiting.pop()
            yield told
            waiting += list(told.children.values())[::-1]


def turns_of(batch: Batch) -> list[list[int]]:
    """The turns of each trajectory in order, those without decisions left out."""
    seen = batch.occurrences
    _, starts = turn_visits(batch)
    found: list[list[int]] = [[] for _ in range(batch.trajectories)]
    turn = batch.turn[seen.decision[starts]].tolist()
    for trajectory, own in zip(seen.trajectory[starts].tolist(), turn, strict=True):
        found[trajectory].append(own)
    return found


def tree_of(members: list[int], turns: list[list[int]]) -> TurnNode:
    """The histories of `members`: trajectories share one for as long as their turns are the same."""
    root = TurnNode()
    for trajectory in members:
        told = root
        told.leaves.append(trajectory)
        for turn in turns[trajectory]:
            told = told.children.setdefault(turn, TurnNode(turn))
            told.leaves.append(trajectory)
    return root
