"""MASPRM: a value of partial team transcripts, learnt from tree search (Yazdani et al., arXiv:2510.24803).

No policy gradient: a frozen team is searched (`MessageSearch`), the mean outcome through a message is its target
(`MessageValues`), and a value head is fitted to it (`MessageValueLoss`), which then guides search at inference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, smooth_l1_loss

from hocket.agents.search.result import Opinion
from hocket.core.batch import Batch, GroupBy, Level, Occurrences
from hocket.core.columns import InfoColumn
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_extreme
from hocket.core.signals import returns, turn_visits
from hocket.credit.pairs import members_by_group
from hocket.credit.sibling_turns import tree_of, turns_of
from hocket.methods.base.conventions import COMMON
from hocket.methods.teams.masprm.values import HeadValue
from hocket.objectives.aggregate import mean, weights
from hocket.recipe import Recipe
from hocket.rollout.message_search import UCT, Tree, outcome
from hocket.rollout.message_tree import MessageNode
from hocket.stages import Credit, Grade, LedgerView, More, Objective, Play, Policy, Rollout
from hocket.types import Assignment, Evaluation, Experience, Quantity, Terms, Trajectory, before_training


@dataclass(frozen=True)
class MessageSearch(Rollout):
    """`searches` tree searches per scenario; what is learnt from are the episodes that ended in them, each once.

    MASPRM (arXiv 2510.24803). An end is worth `2 s - 1`, s the sum of its scores, kept in [0, 1]: +1 for right and -1
    for wrong. Episodes say the mean return through each of their messages, the targets of `hocket.credit.MessageValues`
    (`info["message_values"]`). The agents are the policies as they were before training, a fixed team; what they said
    counts as decisions of the policy, whose own log-probs are evaluated anew.
    """

    searches: int = 32
    rule: UCT = UCT()

    plays_reference: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.searches < 1:
            raise ValueError(f"searches must be at least 1, not {self.searches}")

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
        """Per search the episodes of all scenarios."""
        trees = [Tree(replace(one, actor="reference"), key.derive(one.scenario.id)) for one in asked]

        async def judge(episodes: Sequence[Trajectory]) -> list[float]:
            await score(episodes)
            return [outcome(one) for one in episodes]

        found: list[Trajectory] = []
        for _ in range(self.searches):
            found += await self.rule.search(trees, play=play, judge=judge)
        for tree in trees:
            settle(tree.root)
        return Experience(found, metrics={"rollout/messages": float(sum(tree.calls for tree in trees))})


def settle(root: MessageNode) -> None:
    """Writes the mean returns into the episodes, and makes the messages the policy's."""
    for node in root.below():
        if node.turn is not None:
            node.turn.policy = node.turn.policy.removesuffix(before_training(""))
            node.turn.logp = None
        for episode in node.episodes:
            MESSAGE_VALUES.write(episode, [one.mean for one in node.nodes[1:]])


