"""Episodes of a scenario as a tree: a node is a message, and what episodes have in common stands there once."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Self

import numpy as np

from hocket.core.columns import LIMIT
from hocket.core.errors import HocketError
from hocket.core.nodes import Node
from hocket.types import PAUSED, Assignment, Replay, Trajectory, Turn


class MessageNode(Node[Turn]):
    """The messages so far: a path from the beginning, the last of which is `turn`.

    Attributes:
        episodes: those that end here. aside: one that was put aside here.
        visits: how often a return was backed up through it. total: the sum of these returns.
    """

    def __init__(self, parent: Self | None = None, turn: Turn | None = None) -> None:
        super().__init__(parent, turn)
        self.episodes: list[Trajectory] = []
        self.aside: Trajectory | None = None
        self.visits = 0
        self.total = 0.0

    @property
    def mean(self) -> float:
        """The mean return; 0 before the first visit."""
        return self.total / self.visits if self.visits else 0.0

    @property
    def path(self) -> tuple[Turn, ...]:
        """The messages from the root to this one."""
        return tuple(node.turn for node in self.nodes if node.turn is not None)

    @property
    def ends(self) -> list[MessageNode]:
        """Where episodes ended, here and below."""
        return [node for node in self.below() if node.episodes]

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
        child = next((child for child in node.children if child.turn is not None and same(child.turn, turn)), None)
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


@dataclass(eq=False)
class StepTree:
    """The episodes of one scenario that go on from one another, numbered in the order in which they are asked for.

    Where it grows is its user's rule: at nodes drawn evenly (`StepTrees`), where a tool left the policy unsure
    (`EntropyForks`), at what was worth most (`DialogueTree`, `UCT`, beams, trees over seats).

    Attributes:
        asking: what was asked; what a workflow draws itself is drawn as in its first sample. calls: samples so far.
    """

    asking: Assignment
    _: KW_ONLY
    root: MessageNode = field(default_factory=MessageNode)
    calls: int = 0

    def further(self, samples: int = 1) -> Assignment:
        """So many further episodes from the beginning, each with draws of its own."""
        first = self.asking.first + self.calls
        self.calls += samples
        return replace(self.asking, samples=samples, first=first)

    def onward(self, node: MessageNode, *, samples: int = 1, more: int | None = None) -> Assignment:
        """So many further episodes that begin as `node` says."""
        return onward(self.asking, node, first=self.further(samples).first, samples=samples, more=more)

    def add(self, episode: Trajectory, node: MessageNode) -> MessageNode:
        """Where an episode ends that went on from `node`; its new turns are nodes, also where they say the same."""
        for turn in episode.turns[len(node.path) :]:
            node = node.add(turn)
        if LIMIT.get(episode) == PAUSED:
            node.aside = episode
        else:
            node.episodes.append(episode)
        return node

    def step(self, episode: Trajectory, node: MessageNode) -> MessageNode:
        """The one message that an episode adds to `node`.

        Raises:
            HocketError: when it failed, or not one message came.
        """
        if episode.failure is not None:
            raise HocketError(f"an episode failed in search: {episode.failure}")
        new = len(episode.turns) - len(node.path)
        if new != 1:
            raise HocketError(
                f"search goes message by message, but {new} came at once; the workflow must await every call, and its "
                "player must know Assignment.replay"
            )
        return self.add(episode, node)
