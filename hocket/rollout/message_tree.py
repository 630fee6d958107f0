"""Episodes of a scenario as a tree: what was said is a node, and what episodes have in common stands there once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hocket.types import Assignment, Replay, Trajectory, Turn


class MessageNode:
    """What was said so far: a path of messages from the beginning, the last of which is `turn` (None at the root).

    Attributes:
        children: messages that were said next. episodes: those that end here. aside: one that was put aside here.
        visits: how often a return was backed up through it. total: the sum of these returns.
    """

    def __init__(self, parent: MessageNode | None = None, turn: Turn | None = None) -> None:
        self.parent, self.turn = parent, turn
        self.children: list[MessageNode] = []
        self.episodes: list[Trajectory] = []
        self.aside: Trajectory | None = None
        self.visits = 0
        self.total = 0.0

    @property
    def mean(self) -> float:
        """The mean return; 0 before the first visit."""
        return self.total / self.visits if self.visits else 0.0

    @property
    def nodes(self) -> list[MessageNode]:
        """From the root to this one, both included."""
        found, node = [], self
        while node.parent is not None:
            found.append(node)
            node = node.parent
        return [node, *found[::-1]]

    @property
    def path(self) -> tuple[Turn, ...]:
        """The messages from the root to this one."""
        return tuple(node.turn for node in self.nodes if node.turn is not None)

    def add(self, turn: Turn) -> MessageNode:
        """A new child."""
        self.children.append(MessageNode(self, turn))
        return self.children[-1]

    def below(self) -> Iterator[MessageNode]:
        """This node and all below it, parents first."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children[::-1]

    def back_up(self, value: float) -> None:
        """Counts a return here and in every node above."""
        for node in self.nodes:
            node.visits += 1
            node.total += value


def grafted(root: MessageNode, trajectory: Trajectory) -> MessageNode:
    """Puts an episode into the tree; the node it ends in. Messages that stand there already become the tree's own."""
    node, known = root, dict[int, Turn]()
    turns = []
    for turn in trajectory.turns:
        if turn.parent is not None:
            turn.parent = known.get(id(turn.parent), turn.parent)
        child = next((one for one in node.children if one.turn is not None and same(one.turn, turn)), None)
        node = child or node.add(turn)
        assert node.turn is not None
        known[id(turn)] = node.turn
        turns.append(node.turn)
    trajectory.turns = turns
    node.episodes.append(trajectory)
    return node


def same(one: Turn, other: Turn) -> bool:
    """Whether two turns are the same answer of the same agent to the same context."""
    if one is other:
        return True
    alike = one.agent == other.agent and one.parent is other.parent and one.finish == other.finish
    return alike and np.array_equal(one.action, other.action) and np.array_equal(one.observation, other.observation)


def onward(asking: Assignment, node: MessageNode, *, first: int, samples: int, more: int | None = None) -> Assignment:
    """`samples` further episodes, numbered from `first`, that begin as `node` says."""
    return replace(asking, samples=samples, first=first, replay=Replay(node.path, sample=asking.first, more=more))
