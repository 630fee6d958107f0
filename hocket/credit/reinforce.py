"""Credit from returns: REINFORCE and its baselines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.errors import ConfigurationError
from hocket.core.segments import segment_count, segment_mean, suffix_sum
from hocket.core.signals import counted_trajectories, returns, rewards_by_occurrence
from hocket.credit.formulas import centred, whitened
from hocket.stages import Credit, State


@dataclass(frozen=True)
class ReturnToGo(Credit):
    """`G_t = sum_{k >= t} gamma^(k - t) r_k`, the discounted reward-to-go of each decision (Williams 1992).

    Time counts the decisions of the trajectory, of all agents; observation tokens take no time. With `whiten` it is
    REINFORCE++ (arXiv 2501.03262): `(G - mean) / (std + epsilon)` over the batch. Statistics are over all occurrences
    of non-zero weight, each counted once; the others get 0.

    Attributes:
        gamma: discount per decision, in [0, 1].
        baseline: `batch-mean` subtracts the mean reward-to-go of the batch's occurrences.
        whiten: subtract the mean and divide by the standard deviation of the batch's occurrences.
        epsilon: added to the deviation.
        ddof: 1 divides the sum of squares by one less than the number of occurrences, 0 by the number.
    """

    gamma: float = 1.0
    baseline: Literal["batch-mean"] | None = None
    whiten: bool = False
    epsilon: float = 1e-8
    ddof: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma must lie in [0, 1], not {self.gamma}")
        if self.baseline not in ("batch-mean", None):
            raise ValueError(f"baseline must be 'batch-mean' or null, not {self.baseline!r}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        occurrences = batch.occurrences
        to_go = suffix_sum(
            rewards_by_occurrence(batch), occurrences.trajectory, batch.trajectories, discount=self.gamma
        )
        return replace(
            occurrences, advantage=in_place(self._adjusted(to_go[occurrences.weight != 0]), occurrences.weight != 0)
        )

    def _adjusted(self, to_go: Tensor) -> Tensor:
        if self.whiten:
            return whitened(to_go, ddof=self.ddof, epsilon=self.epsilon)
        if self.baseline == "batch-mean":
            return centred(to_go, torch.zeros(len(to_go), dtype=torch.long), 1)
        return to_go


@dataclass(frozen=True)
class RunningMean(Credit):
    """`A_i = R_i - b`, b the running mean of earlier steps' returns: REINFORCE with a baseline (Williams 1992).

    Stateful. The current batch enters `b` after its credit is computed, so the gradient stays unbiased. Step k's mean
    return has weight proportional to `momentum^(steps since)`; before the first step b is 0.
    """

    momentum: float = 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1), not {self.momentum}")

    def init(self) -> State:
        """No history: a weighted sum of mean returns and the sum of its weights, both 0."""
        return {"sum": 0.0, "weight": 0.0}

    def __call__(self, batch: Batch, state: State) -> tuple[Occurrences, State]:  # type: ignore[override]
        """The batch's occurrences with advantages `[E]` float64, and the state after this step."""
        counted, value = counted_trajectories(batch), returns(batch)
        baseline = state["sum"] / state["weight"] if state["weight"] > 0 else 0.0
        advantage = torch.where(counted, value - baseline, 0.0)[batch.occurrences.trajectory]
        if counted.any():
            keep, add = self.momentum, 1 - self.momentum
            mean = float(value[counted].mean())
            state = {"sum": keep * state["sum"] + add * mean, "weight": keep * state["weight"] + add}
        return replace(batch.occurrences, advantage=advantage), state


@dataclass(frozen=True)
class GreedyBaseline(Credit):
    """`A_i = R_i - R(greedy answer to the same scenario)`: ReMax (Li et al. 2024, arXiv 2310.10505).

    Reads trajectories whose source is `baseline` (their mean, if there are several). Trajectories of a scenario
    without one, for example after a failed attempt, get weight 0. With `to_go` the credit of a decision is its
    reward-to-go, instead of the whole return, minus the same baseline. That is the form for rewards per decision, such
    as a KL penalty, because earlier rewards do not depend on the decision.

    Raises:
        ConfigurationError: on a call, when the batch has no baseline at all.
    """

    to_go: bool = False

    needs_baseline: ClassVar[bool] = True

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64; weights are 0 where no baseline exists."""
        occurrences, value = batch.occurrences, returns(batch)
        names = batch.names["source"]
        greedy = batch.source == (names.index("baseline") if "baseline" in names else -1)
        if not greedy.any():
            raise ConfigurationError(
                "GreedyBaseline found no trajectory of source 'baseline'; set rollout to "
                "hocket.rollout.WithGreedyBaseline"
            )
        size = len(batch.names["scenario"])
        baseline = segment_mean(value[greedy], batch.scenario[greedy], size)
        known = segment_count(batch.scenario[greedy], size)[batch.scenario] > 0
        learnt = (known & ~greedy & counted_trajectories(batch))[occurrences.trajectory]
        earned = value[occurrences.trajectory]
        if self.to_go:
            earned = suffix_sum(rewards_by_occurrence(batch), occurrences.trajectory, batch.trajectories)
        advantage = torch.where(learnt, earned - baseline[batch.scenario][occurrences.trajectory], 0.0)
        weight = torch.where(known[occurrences.trajectory], occurrences.weight, torch.zeros_like(occurrences.weight))
        return replace(occurrences, advantage=advantage, weight=weight)


@dataclass(frozen=True)
class Uniform(Credit):
    """The same advantage everywhere. With a log-likelihood objective it is supervised fine-tuning."""

    value: float = 1.0

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        size = len(batch.occurrences)
        return replace(batch.occurrences, advantage=torch.full((size,), self.value, dtype=torch.float64))


def in_place(values: Tensor, used: Tensor) -> Tensor:
    """`values` at the occurrences `used` `[E]`, 0 elsewhere; float64."""
    spread = torch.zeros(len(used), dtype=torch.float64)
    spread[used] = values
    return spread
