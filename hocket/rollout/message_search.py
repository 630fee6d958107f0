"""Monte Carlo tree search over what agents say: an edge is one message."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from hocket.core import sums
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.rollout.dynamic import total
from hocket.rollout.groups import groups
from hocket.rollout.message_tree import MessageNode, StepTree
from hocket.stages import Play
from hocket.types import Trajectory

Valued = Callable[[Sequence[Trajectory]], Awaitable[Sequence[float]]]
"""What episodes that were put aside are worth, in [-1, 1]."""


RETURN = InfoColumn("return", "What the episode is worth to a search, in [-1, 1].")


@dataclass(eq=False)
class Tree(StepTree):
    """The search for one scenario; so many messages were sampled as were asked for."""

    key: Key


@dataclass(frozen=True)
class UCT:
    """How a tree of messages grows: MASPRM (arXiv 2510.24803), section on MAS-MCTS, and the authors' code.

    A search goes down from the beginning. From a node without children `candidates` messages are sampled, independent
    and not merged; those that end an episode are all judged, which ends the search, else it goes on from one of them at
    random. Where there are children it takes the one that maximises

        Q + c sqrt(ln N_parent / N_child)

    (unvisited ones count as visited once). The value of each end goes to every node on its way, so a node's visits are
    the sum of its children's. The authors halve the candidates of the last agent and stop early where the root's mean
    does not change; neither is done here.

    Attributes:
        c: exploration; None goes to the child visited least, the limit of a large c. With UCT proper a node's mean
            rises towards the outcome of its best candidates; with None, since candidates are the agents' own draws, it
            is an unbiased estimate of what the team earns from there.
        candidates: messages sampled from a node.
    """

    c: float | None = 2.0
    candidates: int = 4

    def __post_init__(self) -> None:
        if (self.c is not None and self.c < 0) or self.candidates < 1:
            raise ValueError(f"c must be at least 0 and candidates at least 1, not {self.c} and {self.candidates}")

    def chosen(self, node: MessageNode) -> MessageNode:
        """The child to go on with, the earliest of equals."""
        if self.c is None:
            return min(node.children, key=lambda child: child.visits)
        explored, c = math.log(max(node.visits, 1)), self.c
        return max(node.children, key=lambda child: child.mean + c * math.sqrt(explored / max(child.visits, 1)))

    async def search(
        self, trees: Sequence[Tree], *, play: Play, judge: Valued, value: Valued | None = None
    ) -> list[Trajectory]:
        """Goes through every tree once, side by side; the episodes that ended in it.

        `judge` tells what an ended episode is worth, in [-1, 1]. With `value` no search is played to its end: what it
        says of the message chosen is backed up instead.
        """
        live = [(tree, tree.root) for tree in trees]
        ended: list[Trajectory] = []
        while live:
            live = [(tree, self._down(node)) for tree, node in live]
            for _, node in live:
                if node.episodes:
                    node.back_up(float(RETURN.get(node.episodes[0])))
            live = [(tree, node) for tree, node in live if not node.episodes]
            assignments = [tree.onward(node, samples=self.candidates, more=1) for tree, node in live]
            grown = [
                (tree, [tree.step(episode, node) for episode in played])
                for (tree, node), played in zip(live, await groups(play, assignments), strict=True)
            ]
            fresh = [episode for _, nodes in grown for node in nodes for episode in node.episodes]
            for episode, worth in zip(fresh, await judge(fresh) if fresh else [], strict=True):
                RETURN.write(episode, float(worth))
            ended += fresh
            live = [(tree, taken) for tree, nodes in grown if (taken := self._taken(tree, nodes)) is not None]
            if value is not None and live:
                worths = await value([node.aside for _, node in live if node.aside is not None])
                for (_, node), worth in zip(live, worths, strict=True):
                    node.back_up(float(worth))
                live = []
        return ended

    def _down(self, node: MessageNode) -> MessageNode:
        """The first node on the way down that has no children."""
        while node.children:
            node = self.chosen(node)
        return node

    def _taken(self, tree: Tree, nodes: list[MessageNode]) -> MessageNode | None:
        """The message that the search goes on from; None where it ended."""
        ends = [node for node in nodes if node.episodes]
        for node in ends:
            node.back_up(float(RETURN.get(node.episodes[0])))
        if ends:
            return None
        return nodes[int(tree.key.derive("taken", tree.calls).numpy().integers(len(nodes)))]


def outcome(episode: Trajectory) -> float:
    """+1 for an episode whose scores sum to 1, -1 for one of 0."""
    return 2 * min(max(sums.total(map(total, episode.scores.values())), 0.0), 1.0) - 1
