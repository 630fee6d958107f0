"""Trees: several solutions from each of several plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hocket.core.columns import InfoColumn
from hocket.keys import Key
from hocket.rollout.branches import NUMBERED, continued, only_turn
from hocket.stages import Grade, LedgerView, More, Play, Rollout, words_of
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
        if words_of(play) is None:
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
