"""Tree-GRPO: an agent's episodes grow as trees, compared within a tree and among all (Ji et al., arXiv:2509.21240).

A node is a whole step of the agent, what it said up to a tool's answer. `StepTrees` plays a first chain per tree and
then goes on from nodes that stand already, so that a budget of tokens or tool calls gives more ends than chains do.
`WithinAndAmong` adds an end's advantage in its tree, which says something about the steps below the last common one,
to that among all ends of the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from hocket.core.batch import Batch, GroupBy, Level, Occurrences
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.credit.group import GroupRelative
from hocket.methods.agents.search_r1 import SEARCH_R1
from hocket.rollout.groups import groups
from hocket.rollout.message_tree import MessageNode, StepTree
from hocket.stages import Credit, Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Trajectory

TREE = InfoColumn("tree", "The number of the tree that the episode is an end of, among the scenario's.")


@dataclass(eq=False)
class Growing(StepTree):
    """One tree, whose first chain is sample `asking.first`."""

    number: int
    key: Key
    ends: list[Trajectory] = field(default_factory=list)

    def end(self, episode: Trajectory, node: MessageNode) -> None:
        """Takes in an end that went on from `node`."""
        TREE.write(episode, self.number)
        self.ends.append(episode)
        if episode.failure is None:
            self.add(episode, node)

    def drawn(self, count: int) -> list[MessageNode]:
        """So many of its nodes after which something was said, the beginning among them; one may come twice."""
        open_nodes = [node for node in self.root.below() if node.children or node is self.root]
        places = self.key.derive("drawn", self.calls).numpy().integers(len(open_nodes), size=count)
        return [open_nodes[place] for place in places.tolist()]

    def kept(self, count: int) -> list[Trajectory]:
        """So many of its ends in the order in which they were played, drawn without replacement."""
        if len(self.ends) <= count:
            return self.ends
        places = self.key.derive("kept").numpy().permutation(len(self.ends))[:count]
        return [self.ends[place] for place in sorted(places.tolist())]


@dataclass(frozen=True)
class StepTrees(Rollout):
    """`trees` trees per scenario: a chain each, then `rounds` times `expand` nodes to go on from, to the end.

    Tree-GRPO (arXiv 2509.21240, and the released code). The nodes are drawn with replacement among those of the tree
    that are no ends, its beginning among them; all steps before the one drawn are replayed, so they are one object in
    every episode that has them, sampled once and computed once. `keep` ends of each tree are learnt from, by default
    all `1 + rounds * expand` of them.
    """

    trees: int = 2
    rounds: int = 1
    expand: int = 2
    keep: int = 3

    taught: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.trees < 1 or self.rounds < 0 or self.expand < 1:
            raise ValueError(
                f"trees and expand must be at least 1 and rounds at least 0, not {self.trees}, {self.expand} and "
                f"{self.rounds}"
            )
        if not 1 <= self.keep <= 1 + self.rounds * self.expand:
            raise ValueError(
                f"a tree has {1 + self.rounds * self.expand} ends, of which {self.keep} cannot be kept; set keep from "
                "1 to 1 + rounds * expand"
            )

    @property
    def trajectories(self) -> int:
        """Ends per scenario that are learnt from."""
        return self.trees * self.keep

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
        """Per scenario its trees in order, each with its ends as they were played."""
        size = 1 + self.rounds * self.expand
        trees = [
            Growing(replace(one, first=one.first + number * size), number, key.derive(one.scenario.id, number))
            for one in asked
            for number in range(self.trees)
        ]
        for turn in range(self.rounds + 1):
            chosen = [(tree, node) for tree in trees for node in (tree.drawn(self.expand) if turn else [tree.root])]
            played = await groups(play, [tree.onward(node) for tree, node in chosen])
            for (tree, node), (episode,) in zip(chosen, played, strict=True):
                tree.end(episode, node)
        found = [one for tree in trees for one in tree.kept(self.keep)]
        await score(found)
        nodes = sum(1 for tree in trees for _ in tree.root.below()) - len(trees)
        steps = sum(len(one.turns) for tree in trees for one in tree.ends)
        metrics = {"rollout/steps_sampled": float(nodes), "rollout/steps_shared": float(steps - nodes)}
        return Experience(found, metrics=metrics)


@dataclass(frozen=True)
class WithinAndAmong(Credit):
    """`A_i = (R_i - mean_tree R)/std_tree R + (R_i - mean R)/std R`, the means over the tree's and the question's ends.

    Tree-GRPO (arXiv 2509.21240, equation 6). A tree of one end gives nothing to the first term, where the released code
    gives its raw return; with one end per tree this is GRPO's advantage.
    """

    within: Credit = GroupRelative(by=GroupBy("scenario", "info/tree"))
    among: Credit = GroupRelative()

    gives_targets: ClassVar[bool] = False  # Of two credits, neither's chain of values would be the target.

    def __post_init__(self) -> None:
        for part in (self.within, self.among):
            if isinstance(part, GroupRelative) and part.by.level is Level.TURN:
                raise ValueError("ends of trees are compared: neither part may group by a column of turns")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        within, among = self.within(batch), self.among(batch)
        return replace(batch.occurrences, advantage=within.advantage + among.advantage)


TREE_GRPO = SEARCH_R1.but(
    name="tree-grpo",
    title="Tree-GRPO: episodes as trees of steps, compared within a tree and among trees",
    source="Ji et al., Tree Search for LLM Agent Reinforcement Learning, arXiv:2509.21240, and the released code",
    family="data-and-rollout",
    catalogue_ids=("tree-grpo",),
    axes=("rollout", "credit"),
    formula="A_i = (R_i - mean_tree R)/(std_tree R + eps) + (R_i - mean R)/(std R + eps);  per question M trees: a "
    "chain, then L times N nodes drawn with replacement to go on from",
    conventions={
        **SEARCH_R1.conventions,
        "start": "the paper starts from models that search; the shipped model has the task's lessons first, in which "
        "half of the demonstrations search",
        "trees": "M = 2, N = 2, L = 1, k = 3, as released",
        "nodes": "whole steps, a turn of the agent; the beginning may be drawn, ends may not",
        "a step in several episodes": "sampled and computed once, counted once per episode",
        "a tree of one end": "0 from within; the released helper gives its raw return",
        "which ends are kept": "drawn, where a tree has more than k; released trees have just k",
    },
    requires=SEARCH_R1.requires,
    rollout=StepTrees(),
    credit=WithinAndAmong(),
)
