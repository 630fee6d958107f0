"""Gradient steps for a policy that samples under the masks of its delayed copy."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.keys import Key
from hocket.policies.copies import KeepsCopies
from hocket.rollout.nucleus import DELAYED
from hocket.stages import Metrics, State
from hocket.update.gradient import GradientStep
from hocket.update.problem import Problem


@dataclass(frozen=True)
class DelayedMaskStep(GradientStep):
    """`GradientStep`; after every `every` steps the policy's delayed copy becomes the policy (NLPO, arXiv 2210.01241).

    Stateful: it counts steps. A policy that keeps no delayed copy is left as it is.
    """

    every: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.every < 1:
            raise ValueError(f"every must be at least 1, not {self.every}")

    def init(self) -> State:
        """No steps yet."""
        return {"steps": 0}

    def step(self, problem: Problem, key: Key) -> Metrics:
        found = super().step(problem, key)
        steps = int(problem.memory.get("steps", 0)) + 1
        policy = problem.policy
        refreshed = 0.0
        if steps % self.every == 0 and isinstance(policy, KeepsCopies):
            policy.refresh_copy(DELAYED)
            refreshed = 1.0
        problem.memory = {"steps": steps}
        return {**found, "mask/refreshed": refreshed}
