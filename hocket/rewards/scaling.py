"""Rewards divided by the running standard deviation of returns."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.core.batch import Batch, LevelScores
from hocket.core.joint import apart
from hocket.core.segments import suffix_sum
from hocket.core.signals import REWARD, rewards_by_occurrence
from hocket.stages import Shaping, State


@dataclass(frozen=True)
class ScaledReturns(Shaping):
    """`r_t / std(G)`, G the discounted rewards to go of all decisions so far: what a critic fits has deviation 1.

    Stateful. Rewards keep their signs and zeros, so what is optimal stays so. The deviation is that of all decisions of
    non-zero weight since the first step, the present batch among them (Chan et al. 1983). VecNormalize of
    Stable-Baselines3 does the same with a discounted sum of past rewards in place of those to come. Where returns never
    varied, rewards stay as they are.

    Attributes:
        gamma: the discount; take the credit's. least: deviations below it count as this.
    """

    gamma: float = 0.99
    least: float = 1e-4

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1 or self.least <= 0:
            raise ValueError(f"gamma must lie in [0, 1] and least above 0, not {self.gamma} and {self.least}")

    def init(self) -> State:
        """No returns yet: their number, mean and sum of squared differences from it."""
        return {"count": 0.0, "mean": 0.0, "squares": 0.0}

    def __call__(self, batch: Batch, state: State) -> tuple[Batch, State]:  # type: ignore[override]
        """The batch with scaled rewards, and the state after this step."""
        rows = apart(batch)
        occurrences = rows.occurrences
        to_go = suffix_sum(rewards_by_occurrence(rows), occurrences.trajectory, rows.trajectories, discount=self.gamma)
        counted = to_go[occurrences.weight != 0]
        if len(counted):
            fresh, mean = float(len(counted)), float(counted.mean())
            gap, total = mean - state["mean"], state["count"] + fresh
            squares = float((counted - mean).square().sum()) + gap * gap * state["count"] * fresh / total
            state = {
                "count": total,
                "mean": state["mean"] + gap * fresh / total,
                "squares": state["squares"] + squares,
            }
        variance = state["squares"] / state["count"] if state["count"] else 0.0
        scale = max(variance**0.5, self.least) if variance > 0 else 1.0
        scores = {
            name: LevelScores(score.level, score.values / scale) if name in REWARD.values() else score
            for name, score in batch.scores.items()
        }
        return batch.but(scores=scores), state
