"""Trees of dialogues: what was promising is taken up again at some message and goes on differently."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hocket.keys import Key
from hocket.markup import edit_distance
from hocket.rollout.dynamic import total
from hocket.rollout.groups import groups
from hocket.rollout.message_tree import Node, grafted, onward
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Trajectory


@dataclass(frozen=True)
class DialogueTree(Rollout):
    """`expansions` times a message is chosen per scenario, and the episode goes on from it `children` times to its end.

    Optima (arXiv 2410.08115, and the authors' code). Messages are nodes; those before the chosen one are replayed, so
    what dialogues have in common is one object, sampled and computed once. The beginning is expanded first. Then among
    the `top` messages with the highest mean score of their episodes, after which something was said, one is drawn with
    probability proportional to exp(mean). Messages that differ from one already expanded by less than `alike` of their
    characters (edit distance over length) are passed over; the beginning is taken when none is left.

    The score that guides the growth is the sum of an episode's scores as they stand; shaping comes later. A player
    without workflows begins anew each time, so its trees have one level.
    """

    expansions: int = 8
    children: int = 3
    alike: float = 0.25
    top: int = 10

    def __post_init__(self) -> None:
        if self.expansions < 1 or self.children < 1 or self.top < 1:
            raise ValueError("expansions, children and top must be at least 1")
        if self.expansions * self.children < 2:
            raise ValueError("a tree needs two episodes to compare: raise expansions or children")
        if not 0 <= self.alike <= 1:
            raise ValueError(f"alike must lie in [0, 1], not {self.alike}")

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """Per scenario all its episodes, in the order in which they were played."""
        roots = [Node() for _ in asked]
        expanded: list[list[Node]] = [[] for _ in asked]
        found: list[list[Trajectory]] = [[] for _ in asked]
        for number in range(self.expansions):
            chosen = []
            for root, before, asking in zip(roots, expanded, asked, strict=True):
                chosen.append(self._chosen(root, before, key.derive(asking.scenario.id, number)))
                before.append(chosen[-1])
            played = await groups(
                play,
                [
                    onward(asking, node, first=asking.first + number * self.children, samples=self.children)
                    for asking, node in zip(asked, chosen, strict=True)
                ],
            )
            await score([one for group in played for one in group])
            for root, mine, group in zip(roots, found, played, strict=True):
                mine += group
                for one in group:
                    if one.failure is None:
                        grafted(root, one).back_up(math.fsum(map(total, one.scores.values())))
        nodes = sum(1 for root in roots for _ in root.below()) - len(roots)
        metrics = {"rollout/messages": float(nodes), "rollout/expanded": float(sum(map(len, expanded)))}
        return Experience([one for group in found for one in group], metrics=metrics)

    def _chosen(self, root: Node, expanded: Sequence[Node], key: Key) -> Node:
        """The message to go on from."""
        done = [node.turn.text for node in expanded if node.turn is not None]
        fresh = [
            node
            for node in root.below()
            if node.turn is not None
            and node.children
            and node not in expanded
            and not any(_apart(node.turn.text, text) < self.alike for text in done)
        ]
        if not expanded or not fresh:
            return root
        best = sorted(fresh, key=lambda node: -node.mean)[: self.top]
        weight = np.exp(np.array([node.mean for node in best]) - best[0].mean)
        drawn = float(key.numpy().random()) * weight.sum()
        return best[min(int((weight.cumsum() < drawn).sum()), len(best) - 1)]


def _apart(one: str, other: str) -> float:
    """The edit distance of two texts over the length of the longer one plus 1, as the authors have it."""
    return edit_distance(one, other) / (max(len(one), len(other)) + 1)