@dataclass(frozen=True)
class MessageValues(Credit):
    """Targets for a value read at the end of each message: the mean return through it, in [-1, 1].

    MASPRM (arXiv 2510.24803). The target of a message stands at its last decision, before which all of it but its last
    token is known (the end of turn, where it ended by itself). Only these decisions keep a weight, and a message that
    several episodes share keeps it in the first alone, so that each counts once. The mean is the one that
    `hocket.rollout.MessageSearch` wrote (`info["message_values"]`); without it that of `2 R - 1` over the group's
    episodes through the message, R their returns, kept in [0, 1].

    The advantage is what the message changed: its value minus that of what was said before, of the first message minus
    the scenario's mean.
    """

    by: GroupBy = GroupBy("scenario")

    gives_targets: ClassVar[bool] = True

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `target` and advantages `[E]` float64, and weights."""
        seen = batch.occurrences
        visit, starts = turn_visits(batch)
        size = int(starts.sum())
        turn, owner = batch.turn[seen.decision[starts]], seen.trajectory[starts]
        value, gain = self._values(batch)
        last = segment_extreme(torch.arange(len(seen)), visit, size, largest=True)
        first = torch.full((batch.turns,), size, dtype=torch.long).scatter_reduce(
            0, turn, torch.arange(size), "amin", include_self=True
        )
        mine = torch.zeros(len(seen), dtype=torch.bool)
        mine[last[first[turn] == torch.arange(size)]] = True
        weight = torch.where(mine, seen.weight, torch.zeros_like(seen.weight))
        places = list(zip(owner.tolist(), turn.tolist(), strict=True))
        target = torch.tensor([value.get(place, 0.0) for place in places], dtype=torch.float64)
        change = torch.tensor([gain.get(place, 0.0) for place in places], dtype=torch.float64)
        return replace(seen, target=target[visit], advantage=torch.where(mine, change[visit], 0.0), weight=weight)

    def _values(self, batch: Batch) -> tuple[dict[tuple[int, int], float], dict[tuple[int, int], float]]:
        """By trajectory and turn, what the message is worth, and what it changed."""
        turns = turns_of(batch)
        told = MESSAGE_VALUES.rows(batch)
        outcome = (2 * returns(batch).clamp(0.0, 1.0) - 1).tolist()
        value: dict[tuple[int, int], float] = {}
        gain: dict[tuple[int, int], float] = {}
        for members in members_by_group(batch, self.by):
            start = sum(outcome[one] for one in members) / len(members)
            if all(told[one] is None for one in members):
                for node in tree_of(members, turns).below():
                    value.update({(leaf, node.turn): node.value(outcome) for leaf in node.leaves})
            else:
                for one in members:
                    value.update({(one, turn): float(y) for turn, y in zip(turns[one], told[one] or (), strict=False)})
            for one in members:
                before = start
                for turn in turns[one]:
                    here = value.get((one, turn), before)
                    gain[one, turn], before = here - before, here
        return value, gain


Fit = Literal["squared", "huber", "cross-entropy"]


def fit_loss(output: Tensor, target: Tensor, fit: Fit, bound: float, huber: float) -> Tensor:
    """What an output z costs, whose value is tanh(z), for targets y in [-1, 1]; same shape.

    With `t = atanh(clip(y, -bound, bound))`: `squared` is (z - t)^2; `huber` is (z - t)^2 / (2 huber) within `huber`
    of t and |z - t| - huber / 2 beyond; `cross-entropy` is that of the probability (1 + y) / 2 under sigmoid(2 z) =
    (1 + tanh z) / 2.
    """
    if fit == "cross-entropy":
        return binary_cross_entropy_with_logits(2 * output, (1 + target) / 2, reduction="none")
    aim = torch.atanh(target.clamp(-bound, bound))
    if fit == "huber":
        return smooth_l1_loss(output, aim, beta=huber, reduction="none")
    return (output - aim).square()


@dataclass(frozen=True)
class MessageValueLoss(Objective):
    """Fits the policy's value output z, at decisions with a target y in [-1, 1], so that tanh(z) is y.

    MASPRM (arXiv 2510.24803, and the authors' code). Mean over the decisions that count.

    Attributes:
        fit: `squared`, `huber` or `cross-entropy`; see `fit_loss`. The authors' cross-entropy takes atanh(y) for a
            probability, which is none; here it is (1 + y) / 2.
        bound: targets are clipped to [-bound, bound] before atanh. huber: where `huber` becomes linear.
    """

    fit: Fit = "squared"
    bound: float = 0.95
    huber: float = 0.1

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.VALUE})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.fit not in get_args(Fit):
            raise ValueError(f"fit is {self.fit!r}; choose from {', '.join(get_args(Fit))}")
        if not 0 < self.bound < 1 or self.huber <= 0:
            raise ValueError(f"bound must lie in (0, 1) and huber be positive, not {self.bound} and {self.huber}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen = batch.occurrences
        output = now.get(Quantity.VALUE)[seen.decision]
        if seen.target is None:
            raise HocketError("the value loss needs targets, but credit gave none; use hocket.credit.MessageValues")
        target = seen.target.detach().to(output.dtype)
        loss = fit_loss(output, target, self.fit, self.bound, self.huber)
        metrics = {"value/error": mean((output.tanh() - target).abs(), seen.weight != 0)}
        return Terms(loss, weights(batch, "token-mean", dtype=output.dtype), metrics=metrics)

    def guide(self, policy: Policy, reference: Policy | None) -> Opinion:
        """See `hocket.agents.search.value_search.Guide`."""
        return HeadValue(policy)


MESSAGE_VALUES = InfoColumn("message_values", "The mean return through each message of the episode, in [-1, 1].")


MASPRM = Recipe(
    name="masprm",
    title="MASPRM: a process reward model over the messages of a team",
    source="Yazdani et al., arXiv:2510.24803, and the authors' code",
    family="dialogue",
    catalogue_ids=("masprm",),
    axes=("search", "reward", "team"),
    formula="L = mean over messages (z - atanh(clip(y, -0.95, 0.95)))^2, y the mean of +-1 outcomes through the "
    "message in a tree search;  value = tanh(z)",
    conventions={
        **COMMON,
        "search": "32 per scenario; UCT with c = 2 and 4 candidates per message",
        "targets": "UCT's means, as the paper says, which rise towards the best candidates' outcome; with even visits "
        "(rollout.rule.c null) they are 2p - 1 on average",
        "outcome": "2 s - 1, s the verdict in [0, 1]",
        "team": "the policies as they were before training, so that fitting the value does not change who speaks",
        "where the value is read": "at a message's last decision, after what its speaker was told and said",
        "aggregation": "mean over messages; one of several episodes counts once",
        "fit": "squared; objective.fit huber (0.1) or cross-entropy",
        "at inference": "hocket eval RUN --search beam (best, tree): the value chooses among what the team says",
    },
    task="sums",
    requires=(Requirement.AGENTS,),
    workflow="pipeline",
    rollout=MessageSearch(searches=32),
    credit=MessageValues(),
    objective=MessageValueLoss(),
)
