"""MPO, meta plans: DPO for a planner whose plans are worth what a frozen agent earns (Xiong et al., arXiv:2503.02682).

Several plans per task, each followed in several episodes (`PlanRuns`), whose mean score is the plan's worth; the best
and the worst plan are the pair (`PlanPairs`). Only the planner's tokens enter DPO's loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from hocket.core import sums
from hocket.core.batch import Batch, Occurrences
from hocket.core.casting import Leading
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.core.signals import returns
from hocket.credit.pairs import Pairing, members_by_group, paired
from hocket.credit.sibling_turns import tree_of, turns_of
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.rollout.groups import groups
from hocket.rollout.message_tree import MessageNode, grafted
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Replay, Trajectory


@dataclass(frozen=True)
class PlanRuns(Rollout):
    """`plans` plans per scenario, and `runs` episodes with each, so that a plan is worth their mean score.

    The Monte Carlo of MPO (arXiv 2503.02682, and the authors' scripts). The plan is the first message of an episode;
    further runs replay it. Equal messages after equal histories are one object, so a plan that was drawn twice is one
    with twice the runs. What the workflow draws itself is the same for all plans of a scenario. A player without
    workflows begins anew each time, so its plans are all there is.
    """

    plans: int = 5
    runs: int = 5

    def __post_init__(self) -> None:
        if self.plans < 2 or self.runs < 1:
            raise ValueError(f"plans must be at least 2 and runs at least 1, not {self.plans} and {self.runs}")

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
        """Per scenario its plans in order, each with its runs."""
        first = await groups(play, [replace(one, samples=self.plans, replay=Replay(sample=one.first)) for one in asked])
        further = [self._again(asking, one) for asking, drawn in zip(asked, first, strict=True) for one in drawn]
        again = iter(await groups(play, further if self.runs > 1 else []))
        found: list[Trajectory] = []
        plans = 0
        for drawn in first:
            root = MessageNode()
            for planned in drawn:
                mine = [planned, *next(again, ())]
                for one in mine:
                    if one.failure is None:
                        grafted(root, one)
                found += mine
            plans += len(root.children)
        await score(found)
        return Experience(found, metrics={"rollout/plans": float(plans)})

    def _again(self, asking: Assignment, planned: Trajectory) -> Assignment:
        first = asking.first + self.plans + (planned.sample - asking.first) * (self.runs - 1)
        replay = Replay(tuple(planned.turns[:1]), sample=asking.first)
        return replace(asking, samples=self.runs - 1, first=first, replay=replay)


ROUNDING = 1e-12
"""Means of equal rewards in another order may differ by so much of their size; that is a tie."""


@dataclass(frozen=True)
class PlanPairs(Pairing):
    """The first turn whose episodes earn most against the one whose episodes earn least: MPO (arXiv 2503.02682).

    A plan is the first turn of a trajectory, worth `Q(m) = (1/N) sum_n R_n`, the mean return of the trajectories that
    begin with it. Each group gives one pair, argmax and argmin of Q, the first among equals; none where they differ by
    `margin` or less, so also where all are worth the same. `pairs` name the first trajectory of each plan, which
    alone keep a weight, and `compared` the plans: `Pairwise` looks at their decisions and at no others, so whoever
    carries plans out learns nothing.
    """

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` and `compared`, `[P, 2]` each; advantages are left as they are."""
        value, turns = returns(batch).tolist(), turns_of(batch)
        found = []
        for members in members_by_group(batch, self.by):
            plans = tree_of(members, turns).children
            quality = [sums.mean([value[one] for one in plan.leaves]) for plan in plans]
            best, worst = quality.index(max(quality)), quality.index(min(quality))
            if quality[best] - quality[worst] > self.margin + ROUNDING * max(map(abs, quality)):
                found.append((plans[best], plans[worst]))
        # Whoever carries plans out keeps its weights, and with them its entropy in the metrics.
        seen = paired(batch, [(best.leaves[0], worst.leaves[0]) for best, worst in found])
        compared = torch.tensor([(best.turn, worst.turn) for best, worst in found], dtype=torch.long).reshape(-1, 2)
        return replace(seen, compared=compared)


MPO_META_PLAN = ONLINE_DPO.but(
    name="mpo-meta-plan",
    title="Meta Plan Optimisation: a planner beside a frozen agent",
    source="Xiong et al., MPO, arXiv:2503.02682, and the authors' scripts",
    family="agents",
    catalogue_ids=("mpo-meta-plan",),
    axes=("team", "search", "objective"),
    formula="L = -mean_tasks log sigmoid(beta (d(m_w) - d(m_l))),  d(m) = log pi(m | x) - log pi_ref(m | x),  "
    "m_w, m_l = argmax, argmin of Q(m) = (1/N) sum_n R(run n with plan m)",
    conventions={
        **ONLINE_DPO.conventions,
        "aggregation": "log-probs summed over a plan's decisions, mean over pairs",
        "plans": "5 per scenario, 5 runs of each; plans drawn twice are one with all their runs",
        "pairs": "one per scenario, highest against lowest Q, the first of equals",
        "group of one": "one plan drawn five times: no pair",
        "constant group": "all plans worth the same: no pair",
        "who learns": "the planner, role adviser; agents are the model as it was, or others by --roles.policy.model",
        "what is planned for": "any workflow: --workflow 'advised?every=false&lead=Plan&inner=NAME'",
        "supervised start": "a phase before, on metadata['demonstration']: SFT.but(name='plans', workflow=.., cast=..) "
        "with this recipe's workflow and cast, which teaches the first role",
        "reference": "the planner as it was when this phase began, so after its supervised start",
        "data": "new plans in every step; the authors sample once and train offline",
    },
    task="sums",
    requires=(Requirement.AGENTS,),
    workflow="advised?every=false&lead=Plan",
    cast=Leading(leader="adviser", others="actor"),
    rollout=PlanRuns(plans=5, runs=5),
    credit=PlanPairs(),
)
