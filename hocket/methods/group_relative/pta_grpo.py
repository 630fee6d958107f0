"""PTA-GRPO: plans and the solutions that follow them are credited apart (Dou et al., arXiv:2510.01833).

Several solutions are drawn from each of several plans (`PlanTree`); a plan's tokens get its mean return against the
other plans', a solution's its own return against all solutions' (`PlanAndSolution`). That estimator is chosen here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.columns import InfoColumn
from hocket.core.keys import Key
from hocket.core.segments import segment_count, segment_mean
from hocket.core.signals import counted_trajectories, returns
from hocket.credit.formulas import centred
from hocket.methods.base.conventions import CENTRED
from hocket.methods.base.dr_grpo import DR_GRPO
from hocket.methods.base.grpo import GRPO
from hocket.rollout.branches import NUMBERED, continued, only_turn
from hocket.stages import Credit, Grade, LedgerView, More, Play, Rollout, tokenizer_of
from hocket.types import Assignment, Experience, Trajectory, Turn

PLAN = InfoColumn("plan", "The number of the plan that the solution follows, among the scenario's.")


@dataclass(frozen=True)
class PlanTree(Rollout):
    """`plans` plans per scenario, and `solutions` solutions from each: the tree of PTA-GRPO (arXiv 2510.01833).

    A plan is the response up to `marker`, or its first `plan_tokens` tokens where the marker does not come before.
    Its turn is one object that the trajectories of its solutions share; a solution is a turn that extends it without
    new observation. A response that ends before a plan does is a trajectory of its own, all plan, and so is every
    episode of a player without words, which cannot be made to begin with a plan.

    Attributes:
        marker: text that ends a plan; empty for none, then plans have `plan_tokens` tokens.
        plan_tokens: the most tokens of a plan.
    """

    plans: int = 4
    solutions: int = 4
    marker: str = "</plan>"
    plan_tokens: int = 64

    def __post_init__(self) -> None:
        if min(self.plans, self.solutions, self.plan_tokens) < 1:
            raise ValueError(
                f"plans, solutions and plan_tokens must be at least 1, not {self.plans}, {self.solutions} and "
                f"{self.plan_tokens}"
            )

    @property
    def trajectories(self) -> int:
        """Leaves per scenario."""
        return self.plans * self.solutions

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
        """Per scenario its plans in order, each with its solutions."""
        if tokenizer_of(play) is None:
            whole = await play([replace(asking, samples=self.trajectories) for asking in asked])
            await score(whole)
            return Experience(whole)
        roots = await play([self._planning(asking) for asking in asked])
        branches = [self._branch(asked[number // self.plans], root) for number, root in enumerate(roots)]
        leaves = iter(await play([branch for branch in branches if branch is not None]))
        found: list[Trajectory] = []
        for number, (root, branch) in enumerate(zip(roots, branches, strict=True)):
            plan = number % self.plans
            solved = [root] if branch is None else [next(leaves) for _ in range(branch.samples)]
            stem = only_turn(root)
            for leaf in solved:
                PLAN.write(leaf, plan)
                if branch is not None and stem is not None:
                    split(leaf, stem)
            found += solved
        await score(found)
        return Experience(found)

    def _planning(self, asking: Assignment) -> Assignment:
        most = min(self.plan_tokens, asking.decoding.max_tokens)
        stops = (*asking.decoding.stop, self.marker) if self.marker else asking.decoding.stop
        budget = most if asking.budget is None else min(most, asking.budget)
        return replace(
            asking, samples=self.plans, budget=budget, decoding=replace(asking.decoding, max_tokens=most, stop=stops)
        )

    def _branch(self, asking: Assignment, root: Trajectory) -> Assignment | None:
        """The solutions to be asked from a plan; None where the response is complete already."""
        turn = only_turn(root)
        if turn is None:
            return None
        marked = bool(self.marker) and turn.text.rstrip().endswith(self.marker)
        left = asking.decoding.max_tokens - len(turn)
        if left < 1 or not (marked or turn.finish in ("length", "truncated")):
            return None
        first = asking.first + NUMBERED + root.sample * self.solutions
        return continued(asking, turn.action.tolist(), first=first, samples=self.solutions, more=left)


def split(leaf: Trajectory, stem: Turn) -> None:
    """Makes of a continued response two turns: the stem it was continued from, shared, and what it adds."""
    turn, length = only_turn(leaf), len(stem)
    if turn is None or len(turn) <= length or not np.array_equal(turn.action[:length], stem.action):
        return  # A player that knows no prefix began anew.
    # A prompt stands before both; where every decision has an observation of its own, the longer turn has more.
    seen = turn.observation[length if len(turn.observation) > len(stem.observation) else len(turn.observation) :]
    tail = replace(
        turn,
        observation=seen,
        action=turn.action[length:],
        logp=None if turn.logp is None else turn.logp[length:],
        version=None if turn.version is None else turn.version[length:],
        forced=None if turn.forced is None else turn.forced[length:],
        parent=stem,
    )
    leaf.turns = [stem, tail]


def plan_values(value: Tensor, plan: Tensor, size: int) -> Tensor:
    """`V_p`, the mean return of the solutions of each of `size` plans, `[size]`."""
    return segment_mean(value, plan, size)


@dataclass(frozen=True)
class PlanAndSolution(Credit):
    """Plan decisions get `V_p - mean_p V_p`, solution decisions `R_i - mean_i R`: PTA-GRPO (arXiv 2510.01833).

    The paper rewards plans from which solving succeeds and does not give the estimator; this one is chosen here. V_p
    is the mean return of a plan's solutions, means are over the plans and over the solutions of a scenario. A plan is
    the first turn of a trajectory; trajectories that share it are its solutions, and it is credited once in each. A
    trajectory of one turn is a plan alone. With one solution per plan every decision gets the mean-centred outcome.
    """

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        seen, value, used = batch.occurrences, returns(batch), counted_trajectories(batch)
        turn = batch.turn[seen.decision]
        groups = GroupBy("scenario")(batch)
        plan = _first_turns(batch)
        own = centred(value[used], groups.index[used], groups.size)
        worth = plan_values(value[used], plan[used], batch.turns)
        chosen = torch.nonzero(segment_count(plan[used], batch.turns)).flatten()
        owner = torch.zeros(batch.turns, dtype=torch.long)
        owner[plan] = groups.index
        planned = torch.zeros(batch.turns, dtype=torch.float64)
        planned[chosen] = centred(worth[chosen], owner[chosen], groups.size)
        solved = torch.zeros(batch.trajectories, dtype=torch.float64)
        solved[used] = own
        first = turn == plan[seen.trajectory]
        return replace(seen, advantage=torch.where(first, planned[turn], solved[seen.trajectory]))


def _first_turns(batch: Batch) -> Tensor:
    """The turn of each trajectory's first decision, `[N]`; turn 0 for one without decisions."""
    seen = batch.occurrences
    starts = (batch.last() - batch.lengths() + 1).clamp(min=0)
    if not len(seen):
        return torch.zeros(batch.trajectories, dtype=torch.long)
    return batch.turn[seen.decision][starts.clamp(max=len(seen) - 1)]


PTA_GRPO = DR_GRPO.but(
    name="pta-grpo",
    title="Plan then action",
    source="Dou et al., Plan Then Action, arXiv:2510.01833",
    catalogue_ids=("pta-grpo",),
    axes=("reward", "rollout", "credit"),
    formula="plan tokens: V_p - mean_p V_p, V_p = mean_j R_pj;  solution tokens: R_pj - mean R",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "estimator": "4 plans and 4 solutions from each, ours: the paper's is not known",
        "plan": "the response up to </plan>, at most 64 tokens; one turn that its solutions share",
        "aggregation": "mean over a trajectory's decisions, then over trajectories; a shared plan counts in each",
        "warm-up": "SFT on plan and solution first (recipe sft)",
    },
    rollout=PlanTree(plans=4, solutions=4),
    credit=PlanAndSolution(),
    **{"objective.aggregate": "sequence-mean"},
)
