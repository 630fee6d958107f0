"""Policy and value function fitted to the soft Bellman equation along recorded paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from hocket.errors import HocketError
from hocket.objectives.ratios import recorded
from hocket.segments import segment_count, segment_extreme, segment_sum, suffix_sum
from hocket.stages import Objective
from hocket.types import Batch, Column, Evaluation, Level, Quantity, Terms

Step = Literal["decision", "segment", "turn"]
Average = Literal["token-mean", "sequence-mean"]


def steps_of(batch: Batch, step: Step) -> Tensor:
    """The number of each occurrence's step `[E]`, rising: a decision, a segment of a turn, or a turn as one saw it."""
    seen = batch.occurrences
    fresh = torch.ones(len(seen), dtype=torch.bool)
    if step != "decision":
        place = [seen.trajectory, batch.turn[seen.decision]]
        if step == "segment":
            place.append(batch.segment[seen.decision])
        columns = torch.stack(place)
        fresh[1:] = (columns[:, 1:] != columns[:, :-1]).any(0)
    return torch.cumsum(fresh, 0) - 1


@dataclass(frozen=True)
class PathConsistency(Objective):
    """Minimises `(V_t - R_t + beta sg(S_t))^2 + (sg(V_t) - R_t + beta l_t + beta sg(S_{t+1}))^2`: OREO (2412.16145).

    l_t is log pi - log pi_ref summed over step t, `S_t = sum_{i >= t} l_i` to the end of the trajectory, R_t the reward
    from t on (`occurrences.target`), V_t the value before the step, sg a constant. Where rewards less beta KL(pi ||
    pi_ref) are best, `V_t - V_{t+1} = r_t - beta l_t` on every path, and all residuals are 0, whoever went it: so right
    and wrong traces of any origin serve. Decisions that do not count (imposed ones) belong to the environment.

    Attributes:
        beta: what a nat from the reference costs.
        step: what l_t is summed over; V is read at the first counted decision of each.
        value: weight of the first square, the value function's.
        aggregate: mean over steps, or over those of a trajectory and then over trajectories.
    """

    beta: float = 0.03
    step: Step = "decision"
    value: float = 1.0
    aggregate: Average = "sequence-mean"

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP, Quantity.VALUE})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.REFERENCE})
    couples: ClassVar[Level] = Level.TRAJECTORY
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.step not in get_args(Step) or self.aggregate not in get_args(Average):
            raise ValueError(
                f"step must be decision, segment or turn and aggregate token-mean or sequence-mean, not {self.step!r} "
                f"and {self.aggregate!r}"
            )
        if self.beta <= 0 or self.value < 0:
            raise ValueError(f"beta must be positive and value at least 0, not {self.beta} and {self.value}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        if seen.target is None:
            raise HocketError("path consistency needs targets, but credit gave none; use hocket.credit.ValueSteps")
        counted = seen.weight != 0
        places = torch.nonzero(counted).flatten()
        # Only steps with a counted decision are numbered.
        _, step = torch.unique(steps_of(batch, self.step)[counted], return_inverse=True)
        size = int(step.max()) + 1 if len(step) else 0
        first = segment_extreme(places, step, size, largest=False)
        owner = seen.trajectory[first]
        decision = seen.decision[places]
        gap = now.logp[decision] - recorded(batch, "reference")[decision].to(dtype)
        own = segment_sum(gap, step, size)
        whole = suffix_sum(own.detach().double(), owner, batch.trajectories).to(dtype)
        value = now.get(Quantity.VALUE)[seen.decision[first]].to(dtype)
        target = seen.target.detach()[first].to(dtype)
        of_value = value - target + self.beta * whole
        of_policy = value.detach() - target + self.beta * (own + (whole - own.detach()))
        weight = self._weights(seen.weight[first], owner, batch.trajectories).to(dtype)
        residual = of_value.detach().double().abs()
        metrics = {"consistency/residual": residual.mean() if size else residual.sum()}
        return Terms(
            torch.cat([of_value.square(), of_policy.square()]),
            torch.cat([self.value * weight, weight]),
            Level.TRAJECTORY,
            metrics,
        )

    def _weights(self, weight: Tensor, owner: Tensor, trajectories: int) -> Tensor:
        """Of each step, its share of the mean included; float64."""
        steps = segment_count(owner, trajectories)
        if self.aggregate == "token-mean":
            return weight.double() / max(1, len(owner))
        return weight.double() / ((steps > 0).sum().clamp(min=1) * steps.clamp(min=1)[owner])
